//! BPF programs on kernel functions: loading, attaching, reading their counts.
use crate::Error;
use flsched_host::log;
use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use libbpf_rs::{
    Iter, KprobeMultiOpts, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramMut,
};
use nix::time::{ClockId, clock_gettime};
use std::fmt;
use std::fs::read_to_string;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Opens a probe's object, to be configured and loaded.
pub(crate) fn open(name: &'static str, object: &[u8]) -> Result<OpenObject, Error> {
    ObjectBuilder::default().name(name).and_then(|builder| builder.open_memory(object)).map_err(refused(name))
}

/// The error for a probe that the kernel refuses.
pub(crate) fn refused(probe: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |cause| Error::Probe { probe, refusal: Refusal::of(&cause) }
}

/// Why the kernel refused a probe: libbpf's error, and the end of its messages.
#[derive(Debug)]
pub struct Refusal {
    cause: String,
    log: Vec<String>,
}

impl Refusal {
    pub(crate) fn of(cause: &libbpf_rs::Error) -> Self {
        let cause = format!("{cause:#}");
        match flsched_host::forbidden_by(&cause) {
            // libbpf's messages would blame a limit of memory.
            Some(forbidden) => Self { cause: forbidden.to_string(), log: Vec::new() },
            None => Self { cause, log: log::tail() },
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.cause, log::indented(&self.log))
    }
}

/// A program of the probe, by its name in the C source.
pub(crate) fn program<'a>(object: &'a Object, name: &str) -> ProgramMut<'a> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.unwrap_or_else(|| unreachable!("{name} is in src/bpf"))
}

/// A map of the probe, by its name in the C source.
pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    object.maps().find(|map| map.name() == name).unwrap_or_else(|| unreachable!("{name} is in src/bpf"))
}

/// A kernel function and the cookie that the program gets there.
pub(crate) type Target = (String, u64);

/// Attaches a program to the entry or return of functions; returns those that the kernel refuses.
/// All at once, which is fast; one by one only if the kernel refuses them all because of one.
pub(crate) fn attach_to(
    program: &ProgramMut<'_>,
    on_return: bool,
    targets: &[Target],
    links: &mut Vec<Link>,
) -> Vec<String> {
    let mut attach = |targets: &[Target]| {
        let (symbols, cookies) = targets.iter().cloned().unzip();
        let options = KprobeMultiOpts { symbols, cookies, retprobe: on_return, _non_exhaustive: () };
        program.attach_kprobe_multi_with_opts(options).map(|link| links.push(link)).is_ok()
    };
    if targets.is_empty() || attach(targets) {
        return Vec::new();
    }
    let refusing = targets.iter().filter(|target| !attach(std::slice::from_ref(*target)));
    refusing.map(|(symbol, _)| symbol.clone()).collect()
}

/// All that an iterator, which has been attached, writes now.
pub(crate) fn iterated<E: From<libbpf_rs::Error> + From<io::Error>>(
    link: Option<&Link>,
) -> Result<Vec<u8>, E> {
    let mut bytes = Vec::new();
    Iter::new(link.expect("all programs are attached"))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Records as the BPF side wrote them, one after the other; a part of one at the end is left out.
///
/// # Safety
///
/// Any bytes must be a `T`: it consists of plain numbers.
pub(crate) unsafe fn records<T: Copy>(bytes: &[u8]) -> impl Iterator<Item = T> {
    // SAFETY: each chunk has a record's size, and the caller says that any bytes are one.
    bytes.chunks_exact(size_of::<T>()).map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A task's name as the kernel keeps it: up to the first byte that is 0.
pub(crate) fn name_of(comm: &[u8]) -> String {
    let length = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..length]).into_owned()
}

/// `CLOCK_MONOTONIC`, in ns.
pub(crate) fn now_ns() -> io::Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// A value as the BPF side wrote it: a row of 64-bit words.
pub(crate) fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Each CPU's words for a key of a per-CPU map.
pub(crate) fn per_cpu(map: &Map<'_>, key: &[u8]) -> Vec<Vec<u64>> {
    let values = map.lookup_percpu(key, MapFlags::ANY).ok().flatten().unwrap_or_default();
    values.iter().map(|value| words(value)).collect()
}

/// The same, summed over CPUs.
pub(crate) fn summed(map: &Map<'_>, key: &[u8]) -> Vec<u64> {
    let mut sum = vec![0; map.value_size() as usize / 8];
    for cpu in per_cpu(map, key) {
        sum.iter_mut().zip(cpu).for_each(|(sum, word)| *sum += word);
    }
    sum
}

/// From now on, until the result is dropped, the kernel times BPF programs.
pub(crate) fn timed() -> Result<OwnedFd, std::io::Error> {
    // SAFETY: takes an integer; the descriptor it returns is owned here, and ends the timing when closed.
    unsafe {
        match bpf_enable_stats(BPF_STATS_RUN_TIME) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            error => Err(std::io::Error::from_raw_os_error(-error)),
        }
    }
}

/// Runs of a program and nanoseconds in it, which the kernel shows with the descriptor.
pub(crate) fn statistics(program: &libbpf_rs::Program<'_>) -> Result<(u64, u64), std::io::Error> {
    let shown = read_to_string(format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd()))?;
    let field = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    Ok((field("run_cnt"), field("run_time_ns")))
}
