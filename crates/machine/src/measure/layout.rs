//! Where this machine's CPUs and caches are, from `/sys/devices/system/cpu`.
use super::Error;
use crate::{Certainty, Distance, Numbering, Small, Topology};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use toml::Spanned;

const ROOT: &str = "/sys/devices/system/cpu";
/// A core with one thread counts as small if its speed is at most this share of the fastest core's. Smaller
/// differences are frequencies of cores of the same kind.
const SMALL_PERCENT: u64 = 85;

/// The CPUs and caches of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The online CPUs on which this process may run; at least one.
    pub cpus: Vec<usize>,
    online: BTreeMap<usize, CpuInfo>,
    /// The largest cache that belongs to one core, in KiB.
    pub core_kib: u64,
    /// The last-level cache that several cores share, in KiB; 0: there is none.
    pub shared_kib: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CpuInfo {
    /// The list of CPUs of its core, as the kernel prints it.
    core: String,
    /// The list of CPUs that share its last-level cache.
    cache: String,
    node: usize,
    package: String,
    /// Its speed relative to other CPUs: its capacity, or else its highest frequency; `None`: unknown.
    speed: Option<u64>,
}

impl Layout {
    /// Reads the layout of this machine.
    pub fn read() -> Result<Self, Error> {
        let allowed = sched_getaffinity(Pid::from_raw(0))
            .map_err(|e| Error::System { what: "sched_getaffinity".into(), cause: e.into() })?;
        Self::of(Path::new(ROOT), |cpu| allowed.is_set(cpu).unwrap_or(false))
    }

    fn of(root: &Path, is_allowed: impl Fn(usize) -> bool) -> Result<Self, Error> {
        let online = online(root)?
            .into_iter()
            .map(|cpu| Ok((cpu, cpu_info(&root.join(format!("cpu{cpu}")))?)))
            .collect::<Result<BTreeMap<usize, CpuInfo>, Error>>()?;
        let cpus: Vec<usize> = online.keys().copied().filter(|&cpu| is_allowed(cpu)).collect();
        let Some(home) = cpus.first() else {
            let what = "it has no online CPU on which this process may run".into();
            return Err(Error::Topology { path: root.display().to_string(), what });
        };
        let caches = caches(&root.join(format!("cpu{home}")))?;
        let threads = &online[home].core;
        let of_core = caches.iter().filter(|cache| cache.cpus == *threads).map(|cache| cache.kib).max();
        let of_several = caches.iter().filter(|cache| cache.cpus != *threads).map(|cache| cache.kib).max();
        Ok(Self {
            core_kib: of_core.or(of_several).unwrap_or(1),
            shared_kib: if of_core.is_some() { of_several.unwrap_or(0) } else { 0 },
            cpus,
            online,
        })
    }

    /// For each distance from the first CPU to another: the pair of CPUs, with the lowest number of the other.
    pub fn pairs(&self) -> BTreeMap<Distance, (usize, usize)> {
        let mut pairs = BTreeMap::new();
        let here = &self.online[&self.cpus[0]];
        for cpu in &self.cpus[1..] {
            let there = &self.online[cpu];
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

    /// The CPUs of the first one's node.
    pub(super) fn cpus_of_first_node(&self) -> Vec<usize> {
        let node = self.online[&self.cpus[0]].node;
        self.cpus.iter().copied().filter(|cpu| self.online[cpu].node == node).collect()
    }

    /// The numbers of cores, last-level caches and sockets.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.count(|info| &info.core), self.count(|info| &info.cache), self.count(|info| &info.package))
    }

    fn count<'a, T: Ord>(&'a self, of: impl Fn(&'a CpuInfo) -> T) -> usize {
        self.online.values().map(of).collect::<BTreeSet<T>>().len()
    }

    /// The topology for a machine file, in which all sockets are alike. Where they are not, the largest number of
    /// each kind is taken for all.
    pub(super) fn topology(&self) -> Topology {
        let mut cores: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (cpu, info) in &self.online {
            cores.entry(&info.core).or_default().push(*cpu);
        }
        let threads = cores.values().map(Vec::len).max().unwrap_or(1);
        let fastest = self.online.values().filter_map(|info| info.speed).max();
        let is_small = |cpus: &[usize]| {
            let percent = self.online[&cpus[0]].speed.zip(fastest).map(|(own, best)| own * 100 / best.max(1));
            cpus.len() == 1 && percent.is_some_and(|percent| percent <= SMALL_PERCENT)
        };
        let (small, large): (Vec<_>, Vec<_>) = cores.values().partition(|cpus| is_small(cpus));
        let (_, caches, packages) = self.counts();
        let nodes = self.count(|info| info.node);
        let nodes_per_package = nodes.div_ceil(packages);
        let all_nodes = packages * nodes_per_package;
        let caches_per_node = caches.div_ceil(all_nodes);
        let all_caches = all_nodes * caches_per_node;
        let cores_per_cache = large.len().div_ceil(all_caches);
        let small_per_cache = small.len().div_ceil(all_caches);
        let is_regular = (nodes, caches) == (all_nodes, all_caches)
            && all_caches * (cores_per_cache * threads + small_per_cache) == self.online.len();
        let percent = || {
            let speeds: u64 = small.iter().filter_map(|cpus| self.online[&cpus[0]].speed).sum();
            (speeds * 100 / small.len() as u64 / fastest.unwrap_or(1).max(1)).clamp(1, 100) as u32
        };
        let found = format!(
            "{ROOT}: {} CPUs, {} cores, {caches} last-level caches, {nodes} nodes, {packages} sockets",
            self.online.len(),
            cores.len()
        );
        let is_together = |cpus: &&Vec<usize>| cpus.windows(2).all(|pair| pair[1] == pair[0] + 1);
        Topology {
            source: match is_regular {
                true => found,
                false => found + "; they are not alike, the largest number of each is taken for all",
            },
            certainty: if is_regular { Certainty::Measured } else { Certainty::Estimated },
            packages,
            nodes_per_package,
            caches_per_node,
            cores_per_cache,
            threads_per_core: threads,
            numbering: match small.is_empty() && !large.iter().all(is_together) {
                true => Numbering::ThreadsApart,
                false => Numbering::ThreadsTogether,
            },
            small: (small_per_cache > 0)
                .then(|| Small { cores_per_cache: small_per_cache, percent: Spanned::new(0..0, percent()) }),
        }
    }
}

/// The CPUs with a `topology` folder: those that are online.
fn online(root: &Path) -> Result<Vec<usize>, Error> {
    let failed = |source: io::Error| Error::System { what: root.display().to_string(), cause: source };
    let mut cpus = Vec::new();
    for entry in root.read_dir().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        cpus.extend(number.filter(|cpu: &usize| root.join(format!("cpu{cpu}/topology")).exists()));
    }
    cpus.sort_unstable();
    Ok(cpus)
}

