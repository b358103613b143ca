//! The probe: into the kernel, and what it has written out of it.
use super::log::{Chunk, Identity, MAX_CPUS};
use super::merge::{Logs, Merged};
use crate::mapped::{Mapped, available_memory};
use crate::probe::{self, Refusal};
use crate::run::CLOCK_VARIABLE;
use flsched_host::{CpuLocation, Purpose};
use flsched_recording::{Cpu, Header, Recording};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem::{MaybeUninit, size_of};

#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks, reason = "generated")]
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/record_skel.rs"));
}

/// Of the memory for the log, the share that describes the tasks.
const IDENTITIES_SHARE: u64 = 8;
/// Of the free memory, for the log at most.
const MEMORY_SHARE: u64 = 8;
const MIB: u64 = 1 << 20;

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process or this kernel lacks what the probe needs.
    #[error(transparent)]
    Access(#[from] flsched_host::Error),
    /// The kernel refused the probe.
    #[error("the kernel refused the probe of record: {0}")]
    Refused(Refusal),
    /// What it has written cannot be read.
    #[error("what the probe has written cannot be read")]
    Unreadable(#[from] std::io::Error),
    /// More CPUs than the probe has room for.
    #[error("record takes {MAX_CPUS} CPUs at most; the highest here has the number {0}")]
    TooManyCpus(u32),
    /// A log that holds nothing.
    #[error("too little memory is free for a recording")]
    NoMemory,
}

impl From<libbpf_rs::Error> for Error {
    fn from(cause: libbpf_rs::Error) -> Self {
        Self::Refused(Refusal::of(&cause))
    }
}

/// How much may be recorded.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The log's size in MiB; `None`: 256, or an eighth of the free memory if that is less.
    pub mib: Option<u64>,
}

impl Limits {
    const DEFAULT_MIB: u64 = 256;

    fn bytes(self, available: u64) -> u64 {
        self.mib.map_or((available / MEMORY_SHARE).min(Self::DEFAULT_MIB * MIB), |mib| mib * MIB)
    }
}

/// What can be seen of the recording while it goes on.
pub struct Watch<'a> {
    next_chunk: *const u32,
    chunks: u32,
    command: &'a Cell<Option<u32>>,
}

impl Watch<'_> {
    /// How much of the log is in use, from 0 to 1.
    pub fn used(&self) -> f64 {
        // SAFETY: in the probe's memory, which is mapped as long as `recorded` works.
        let taken = unsafe { self.next_chunk.read_volatile() };
        f64::from(taken.min(self.chunks)) / f64::from(self.chunks)
    }

    /// The number of the command that is recorded.
    pub fn command_is(&self, number: u32) {
        self.command.set(Some(number));
    }
}

