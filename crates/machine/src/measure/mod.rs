//! Measures this machine: the costs of a switch, a wake-up, a cache line and a cold cache. Writes them, with all else
//! that is known of the machine, as a machine file.
//!
//! - [`sample`]: many short batches, and the figure that they give
//! - [`calls`]: system calls, pipes, sockets, messages, wake-ups, switches, forks, threads
//! - [`lines`]: a cache line from CPU to CPU
//! - [`cold`]: reads of data that are not in a cache
//! - [`bandwidth`]: how much all CPUs of a node read from memory
//! - [`layout`]: the topology of CPUs and caches
//! - [`describe`]: the machine file
pub mod bandwidth;
pub mod calls;
pub mod cold;
mod describe;
pub mod layout;
pub mod lines;
pub mod sample;

pub use describe::{Cpufreq, describe};

use crate::Distance;
use calls::Channels;
use layout::Layout;
use nix::time::{ClockId, clock_getres};
use sample::Sample;
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a measurement failed.
#[derive(Debug, Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {cause}")]
    System {
        /// The call and its object.
        what: String,
        cause: std::io::Error,
    },
    /// The kernel's description of CPUs and caches is missing or wrong.
    #[error("{path}: {what}")]
    Topology {
        path: String,
        /// What is wrong with it.
        what: String,
    },
}

/// All that is measured, in ns each.
#[derive(Debug)]
pub struct Calibration {
    /// The processor's name and the kernel's release.
    pub machine: String,
    /// A system call: into the kernel and back.
    pub syscall: Sample,
    /// Pipes, and messages of 100 bytes through them, with two hundred queued.
    pub pipes: Channels,
    /// The same with pairs of sockets.
    pub sockets: Channels,
    /// From a write until the woken reader continues on the same CPU.
    pub one_way: Sample,
    /// The same where the reader's CPU is another one, which was idle; by distance.
    pub one_way_to: BTreeMap<Distance, Sample>,
    /// A `fork()`, for the parent.
    pub fork: Sample,
    /// A process from its `fork()` to the end of its parent's `waitpid()`.
    pub child: Sample,
    /// Starting a thread, as its creator measures it.
    pub thread_start: Sample,
    /// A thread from its start until it has been joined.
    pub thread_life: Sample,
    /// The transfer of a cache line between two CPUs, by distance.
    pub line: BTreeMap<Distance, Sample>,
    /// Reading a KiB from the shared cache instead of the core's own; `None`: no shared cache could be measured.
    pub shared: Option<Sample>,
    /// Reading a KiB from memory instead of the core's own cache.
    pub memory: Sample,
    /// What all CPUs of a node together read from memory.
    pub memory_gb_per_s: f64,
    /// Timer ticks in a second.
    pub tick_hz: u64,
    /// The topology of CPUs, and sizes of caches.
    pub layout: Layout,
}

/// Measures everything, which takes some seconds. `batches`: the number of batches of each measurement.
pub fn calibrate(batches: usize) -> Result<Calibration, Error> {
    let layout = Layout::read()?;
    let home = layout.cpus[0];
    let pairs = layout.pairs();
    let mut one_way_to = BTreeMap::new();
    let mut line = BTreeMap::new();
    for (&distance, &(from, to)) in &pairs {
        one_way_to.insert(distance, calls::one_way(batches, from, to)?);
        line.insert(distance, lines::transfer(batches, from, to)?);
    }
    let (fork, child) = calls::fork(batches, home)?;
    let (thread_start, thread_life) = calls::thread(batches, home)?;
    Ok(Calibration {
        machine: layout::machine(),
        syscall: calls::syscall(batches, home)?,
        pipes: calls::pipes(batches, home)?,
        sockets: calls::sockets(batches, home)?,
        one_way: calls::one_way(batches, home, home)?,
        one_way_to,
        fork,
        child,
        thread_start,
        thread_life,
        line,
        shared: cold::shared(batches, home, &layout)?,
        memory: cold::memory(batches, home, &layout)?,
        memory_gb_per_s: bandwidth::read_gb_per_s(batches, &layout)?,
        tick_hz: tick_hz()?,
        layout,
    })
}

/// The frequency of the timer tick, in Hz: the coarse clock advances once a tick.
fn tick_hz() -> Result<u64, Error> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_err(|e| Error::System { what: "clock_getres".into(), cause: e.into() })?;
    Ok((1e9 / std::time::Duration::from(tick).as_nanos().max(1) as f64).round() as u64)
}
