//! The parallel clock's model of memory: a machine's caches, as the emulator reads them.
use crate::{Topology, TopologyError};
use flsched_machine::{ByDistance, CacheSizes, Hierarchy, Machine};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Machine of `--clock parallel:memory`.
const DEFAULT: &str = "server";
/// Where QEMU finds the description, in the folder in which it is started.
pub(crate) const FILE: &str = "memory.conf";
/// What the emulator's directory of lines has room for.
const MAX_CORES: u32 = 64;
const MAX_GROUPS: u32 = 32;

/// Which machine's caches, coherence and memory the emulated CPUs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryModel {
    /// As the user named it.
    name: &'static str,
    described: &'static Described,
}

#[derive(Debug, PartialEq, Eq)]
struct Described {
    /// Cores that share a last-level cache, and such caches in a node.
    cores_per_cache: u32,
    caches_per_node: u32,
    caches: CacheSizes,
    hierarchy: Hierarchy,
    transfer_ns: ByDistance,
}

/// Each machine that was named, once: settings of a clock are copied everywhere.
static NAMED: Mutex<Vec<MemoryModel>> = Mutex::new(Vec::new());

impl Default for MemoryModel {
    fn default() -> Self {
        Self::find(DEFAULT).expect("a machine of this build")
    }
}

impl MemoryModel {
    /// That of a built-in machine, or of a file's.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = named.iter().find(|known| known.name == name) {
            return Ok(*known);
        }
        let described = Described::of(name)?;
        let model = Self { name: name.to_owned().leak(), described: Box::leak(Box::new(described)) };
        named.push(model);
        Ok(model)
    }

    /// This many CPUs of the machine: whole caches, or a part of one.
    pub(crate) fn topology(self, cpus: u32) -> Result<Topology, TopologyError> {
        let Described { cores_per_cache, caches_per_node, .. } = *self.described;
        if cpus <= cores_per_cache {
            return Ok(Topology::flat(cpus));
        }
        let caches = cpus / cores_per_cache;
        let nodes = caches.div_ceil(caches_per_node);
        let sockets = caches / nodes;
        if caches * cores_per_cache != cpus || nodes * sockets != caches {
            return Err(TopologyError::Uneven { cpus, machine: self.name, cores_per_cache, caches_per_node });
        }
        Ok(Topology { nodes, sockets, cores: cores_per_cache, threads: 1 })
    }

    /// Refuses what the emulator's directory has no room for.
    pub(crate) fn check(self, topology: &Topology) -> Result<(), TopologyError> {
        let topology = *topology;
        let caches = topology.nodes.saturating_mul(topology.sockets);
        let cores = caches.saturating_mul(topology.cores);
        if cores <= MAX_CORES && caches <= MAX_GROUPS {
            return Ok(());
        }
        let (max_cores, max_caches) = (MAX_CORES, MAX_GROUPS);
        Err(TopologyError::BeyondModel { topology, cores, caches, max_cores, max_caches })
    }

    /// The text of [`FILE`].
    pub(crate) fn file(self, topology: &Topology) -> String {
        let Described { caches, hierarchy, transfer_ns, .. } = self.described;
        let ways = *hierarchy.ways;
        let latency = *hierarchy.latency_ns;
        let overlap = *hierarchy.overlap;
        let settings: [(&str, u64); 22] = [
            ("line", (*hierarchy.line_bytes).into()),
            ("threads-per-core", topology.threads.into()),
            ("cores-per-group", topology.cores.into()),
            ("groups-per-node", topology.sockets.into()),
            ("l1-kib", (*hierarchy.l1_kib).into()),
            ("l1-ways", ways.l1.into()),
            ("core-kib", *caches.core_kib),
            ("core-ways", ways.core.into()),
            ("shared-kib", *caches.shared_kib),
            ("shared-ways", ways.shared.into()),
            ("core-ns", latency.core),
            ("shared-ns", latency.shared),
            ("memory-ns", latency.memory),
            ("remote-memory-ns", latency.remote_memory),
            ("group-transfer-ns", transfer_ns.cache),
            ("node-transfer-ns", transfer_ns.node),
            ("remote-transfer-ns", transfer_ns.remote),
            ("memory-gb-per-s", caches.memory_gb_per_s().unwrap_or(0)),
            ("store-buffer", (*hierarchy.store_buffer).into()),
            ("overlap", overlap.misses.into()),
            ("window", overlap.window.into()),
            ("streams", (*hierarchy.prefetch_streams).into()),
        ];
        settings.iter().fold("[memory]\n".to_owned(), |text, (name, value)| format!("{text}{name}={value}\n"))
    }
}