struct Cache {
    kib: u64,
    cpus: String,
}

/// The data caches and unified caches of a CPU. Caches whose size the kernel does not report are left out.
fn caches(cpu: &Path) -> Result<Vec<Cache>, Error> {
    let mut caches = Vec::new();
    for index in 0.. {
        let folder = cpu.join(format!("cache/index{index}"));
        if !folder.exists() {
            break;
        }
        let path = folder.join("size");
        let Some(size) = text(&path)?.filter(|_| !is_for_instructions(&folder)) else { continue };
        let kib = size.strip_suffix('K').and_then(|digits| digits.parse().ok());
        let kib = kib.ok_or_else(|| Error::Topology {
            path: path.display().to_string(),
            what: format!("{size} is not a number of KiB"),
        })?;
        caches.push(Cache { kib, cpus: needed(folder.join("shared_cpu_list"))? });
    }
    Ok(caches)
}

fn is_for_instructions(cache: &Path) -> bool {
    std::fs::read_to_string(cache.join("type")).is_ok_and(|kind| kind.trim() == "Instruction")
}

fn cpu_info(cpu: &Path) -> Result<CpuInfo, Error> {
    let core = needed(cpu.join("topology/core_cpus_list"))?;
    let last = caches(cpu)?.into_iter().max_by_key(|cache| cache.kib);
    let node = (0..1024).find(|node| cpu.join(format!("node{node}")).exists());
    let speed = |file: &str| Ok::<_, Error>(text(&cpu.join(file))?.and_then(|number| number.parse().ok()));
    Ok(CpuInfo {
        cache: last.map_or_else(|| core.clone(), |cache| cache.cpus),
        node: node.unwrap_or(0),
        package: needed(cpu.join("topology/physical_package_id"))?,
        speed: match speed("cpu_capacity")? {
            Some(capacity) => Some(capacity),
            None => speed("cpufreq/cpuinfo_max_freq")?,
        },
        core,
    })
}

/// The text of a file; `None`: it does not exist.
fn text(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::System { what: path.display().to_string(), cause: source }),
    }
}

fn needed(path: PathBuf) -> Result<String, Error> {
    let missing = || Error::System { what: path.display().to_string(), cause: ErrorKind::NotFound.into() };
    text(&path)?.ok_or_else(missing)
}

/// The processor's name and the kernel's release.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor without a name", |(_, name)| name.trim());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, Linux {}", kernel.trim())
}

/// Restricts this thread to `cpu`.
pub fn pin(cpu: usize) -> Result<(), Error> {
    let failed =
        |source: nix::Error| Error::System { what: format!("pinning to CPU {cpu}"), cause: source.into() };
    let mut set = CpuSet::new();
    set.set(cpu).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}

