//! The probe: into the kernel, and what it has written out of it.
use super::record::{OpenTurn, Recording, Switched, Woken};
use crate::mapped::{Mapped, available_memory};
use crate::probe::Refusal;
use flsched_host::Purpose;
use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::mem::{MaybeUninit, size_of};
use std::ops::Range;
use std::os::fd::AsRawFd;

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, reason = "generated")]
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/why_skel.rs"));
}

/// As in why.bpf.c.
const MAX_CPUS: usize = 1024;
/// A sample takes two to three microseconds on the parallel clock.
const SAMPLE_EVERY_NS: u64 = 200_000;
/// Of the free memory, for records.
const MEMORY_SHARE: u64 = 4;
const MEMORY: Range<u64> = 16 << 20..1 << 30;

/// Where the kernel begins to choose the next task.
const SCHEDULE_BEGINS: &str = "sched_entry_tp";

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process or this kernel lacks what the probe needs.
    #[error(transparent)]
    Access(#[from] flsched_host::Error),
    /// A kernel in which the probe cannot see where scheduling begins and ends.
    #[error("--why needs Linux 6.16 or newer: this kernel has no tracepoint {}", SCHEDULE_BEGINS)]
    NoTracepoint,
    /// The kernel refused the probe.
    #[error("the kernel refused the probe of --why: {0}")]
    Refused(Refusal),
    /// The clock that samples cannot be had.
    #[error("the kernel refused the clock of --why (perf_event_open): {0}")]
    NoClock(std::io::Error),
    /// Its records cannot be read.
    #[error("the records of --why cannot be read: {0}")]
    Unreadable(#[from] nix::Error),
    /// More CPUs than the probe has room for.
    #[error("--why takes {MAX_CPUS} CPUs at most; the highest here has the number {0}")]
    TooManyCpus(usize),
}

/// The function that spins until a spin lock is free: as x86 with paravirtualization calls it, and as others do.
const SPINS: [&str; 2] = ["native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath"];

/// What this kernel declares; everything if its types cannot be read, as loading tells more then.
struct Declared(Option<Btf<'static>>);

impl Declared {
    fn here() -> Self {
        Self(Btf::from_vmlinux().ok())
    }

    fn has_tracepoint(&self, name: &str) -> bool {
        let Some(types) = &self.0 else { return true };
        types.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
    }

    fn has_function(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|types| types.type_by_name::<Func<'_>>(name).is_some())
    }
}

/// Chooses what to watch: processors have different interrupts, and names for the function that spins.
fn choose(open: &mut bpf::OpenWhySkel<'_>, declared: &Declared) -> Result<(), libbpf_rs::Error> {
    let spins = SPINS.into_iter().find(|name| declared.has_function(name));
    for program in [&mut open.progs.on_spin, &mut open.progs.on_spin_end] {
        match spins {
            Some(name) => program.set_attach_target(0, Some(name.into()))?,
            None => program.set_autoload(false),
        }
    }
    for mut program in open.open_object_mut().progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        if section.strip_prefix("tp_btf/").is_some_and(|name| !declared.has_tracepoint(name)) {
            program.set_autoload(false);
        }
    }
    Ok(())
}

impl From<libbpf_rs::Error> for Error {
    fn from(cause: libbpf_rs::Error) -> Self {
        Self::Refused(Refusal::of(&cause))
    }
}

/// Does `work` with the probe in the kernel, on a machine that has these CPUs online.
pub fn recorded<T>(cpus: &[usize], work: impl FnOnce() -> T) -> Result<(Recording, T), Error> {
    Purpose::WHY.check()?;
    let declared = Declared::here();
    if !declared.has_tracepoint(SCHEDULE_BEGINS) {
        return Err(Error::NoTracepoint);
    }
    let slots = cpus.iter().max().map_or(1, |highest| highest + 1);
    if slots > MAX_CPUS {
        return Err(Error::TooManyCpus(slots - 1));
    }
    let capacity = Capacity::of(available_memory(), slots);
    let mut storage = MaybeUninit::<OpenObject>::uninit();
    let mut open = bpf::WhySkelBuilder::default().open(&mut storage)?;
    let constants = open.maps.rodata_data.as_deref_mut().expect("the probe has some");
    constants.switch_capacity = capacity.switches;
    constants.wake_capacity = capacity.wakes;
    constants.slots = slots as u32;
    open.maps.switch_log.set_max_entries(capacity.switches * slots as u32)?;
    open.maps.wake_log.set_max_entries(capacity.wakes * slots as u32)?;
    choose(&mut open, &declared)?;
    let mut skel = open.load()?;
    // The sampler has a target for each CPU.
    skel.attach()?;
    let mut samplers = Vec::new();
    for &cpu in cpus {
        let clock = perf_event::Builder::new(perf_event::events::Software::CPU_CLOCK)
            .include_kernel()
            .any_pid()
            .one_cpu(cpu)
            .sample_period(SAMPLE_EVERY_NS)
            .build()
            .map_err(Error::NoClock)?;
        let link = skel.progs.on_sample.attach_perf_event(clock.as_raw_fd())?;
        samplers.push((link, clock));
    }
    for (_, clock) in &mut samplers {
        clock.enable().map_err(Error::NoClock)?;
    }
    let done = work();
    // Nothing is written any more.
    let links = std::mem::take(&mut skel.links);
    drop((links, samplers));
    let switches = Mapped::<Switched>::new(&skel.maps.switch_log)?;
    let wakes = Mapped::<Woken>::new(&skel.maps.wake_log)?;
    let counted = &skel.maps.bss_data.as_deref().expect("the probe has some").cpus;
    let mut recording = Recording::default();
    for &cpu in cpus {
        let of_cpu = &counted[cpu];
        let of = |records: u32, used: u64| cpu * records as usize..cpu * records as usize + used as usize;
        recording.switches.push(switches.records(of(capacity.switches, of_cpu.switches)).to_vec());
        let sent_to = |woken: &Woken| {
            let place = cpus.iter().position(|&id| id == woken.cpu as usize);
            Woken { cpu: place.map_or(u32::MAX, |place| place as u32), ..*woken }
        };
        recording.wakes.extend(wakes.records(of(capacity.wakes, of_cpu.wakes)).iter().map(sent_to));
        recording.open.push(OpenTurn { ns: of_cpu.ns, until: of_cpu.since });
        recording.yields += of_cpu.yields;
        let full_at = Some(of_cpu.full_at).filter(|at| *at > 0);
        recording.full_at = recording.full_at.into_iter().chain(full_at).min();
    }
    // Where a CPU comes online that none of these is, too little is known from then on.
    for cpu in (0..MAX_CPUS).filter(|cpu| !cpus.contains(cpu)) {
        let of_cpu = &counted[cpu];
        let first = cpu * capacity.switches as usize;
        let since = match of_cpu.switches {
            0 => Some(of_cpu.full_at).filter(|at| *at > 0),
            _ => switches.records(first..first + 1).first().map(|it| it.at),
        };
        recording.full_at = recording.full_at.into_iter().chain(since).min();
    }
    Ok((recording, done))
}

/// Capacity of each CPU's logs, in records.
#[derive(Debug, PartialEq, Eq)]
struct Capacity {
    switches: u32,
    wakes: u32,
}

impl Capacity {
    /// Two thirds for the switches, whose records are longer.
    fn of(available: u64, cpus: usize) -> Self {
        let each = (available / MEMORY_SHARE).clamp(MEMORY.start, MEMORY.end) / cpus as u64;
        let records = |bytes: u64, size: usize| u32::try_from(bytes / size as u64).unwrap_or(u32::MAX).max(1);
        Self {
            switches: records(each / 3 * 2, size_of::<Switched>()),
            wakes: records(each / 3, size_of::<Woken>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_take_a_share_of_the_memory() {
        let capacity = Capacity::of(4 << 30, 8);
        let bytes = 8 * (u64::from(capacity.switches) * 56 + u64::from(capacity.wakes) * 16);
        assert!(bytes <= 1 << 30 && bytes > (1 << 30) - 4096, "{bytes}");
        assert_eq!(Capacity::of(0, 8), Capacity::of(64 << 20, 8), "there is always some");
        assert!(Capacity::of(0, 1024).wakes > 0);
    }
}