impl Described {
    fn of(name: &str) -> Result<Self, String> {
        let machine = Machine::find(name).map_err(|error| error.to_string())?;
        let (Some(caches), Some(hierarchy)) = (machine.speed.caches.clone(), machine.memory.clone()) else {
            return Err(format!(
                "{name} has no section [memory], which describes its caches for the parallel clock: name another \
                 machine, such as {DEFAULT}, or add the section (docs/reference/machine-files.md)"
            ));
        };
        let count = |of: &dyn Fn(&flsched_machine::Place) -> Option<usize>| {
            let mut numbers: Vec<usize> = machine.places.iter().filter_map(of).collect();
            numbers.sort_unstable();
            numbers.dedup();
            u32::try_from(numbers.len()).unwrap_or(u32::MAX)
        };
        let transfer_ns = *machine.costs.handover_ns;
        if [transfer_ns.cache, transfer_ns.node, transfer_ns.remote].iter().any(|&ns| ns > 100_000) {
            return Err(format!("{name}: handover_ns: {transfer_ns:?} are not from 0 to 100000"));
        }
        Ok(Self {
            cores_per_cache: count(&|place| (place.cache == 0).then_some(place.core)),
            caches_per_node: count(&|place| (place.node == 0).then_some(place.cache)),
            caches,
            hierarchy,
            transfer_ns,
        })
    }
}

/// As [`MemoryModel::find`] takes it.
impl fmt::Display for MemoryModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_whole_caches() {
        let server = MemoryModel::default();
        let shape = |cpus| server.topology(cpus).map(|topology| topology.to_string());
        assert_eq!(shape(4).as_deref(), Ok("1s4c1t"));
        assert_eq!(shape(8).as_deref(), Ok("1s8c1t"));
        assert_eq!(shape(16).as_deref(), Ok("2s8c1t"));
        assert_eq!(shape(64).as_deref(), Ok("8s8c1t"));
        assert_eq!(shape(128).as_deref(), Ok("2n8s8c1t"));
        for cpus in [12, 72] {
            let error = shape(cpus).unwrap_err().to_string();
            assert!(error.contains(&format!("{cpus} CPUs")) && error.contains("8 cores share"), "{error}");
        }
    }

    #[test]
    fn the_directory_has_an_end() {
        let server = MemoryModel::default();
        for (topology, fits) in [("8s8c2t", true), ("32s2c1t", true), ("64s1c1t", false), ("65", false)] {
            let topology: Topology = topology.parse().unwrap();
            assert_eq!(server.check(&topology).is_ok(), fits, "{topology}");
        }
    }

    #[test]
    fn the_emulator_gets_the_machines_numbers() {
        let text = MemoryModel::default().file(&"2n2s4c2t".parse().unwrap());
        for line in [
            "[memory]",
            "line=64",
            "threads-per-core=2",
            "cores-per-group=4",
            "groups-per-node=2",
            "core-kib=512",
            "shared-ways=16",
            "remote-transfer-ns=200",
            "streams=16",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }

    #[test]
    fn a_machine_without_its_caches_is_refused() {
        let error = MemoryModel::find("knc-31s1p").unwrap_err();
        assert!(error.contains("no section [memory]") && error.contains("such as server"), "{error}");
        let error = MemoryModel::find("sever").unwrap_err();
        assert!(error.contains("did you mean `server`"), "{error}");
        let error = MemoryModel::find("./none.toml").unwrap_err();
        assert!(error.contains("./none.toml"), "{error}");
    }
}
