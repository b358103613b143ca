//! For tests: how often tasks of certain names left a CPU, how often they went to another one, and their wake-up
//! latencies, from the kernel's trace points. Needs root, and BTF of the kernel.
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::mem::MaybeUninit;

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, reason = "generated")]
mod probe {
    include!(concat!(env!("OUT_DIR"), "/tally_skel.rs"));
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// How often one of them left its CPU to another one, to the idle task or to their parent.
    pub switches: u64,
    /// How often one of them went to another CPU.
    pub migrations: u64,
    /// From each wake-up, of a new task, too, to running; in ascending order.
    pub latencies_ns: Vec<u32>,
}

/// Which tasks to count.
#[derive(Debug, Clone, Copy)]
pub struct TaskFilter<'a> {
    /// Tasks of these names, two at most.
    pub names: &'a [&'a str],
    /// Children of this process are not counted.
    pub except_children_of: Option<u32>,
}

/// Counts while `work` is done.
///
/// # Panics
///
/// If there are more wake-ups than the probe keeps.
pub fn counted<T>(filter: TaskFilter<'_>, work: impl FnOnce() -> T) -> Result<(Counts, T), libbpf_rs::Error> {
    let mut storage = MaybeUninit::<OpenObject>::uninit();
    let mut open = probe::TallySkelBuilder::default().open(&mut storage)?;
    let constants = open.maps.rodata_data.as_deref_mut().expect("the probe has some");
    for (slot, name) in constants.names.iter_mut().zip(filter.names) {
        // As the kernel truncates them.
        for (to, from) in slot.iter_mut().take(15).zip(name.bytes()) {
            *to = from as _;
        }
    }
    constants.parent = filter.except_children_of.unwrap_or(0) as i32;
    let mut skel = open.load()?;
    skel.attach()?;
    let done = work();
    let found = skel.maps.bss_data.as_deref().expect("the probe has some");
    let mut latencies_ns = found.latencies[..found.wake_ups as usize].to_vec();
    latencies_ns.sort_unstable();
    Ok((Counts { switches: found.switches, migrations: found.migrations, latencies_ns }, done))
}
