//! Where a machine's CPUs are, as its kernel reports it below `/sys/devices/system`: on the present machine, or in a tarball
//! of these files from another one. The loader reads both in the same way.
mod archive;
mod list;

pub use list::{read_cpu_list, write_cpu_list};

use crate::{CpuLocation, Error, Places};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Distances from node to node, as firmware reports them; 10 is a node's own.
pub type Distances = BTreeMap<usize, BTreeMap<usize, usize>>;

/// The CPUs and nodes of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs {
    /// The online CPUs, by number.
    pub locations: Vec<CpuLocation>,
    /// Of all nodes, also those without CPUs. A node whose row is empty is equally far from all others.
    pub distances: Distances,
}

/// The files, by their paths below `/sys/devices/system`.
trait Files {
    /// Without the newline at its end; `None`: it is not there.
    fn text(&self, path: &str) -> Option<String>;
    /// The numbers of the folders in `folder` whose names are `name` and a number, in ascending order.
    fn numbered(&self, folder: &str, name: &str) -> Vec<usize>;
}

impl Sysfs {
    /// Of the present machine, or of a folder that is like `/sys/devices/system`. The error says what is not consistent.
    pub fn of_folder(root: &Path) -> Result<Self, String> {
        read(&Folder(root.to_owned()))
    }

    /// Of the machine whose files are in this tarball, which gzip may have compressed.
    pub fn of_tarball(path: &Path) -> Result<Self, Error> {
        let files = archive::open(path)?;
        read(&files).map_err(|what| Error::usage(format!("{}: {what}", path.display())))
    }

    pub fn places(&self) -> Places {
        let row = |node| self.distances.get(&node);
        let distance = |a, b| row(a).and_then(|row| row.get(&b)).copied().unwrap_or(usize::MAX);
        Places::of(&self.locations, distance)
    }

    /// The nodes that have memory only.
    pub fn nodes_without_cpus(&self) -> Vec<usize> {
        let with: BTreeSet<usize> = self.locations.iter().map(|location| location.node).collect();
        self.distances.keys().copied().filter(|node| !with.contains(node)).collect()
    }
}

struct Folder(PathBuf);

impl Files for Folder {
    fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.0.join(path)).ok()?.trim().to_owned())
    }

    fn numbered(&self, folder: &str, name: &str) -> Vec<usize> {
        let entries = fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten();
        let number = |file: std::ffi::OsString| file.to_str()?.strip_prefix(name)?.parse().ok();
        let numbers: BTreeSet<usize> = entries.filter_map(|entry| number(entry.file_name())).collect();
        numbers.into_iter().collect()
    }
}

/// An online CPU, and what it shares with which others.
struct Cpu {
    node: usize,
    /// The CPUs of its core.
    core: Vec<usize>,
    /// Those that share its last-level cache. Empty: no cache is reported; then its node is one.
    cache: Vec<usize>,
}

fn read(files: &impl Files) -> Result<Sysfs, String> {
    let online = online(files)?;
    let (node_of, distances) = nodes(files, &online)?;
    let mut cpus = BTreeMap::new();
    for &cpu in &online {
        let node = *node_of.get(&cpu).ok_or_else(|| format!("CPU {cpu} is in no node"))?;
        cpus.insert(cpu, Cpu { node, core: core(files, cpu)?, cache: last_cache(files, cpu)? });
    }
    for (number, cpu) in &cpus {
        let differs = |other: &&usize| cpus.get(other).is_some_and(|other| other.core != cpu.core);
        if let Some(other) = cpu.core.iter().find(differs) {
            return Err(format!("CPUs {number} and {other} do not agree on which CPUs are of their core"));
        }
    }
    let (mut cores, mut caches) = (BTreeMap::new(), BTreeMap::new());
    let locations = cpus.into_iter().map(|(number, cpu)| CpuLocation {
        cpu: number,
        core: number_of(&mut cores, cpu.core),
        llc: number_of(&mut caches, (cpu.node, cpu.cache)),
        node: cpu.node,
    });
    Ok(Sysfs { locations: locations.collect(), distances })
}

