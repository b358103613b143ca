//! Where the CPUs are on which we may run, from `/sys/devices/system/cpu`.
use super::Error;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::Path;

/// How far apart two CPUs are, as in machine files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Threads of one core.
    Core,
    /// Cores that share a last-level cache.
    Cache,
    /// Caches of one node.
    Node,
    /// Different nodes.
    Remote,
}

/// The present machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// On which we may run; at least one.
    pub cpus: Vec<usize>,
    seats: Vec<Seat>,
    /// The largest cache of one core alone, in KiB.
    pub core_kib: u64,
    /// The last-level cache of several cores, in KiB; 0: there is none.
    pub shared_kib: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seat {
    core: String,
    /// The list of CPUs at its last-level cache.
    cache: String,
    node: usize,
}

const ROOT: &str = "/sys/devices/system/cpu";

impl Topology {
    /// Of this machine.
    pub fn read() -> Result<Self, Error> {
        let allowed = sched_getaffinity(Pid::from_raw(0))
            .map_err(|e| Error::System { what: "sched_getaffinity".into(), source: e.into() })?;
        let cpus: Vec<usize> =
            (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false)).collect();
        let seats = cpus.iter().map(|&cpu| seat(cpu)).collect::<Result<_, _>>()?;
        let caches = caches(cpus[0])?;
        let threads = text(&format!("{ROOT}/cpu{}/topology/core_cpus_list", cpus[0]))?;
        let of_core = caches.iter().filter(|cache| cache.cpus == threads).map(|cache| cache.kib).max();
        let of_several = caches.iter().filter(|cache| cache.cpus != threads).map(|cache| cache.kib).max();
        Ok(Self {
            cpus,
            seats,
            core_kib: of_core.or(of_several).unwrap_or(1),
            shared_kib: if of_core.is_some() { of_several.unwrap_or(0) } else { 0 },
        })
    }

    /// For each distance that there is, the first two CPUs that are so far apart.
    pub fn pairs(&self) -> BTreeMap<Distance, (usize, usize)> {
        let mut pairs = BTreeMap::new();
        let here = &self.seats[0];
        for (cpu, there) in self.cpus.iter().zip(&self.seats).skip(1) {
            let distance = if here.core == there.core {
                Distance::Core
            } else if here.cache == there.cache {
                Distance::Cache
            } else if here.node == there.node {
                Distance::Node
            } else {
                Distance::Remote
            };
            pairs.entry(distance).or_insert((self.cpus[0], *cpu));
        }
        pairs
    }
}

struct Cache {
    kib: u64,
    cpus: String,
}

fn caches(cpu: usize) -> Result<Vec<Cache>, Error> {
    let mut caches = Vec::new();
    for index in 0.. {
        let folder = format!("{ROOT}/cpu{cpu}/cache/index{index}");
        if !Path::new(&folder).exists() {
            break;
        }
        if text(&format!("{folder}/type"))? == "Instruction" {
            continue;
        }
        let path = format!("{folder}/size");
        let size = text(&path)?;
        let kib = size.strip_suffix('K').and_then(|digits| digits.parse().ok());
        let kib = kib.ok_or(Error::Topology { path, what: format!("{size} is not a number of KiB") })?;
        caches.push(Cache { kib, cpus: text(&format!("{folder}/shared_cpu_list"))? });
    }
    Ok(caches)
}

fn seat(cpu: usize) -> Result<Seat, Error> {
    let core = text(&format!("{ROOT}/cpu{cpu}/topology/core_cpus_list"))?;
    let last = caches(cpu)?.into_iter().max_by_key(|cache| cache.kib);
    let node = (0..1024).find(|node| Path::new(&format!("{ROOT}/cpu{cpu}/node{node}")).exists());
    Ok(Seat { cache: last.map_or(core.clone(), |cache| cache.cpus), core, node: node.unwrap_or(0) })
}

fn text(path: &str) -> Result<String, Error> {
    let text = std::fs::read_to_string(path);
    Ok(text.map_err(|source| Error::System { what: path.into(), source })?.trim().to_owned())
}

/// The processor's name and the kernel's release.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, name)| name.trim());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, Linux {}", kernel.trim())
}

/// From now on this thread runs on `cpu` only.
pub fn pin(cpu: usize) -> Result<(), Error> {
    let failed =
        |source: nix::Error| Error::System { what: format!("pinning to CPU {cpu}"), source: source.into() };
    let mut set = CpuSet::new();
    set.set(cpu).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}

/// Does `body` in a thread of its own on `cpu`, so that the caller's affinity stays as it is.
pub fn pinned<R: Send>(cpu: usize, body: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    let outcome = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                pin(cpu)?;
                body()
            })
            .join()
    });
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cpus_and_caches() {
        let topology = Topology::read().unwrap();
        assert_eq!(topology.cpus.len(), topology.seats.len());
        assert!(topology.core_kib >= 1);
        assert_eq!(topology.pairs().is_empty(), topology.cpus.len() == 1);
    }

    #[test]
    fn a_pinned_thread_stays_where_it_is() {
        let cpu = *Topology::read().unwrap().cpus.last().unwrap();
        // SAFETY: asks for a number.
        let found = pinned(cpu, || Ok(unsafe { libc::sched_getcpu() })).unwrap();
        assert_eq!(found, cpu as i32);
        assert!(pinned(CpuSet::count(), || Ok(())).is_err());
    }
}