/// Runs `body` in a new thread on `cpu`, so that the caller's affinity does not change.
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
pub(super) mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    /// A CPU of an invented machine: the lists of its core and of its last-level cache, its node and its socket.
    pub(in crate::measure) struct Made<'a> {
        pub core: &'a str,
        pub cache: &'a str,
        pub node: usize,
        pub package: usize,
        pub capacity: u64,
    }

    /// The layout that is read from a folder with these CPUs.
    pub(in crate::measure) fn layout(cpus: &[Made<'_>]) -> Layout {
        let root = tempfile::tempdir().unwrap();
        for (number, cpu) in cpus.iter().enumerate() {
            let folder = root.path().join(format!("cpu{number}"));
            for inner in ["topology", "cache/index0", "cache/index1", "cache/index2"] {
                create_dir_all(folder.join(inner)).unwrap();
            }
            create_dir_all(folder.join(format!("node{}", cpu.node))).unwrap();
            let put = |file: &str, text: &str| write(folder.join(file), format!("{text}\n")).unwrap();
            put("topology/core_cpus_list", cpu.core);
            put("topology/physical_package_id", &cpu.package.to_string());
            put("cpu_capacity", &cpu.capacity.to_string());
            for (cache, kind, size, list) in [
                ("index0", "Instruction", "32K", cpu.core),
                ("index1", "Unified", "512K", cpu.core),
                ("index2", "Unified", "8192K", cpu.cache),
            ] {
                put(&format!("cache/{cache}/type"), kind);
                put(&format!("cache/{cache}/size"), size);
                put(&format!("cache/{cache}/shared_cpu_list"), list);
            }
        }
        // Folders that are no CPUs, and an offline CPU.
        for other in ["cpufreq", "cpuidle", "cpu4000"] {
            create_dir_all(root.path().join(other)).unwrap();
        }
        Layout::of(root.path(), |cpu| cpu != 1).unwrap()
    }

    #[test]
    fn this_machine_has_cpus_and_caches() {
        let layout = Layout::read().unwrap();
        assert!(layout.cpus.len() <= layout.online.len());
        assert!(layout.core_kib >= 1);
        assert_eq!(layout.pairs().is_empty(), layout.cpus.len() == 1);
    }

    #[test]
    fn two_sockets_of_cores_with_two_threads() {
        let cores = ["0,4", "1,5", "2,6", "3,7"];
        let cpus: Vec<Made<'_>> = (0..8)
            .map(|cpu: usize| {
                let package = cpu % 4 / 2;
                let cache = ["0-1,4-5", "2-3,6-7"][package];
                Made { core: cores[cpu % 4], cache, node: package, package, capacity: 1024 }
            })
            .collect();
        let layout = layout(&cpus);
        assert_eq!(layout.cpus, [0, 2, 3, 4, 5, 6, 7], "CPU 1 is not allowed");
        assert_eq!((layout.core_kib, layout.shared_kib), (512, 8192));
        let pairs = layout.pairs();
        assert_eq!(pairs[&Distance::Core], (0, 4));
        assert_eq!(pairs[&Distance::Cache], (0, 5));
        assert_eq!(pairs[&Distance::Remote], (0, 2));
        assert_eq!(
            layout.topology(),
            Topology {
                source: format!("{ROOT}: 8 CPUs, 4 cores, 2 last-level caches, 2 nodes, 2 sockets"),
                certainty: Certainty::Measured,
                packages: 2,
                nodes_per_package: 1,
                caches_per_node: 1,
                cores_per_cache: 2,
                threads_per_core: 2,
                numbering: Numbering::ThreadsApart,
                small: None,
            }
        );
    }

    #[test]
    fn small_cores_beside_large_ones() {
        let cores = ["0-1", "0-1", "2", "3"];
        let cpus = cores.map(|core| {
            let capacity = if core == "0-1" { 1024 } else { 614 };
            Made { core, cache: "0-3", node: 0, package: 0, capacity }
        });
        let topology = layout(&cpus).topology();
        assert_eq!((topology.cores_per_cache, topology.threads_per_core), (1, 2));
        assert_eq!(topology.small, Some(Small { cores_per_cache: 2, percent: Spanned::new(0..0, 59) }));
        assert_eq!(
            (topology.numbering, topology.certainty),
            (Numbering::ThreadsTogether, Certainty::Measured)
        );
    }

    #[test]
    fn what_is_not_alike_is_taken_for_the_largest() {
        let cpus = ["0-2", "0-2", "0-2", "3-4", "3-4"].map(|cache| (cache, cache == "3-4"));
        let made = |(number, (cache, is_second)): (usize, &(&'static str, bool))| {
            let core = ["0", "1", "2", "3", "4"][number];
            Made { core, cache, node: 0, package: usize::from(*is_second), capacity: 1024 }
        };
        let topology = layout(&cpus.iter().enumerate().map(made).collect::<Vec<_>>()).topology();
        assert_eq!((topology.packages, topology.nodes_per_package, topology.cores_per_cache), (2, 1, 3));
        assert_eq!(topology.certainty, Certainty::Estimated);
        assert!(topology.source.contains("not alike"), "{}", topology.source);
    }

    #[test]
    fn a_pinned_thread_stays_where_it_is() {
        let cpu = *Layout::read().unwrap().cpus.last().unwrap();
        // SAFETY: the call has no arguments in memory.
        let found = pinned(cpu, || Ok(unsafe { libc::sched_getcpu() })).unwrap();
        assert_eq!(found, cpu as i32);
        assert!(pinned(CpuSet::count(), || Ok(())).is_err());
    }
}