/// Counts through the whole machine, in the order of the first CPUs: the kernel's own numbers repeat, those of cores in each
/// cluster or package.
fn number_of<T: Ord>(numbers: &mut BTreeMap<T, usize>, what: T) -> usize {
    let next = numbers.len();
    *numbers.entry(what).or_insert(next)
}

fn online(files: &impl Files) -> Result<BTreeSet<usize>, String> {
    const PATH: &str = "cpu/online";
    let text = files.text(PATH).ok_or_else(|| format!("{PATH} is missing"))?;
    let online: BTreeSet<usize> = list(PATH, &text)?.into_iter().collect();
    if online.is_empty() { Err(format!("{PATH} has no CPU")) } else { Ok(online) }
}

/// The node of each CPU, and all distances.
fn nodes(
    files: &impl Files,
    online: &BTreeSet<usize>,
) -> Result<(BTreeMap<usize, usize>, Distances), String> {
    let nodes = files.numbered("node", "node");
    if nodes.is_empty() {
        // A kernel without NUMA.
        return Ok((online.iter().map(|&cpu| (cpu, 0)).collect(), Distances::from([(0, [(0, 10)].into())])));
    }
    let (mut node_of, mut distances) = (BTreeMap::new(), Distances::new());
    for &node in &nodes {
        let path = format!("node/node{node}/cpulist");
        let text = files.text(&path).ok_or_else(|| format!("{path} is missing"))?;
        for cpu in list(&path, &text)? {
            if let Some(other) = node_of.insert(cpu, node) {
                return Err(format!("CPU {cpu} is in nodes {other} and {node}"));
            }
        }
        let path = format!("node/node{node}/distance");
        let text = files.text(&path).ok_or_else(|| format!("{path} is missing"))?;
        let row: Option<Vec<usize>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        // It lists the distances to existing nodes only, whatever their numbers. Where it has others, as while a node comes or
        // goes, they are not known.
        let row = row.filter(|row| row.len() == nodes.len()).unwrap_or_default();
        distances.insert(node, nodes.iter().copied().zip(row).collect());
    }
    Ok((node_of, distances))
}

fn core(files: &impl Files, cpu: usize) -> Result<Vec<usize>, String> {
    // Linux 5.1 and older have only the second name.
    let paths =
        ["core_cpus_list", "thread_siblings_list"].map(|name| format!("cpu/cpu{cpu}/topology/{name}"));
    let found = paths.iter().find_map(|path| Some((path, files.text(path)?)));
    let (path, text) = found.ok_or_else(|| format!("{} is missing", paths[0]))?;
    let core = list(path, &text)?;
    if core.contains(&cpu) { Ok(core) } else { Err(format!("{path}: `{}` lacks CPU {cpu}", shown(&text))) }
}

fn last_cache(files: &impl Files, cpu: usize) -> Result<Vec<usize>, String> {
    let folder = format!("cpu/cpu{cpu}/cache");
    let mut last = (0, Vec::new());
    for index in files.numbered(&folder, "index") {
        let file = |name: &str| format!("{folder}/index{index}/{name}");
        // Where firmware describes a cache in part only, the kernel leaves files out.
        let (Some(level), Some(shared)) = (files.text(&file("level")), files.text(&file("shared_cpu_list")))
        else {
            continue;
        };
        let path = file("level");
        let level = level.parse().map_err(|_| format!("{path}: `{}` is no number", shown(&level)))?;
        let is_for_code = files.text(&file("type")).is_some_and(|kind| kind == "Instruction");
        if level > last.0 && !is_for_code {
            last = (level, list(&file("shared_cpu_list"), &shared)?);
        }
    }
    Ok(last.1)
}

fn list(path: &str, text: &str) -> Result<Vec<usize>, String> {
    read_cpu_list(text).ok_or_else(|| format!("{path}: `{}` is not a list of CPUs", shown(text)))
}

/// What may be of any length, and from anywhere.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        shown += "…";
    }
    shown
}

#[cfg(test)]
mod tests;
