//! Where this machine's CPUs are, as sysfs reports it.
use crate::read_cpu_list;
use flsched_machine::{CpuLocation, MAX_GROUPS, Places};
use scx_utils::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// The places of this machine's online CPUs.
pub(crate) fn of_this_machine() -> Places {
    let online = online_cpus();
    let near = machine_locations(&online).and_then(|(locations, distances)| {
        let distance = |a, b| distances.get(&a).and_then(|row| row.get(&b)).copied().unwrap_or(usize::MAX);
        let places = Places::of(&locations, distance);
        let count = places.group_count();
        if count > MAX_GROUPS {
            Err(format!("it has {count} groups of CPUs, more than {MAX_GROUPS}"))
        } else {
            Ok(places)
        }
    });
    near.unwrap_or_else(|reason| Places::flat(&online, &reason))
}

/// Where this machine's online CPUs are; if that is not known, each is a core of its own, at one cache.
pub fn cpu_locations() -> Vec<CpuLocation> {
    let online = online_cpus();
    let flat = || online.iter().map(|&cpu| CpuLocation { cpu, core: cpu, llc: 0, node: 0 }).collect();
    machine_locations(&online).map_or_else(|_| flat(), |(locations, _)| locations)
}

fn online_cpus() -> BTreeSet<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match read_cpu_list(&text) {
        Some(cpus) if !cpus.is_empty() => cpus.into_iter().collect(),
        _ => (0..libbpf_rs::num_possible_cpus().unwrap_or(1)).collect(),
    }
}

/// Distances from node to node.
type Distances = BTreeMap<usize, BTreeMap<usize, usize>>;

/// The CPUs' places from sysfs, if each online CPU is there exactly once.
fn machine_locations(online: &BTreeSet<usize>) -> Result<(Vec<CpuLocation>, Distances), String> {
    // The library panics where firmware reports something unexpected.
    let topology = std::panic::catch_unwind(Topology::new)
        .map_err(|_| "the folders under /sys/devices/system/cpu cannot be read".to_owned())?
        .map_err(|error| format!("{error:#}"))?;
    let locations: Vec<CpuLocation> = topology
        .all_cpus
        .values()
        .map(|cpu| CpuLocation { cpu: cpu.id, core: cpu.core_id, llc: cpu.llc_id, node: cpu.node_id })
        .collect();
    let located: BTreeSet<usize> = locations.iter().map(|location| location.cpu).collect();
    if let Some(lost) = online.difference(&located).next() {
        return Err(format!("CPU {lost} is in no node or in no cache"));
    }
    // sysfs lists the distances to existing nodes only, whatever their numbers.
    let numbers: Vec<usize> = topology.nodes.keys().copied().collect();
    let row = |row: &[usize]| numbers.iter().copied().zip(row.iter().copied()).collect();
    let distances = topology.nodes.values().map(|node| (node.id, row(&node.distance))).collect();
    Ok((locations, distances))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        assert_eq!(of_this_machine().cpus(), online_cpus());
        let located: BTreeSet<usize> = cpu_locations().into_iter().map(|location| location.cpu).collect();
        assert_eq!(located, online_cpus());
    }
}
