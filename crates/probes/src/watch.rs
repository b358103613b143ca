//! For `flsched top`: which tasks of this machine run, and which wait for a CPU and for how long, under any scheduler.
//!
//! [`watched`] traces switches only; see `bpf/watch.bpf.c`. Everything is counted from the start, so that the difference of
//! two [`Look`]s is what happened between them.
use crate::probe::{self, Refusal};
use flsched_host::Purpose;
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::mem::MaybeUninit;

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, reason = "generated")]
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/watch_skel.rs"));
}

/// Buckets of each octave, as in watch.bpf.c.
const PARTS: usize = 8;
/// As in watch.bpf.c.
const BUCKETS: usize = 40 * PARTS;
const COMM: usize = 16;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process or this kernel lacks what the probe needs.
    #[error(transparent)]
    Access(#[from] flsched_host::Error),
    /// The kernel refused the probe.
    #[error("the kernel refused the probe of top: {0}")]
    Refused(Refusal),
    /// What it has written cannot be read.
    #[error("what the probe has written cannot be read")]
    Unreadable(#[from] std::io::Error),
}

impl From<libbpf_rs::Error> for Error {
    fn from(cause: libbpf_rs::Error) -> Self {
        Self::Refused(Refusal::of(&cause))
    }
}

/// The machine at one moment. Counts begin when watching began.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// `CLOCK_MONOTONIC`, in ns.
    pub at_ns: u64,
    pub cpus: Vec<CpuCount>,
    /// How many wake-ups had a latency of each [`bucket`](bucket_from_ns).
    pub wake_ups: Vec<u64>,
    /// Tasks that run, and tasks that wait for a CPU.
    pub runnable: Vec<Runnable>,
}

/// What a CPU has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuCount {
    pub cpu: u32,
    /// Switches from one task to another one, or to or from idling.
    pub switches: u64,
    /// How long it has idled, in ns.
    pub idle_ns: u64,
}

/// A task that runs or waits for a CPU.
#[derive(Debug, Clone, Default)]
pub struct Runnable {
    pub pid: u32,
    /// That of its process.
    pub tgid: u32,
    pub name: String,
    /// Where it runs or waits.
    pub cpu: u32,
    /// It has that CPU.
    pub runs: bool,
    /// How long it has waited; 0: it runs.
    pub wait_ns: u64,
    /// CPU time that it has had.
    pub runtime_ns: u64,
    /// `SCHED_…`.
    pub policy: u32,
    /// 120: nice 0.
    pub static_prio: i32,
    /// On how many CPUs it may run.
    pub nr_cpus_allowed: u32,
}

/// The same, as in watch.bpf.c.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct RawRunnable {
    wait_ns: u64,
    runtime_ns: u64,
    pid: u32,
    tgid: u32,
    cpu: u32,
    policy: u32,
    static_prio: i32,
    nr_cpus_allowed: u32,
    runs: u32,
    comm: [u8; COMM],
    padding: u32,
}

impl From<RawRunnable> for Runnable {
    fn from(raw: RawRunnable) -> Self {
        Self {
            pid: raw.pid,
            tgid: raw.tgid,
            name: probe::name_of(&raw.comm),
            cpu: raw.cpu,
            runs: raw.runs != 0,
            wait_ns: raw.wait_ns,
            runtime_ns: raw.runtime_ns,
            policy: raw.policy,
            static_prio: raw.static_prio,
            nr_cpus_allowed: raw.nr_cpus_allowed,
        }
    }
}

/// The shortest latency of a bucket. The next bucket's is an eighth of a power of two longer.
pub fn bucket_from_ns(bucket: usize) -> u64 {
    let (octave, part) = (bucket / PARTS, (bucket % PARTS) as u64);
    if octave == 0 { part } else { (PARTS as u64 + part) << (octave - 1) }
}

/// Looks at the machine.
pub struct Watcher<'a> {
    skel: bpf::WatchSkel<'a>,
    cpus: Vec<u32>,
    began_ns: u64,
}

/// Watches the machine while `work` is done.
pub fn watched<T>(work: impl FnOnce(&Watcher<'_>) -> T) -> Result<T, Error> {
    Purpose::TOP.check()?;
    let mut storage = MaybeUninit::<OpenObject>::uninit();
    let mut open = bpf::WatchSkelBuilder::default().open(&mut storage)?;
    let constants = open.maps.rodata_data.as_deref_mut().expect("the probe has some");
    constants.own_pid = std::process::id() as i32;
    let mut skel = open.load()?;
    let began_ns = probe::now_ns()?;
    skel.maps.bss_data.as_deref_mut().expect("the probe has some").began = began_ns;
    skel.attach()?;
    let cpus = flsched_host::cpu_locations().iter().map(|cpu| cpu.cpu as u32).collect();
    Ok(work(&Watcher { skel, cpus, began_ns }))
}

impl Watcher<'_> {
    /// The machine as it is now.
    pub fn look(&self) -> Result<Look, Error> {
        let bytes = probe::iterated::<Error>(self.skel.links.on_task.as_ref())?;
        // SAFETY: plain numbers.
        let runnable = unsafe { probe::records::<RawRunnable>(&bytes) }.map(Runnable::from).collect();
        let at_ns = probe::now_ns()?;
        let offset = self.skel.maps.bss_data.as_deref().expect("the probe has some").clock_offset;
        let records = probe::per_cpu(&probe::map(self.skel.object(), "cpu_records"), &0u32.to_ne_bytes());
        let mut look = Look { at_ns, cpus: Vec::new(), wake_ups: vec![0; BUCKETS], runnable };
        for (cpu, record) in records.iter().enumerate() {
            let cpu = cpu as u32;
            let [switches, idle_ns, idle_since, latencies @ ..] = record.as_slice() else { continue };
            // One that was not online when watching began may have come online since.
            if *switches == 0 && !self.cpus.contains(&cpu) {
                continue;
            }
            look.wake_ups.iter_mut().zip(latencies).for_each(|(sum, count)| *sum += count);
            let idles_since = match (*switches, *idle_since) {
                // It has not switched yet. Perhaps a task runs there all the time.
                (0, _) => look.runnable.iter().all(|it| !it.runs || it.cpu != cpu).then_some(self.began_ns),
                (_, 0) => None,
                (_, since) => Some(since.wrapping_sub_signed(offset)),
            };
            let idles_ns = idles_since.map_or(0, |since| at_ns.saturating_sub(since));
            look.cpus.push(CpuCount { cpu, switches: *switches, idle_ns: idle_ns + idles_ns });
        }
        Ok(look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bucket_of() in watch.bpf.c.
    fn bucket_of(ns: u64) -> usize {
        match ns {
            0..8 => ns as usize,
            _ => {
                let octave = ns.ilog2() as usize;
                (octave - 2) * PARTS + (ns >> (octave - 3)) as usize % PARTS
            }
        }
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..250 {
            let from = bucket_from_ns(bucket);
            assert_eq!(bucket_of(from), bucket);
            assert_eq!(bucket_of(bucket_from_ns(bucket + 1) - 1), bucket);
        }
    }

    #[test]
    fn a_record_is_as_the_probe_writes_it() {
        assert_eq!(size_of::<RawRunnable>(), 64);
    }
}