/// Records all tasks of this machine while `work` is done.
pub fn recorded<T>(limits: Limits, work: impl FnOnce(&Watch<'_>) -> T) -> Result<(Recording, T), Error> {
    Purpose::RECORD.check()?;
    let cpus = flsched_host::cpu_locations();
    if let Some(cpu) = cpus.iter().find(|cpu| cpu.cpu >= MAX_CPUS) {
        return Err(Error::TooManyCpus(cpu.cpu as u32));
    }
    let bytes = limits.bytes(available_memory());
    let of_identities = bytes / IDENTITIES_SHARE;
    let capacity = |bytes: u64, size: usize| u32::try_from(bytes / size as u64).unwrap_or(u32::MAX);
    let chunks = capacity(bytes - of_identities, size_of::<Chunk>());
    let identities = capacity(of_identities, size_of::<Identity>());
    if chunks < cpus.len() as u32 || identities == 0 {
        return Err(Error::NoMemory);
    }

    let mut storage = MaybeUninit::<OpenObject>::uninit();
    let mut open = bpf::RecordSkelBuilder::default().open(&mut storage)?;
    let constants = open.maps.rodata_data.as_deref_mut().expect("the probe has some");
    (constants.chunks, constants.identities) = (chunks, identities);
    open.maps.event_log.set_max_entries(chunks)?;
    open.maps.identity_log.set_max_entries(identities)?;
    let mut skel = open.load()?;
    let timing = probe::timed()?;
    skel.attach()?;
    let schedulers_from = flsched_host::status::in_force();
    let mut seen = Vec::new();
    let tasks_now = |skel: &bpf::RecordSkel<'_>| probe::iterated::<Error>(skel.links.on_task.as_ref());
    seen.extend(Identity::all_in(&tasks_now(&skel)?));

    let start = probe::now_ns()?;
    let command = Cell::new(None);
    let data = skel.maps.bss_data.as_deref().expect("the probe has some");
    let done = work(&Watch { next_chunk: &raw const data.next_chunk, chunks, command: &command });
    let end = probe::now_ns()?;

    seen.extend(Identity::all_in(&tasks_now(&skel)?));
    let mut overhead = 0;
    for program in skel.object().progs() {
        overhead += probe::statistics(&program)?.1;
    }
    // Nothing is written any more.
    drop((std::mem::take(&mut skel.links), timing));

    let data = skel.maps.bss_data.as_deref().expect("the probe has some");
    let log = Mapped::<Chunk>::new(&skel.maps.event_log).map_err(std::io::Error::from)?;
    let chunks = log.records(0..data.next_chunk.min(chunks) as usize);
    let seen_on: BTreeSet<usize> = chunks.iter().map(|chunk| chunk.cpu as usize).collect();
    let cpus = with_later(cpus, flsched_host::cpu_locations(), &seen_on);
    let mut logs = Logs {
        cpus: cpus.iter().map(|cpu| cpu.cpu as u32).collect(),
        events: vec![Vec::new(); cpus.len()],
        identities: seen,
    };
    for chunk in chunks {
        if let Some(place) = logs.cpus.iter().position(|&cpu| cpu == chunk.cpu) {
            logs.events[place].extend_from_slice(&chunk.events[..chunk.used as usize]);
        }
    }
    let identity_log = Mapped::<Identity>::new(&skel.maps.identity_log).map_err(std::io::Error::from)?;
    logs.identities.extend_from_slice(identity_log.records(0..data.next_identity.min(identities) as usize));

    let full_at = data.cpus.iter().map(|cpu| cpu.full_at).filter(|&at| at > 0).min();
    let span = start..full_at.map_or(end, |full_at| full_at.clamp(start, end));
    let later = logs.events.iter().flatten().filter(|event| (span.end..end).contains(&event.at)).count();
    let merged = Merged::of(&logs, &span, std::process::id());
    let header = Header {
        flsched: env!("CARGO_PKG_VERSION").into(),
        kernel: flsched_host::kernel_release(),
        cpus: cpus
            .iter()
            .map(|cpu| Cpu {
                id: cpu.cpu as u32,
                core: cpu.core as u32,
                cache: cpu.llc as u32,
                node: cpu.node as u32,
            })
            .collect(),
        cpu_model: cpu_model(),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clock: std::env::var(CLOCK_VARIABLE).ok(),
        schedulers: [schedulers_from, flsched_host::status::in_force()],
        command: None,
        command_task: command.get().and_then(|number| merged.last_task_of(number)),
        is_anonymous: false,
        length: span.end - span.start,
        migrations: data.cpus.iter().map(|cpu| cpu.migrations).sum(),
        lost: data.cpus.iter().map(|cpu| cpu.lost).sum::<u64>() + later as u64,
        overhead,
        counters: Vec::new(),
    };
    Ok((Recording { header, tasks: merged.tasks, events: merged.events }, done))
}

/// The CPUs, and those of which there are events: they came online while it was recorded. `now`: where those are that are
/// online now. Of one that is gone again nobody knows where it was.
fn with_later(cpus: Vec<CpuLocation>, now: Vec<CpuLocation>, seen_on: &BTreeSet<usize>) -> Vec<CpuLocation> {
    let numbers: BTreeSet<usize> = cpus.iter().map(|cpu| cpu.cpu).collect();
    if seen_on.is_subset(&numbers) {
        return cpus;
    }
    // Cores and caches may be numbered in another way now.
    let all_are_online = numbers.iter().all(|&number| now.iter().any(|cpu| cpu.cpu == number));
    let mut known = if all_are_online { now } else { cpus };
    known.retain(|cpu| numbers.contains(&cpu.cpu) || seen_on.contains(&cpu.cpu));
    for &number in seen_on {
        if known.iter().all(|cpu| cpu.cpu != number) {
            let core = known.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0);
            let (llc, node) = known.first().map_or((0, 0), |first| (first.llc, first.node));
            known.push(CpuLocation { cpu: number, core, llc, node });
        }
    }
    known.sort_by_key(|cpu| cpu.cpu);
    known
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn cpu_model() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'))?;
    Some(line.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_takes_a_share_of_the_memory_unless_its_size_is_given() {
        assert_eq!(Limits { mib: None }.bytes(1 << 30), 128 * MIB);
        assert_eq!(Limits { mib: None }.bytes(1 << 40), 256 * MIB);
        assert_eq!(Limits { mib: Some(3) }.bytes(1 << 40), 3 * MIB);
    }

    #[test]
    fn a_cpu_that_comes_online_has_its_place() {
        let at = |cpu, core| CpuLocation { cpu, core, llc: 3, node: 1 };
        let numbers = |cpus: Vec<CpuLocation>| -> Vec<(usize, usize)> {
            cpus.iter().map(|cpu| (cpu.cpu, cpu.core)).collect()
        };
        let (before, now) = (vec![at(0, 0), at(2, 1)], vec![at(0, 0), at(1, 1), at(2, 2), at(3, 3)]);
        let seen = |cpus: &[usize]| {
            numbers(with_later(before.clone(), now.clone(), &cpus.iter().copied().collect()))
        };
        assert_eq!(seen(&[0]), [(0, 0), (2, 1)], "none has come");
        assert_eq!(seen(&[0, 1, 2]), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(seen(&[0, 2, 9]), [(0, 0), (2, 2), (9, 3)], "it is gone again");
        let gone = with_later(before.clone(), vec![at(0, 0), at(1, 1)], &BTreeSet::from([0, 1]));
        assert_eq!(numbers(gone), [(0, 0), (1, 2), (2, 1)], "another one is gone");
    }
}
