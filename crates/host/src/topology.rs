//! Where this machine's CPUs are, as sysfs reports it.
use flsched_machine::{CpuLocation, MAX_CPUS, MAX_GROUPS, Places, Sysfs, read_cpu_list};
use std::collections::BTreeSet;
use std::path::Path;

const ROOT: &str = "/sys/devices/system";

/// The places of this machine's online CPUs.
pub(crate) fn of_this_machine() -> Places {
    Sysfs::of_folder(Path::new(ROOT))
        .and_then(|machine| places_of(&machine))
        .unwrap_or_else(|reason| Places::flat(&online_cpus(), &reason))
}

/// What the loader makes of a machine; the error says why it treats all CPUs as equally near.
fn places_of(machine: &Sysfs) -> Result<Places, String> {
    let places = machine.places();
    match places.group_count() {
        count if count > MAX_GROUPS => Err(format!("it has {count} groups of CPUs, more than {MAX_GROUPS}")),
        _ => Ok(places),
    }
}

/// Where this machine's online CPUs are; if that is not known, each is a core of its own, at one cache.
pub fn cpu_locations() -> Vec<CpuLocation> {
    let flat = |cpu| CpuLocation { cpu, core: cpu, llc: 0, node: 0 };
    match Sysfs::of_folder(Path::new(ROOT)) {
        Ok(machine) => machine.locations,
        Err(_) => online_cpus().into_iter().map(flat).collect(),
    }
}

fn online_cpus() -> BTreeSet<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match read_cpu_list(&text) {
        Some(cpus) if !cpus.is_empty() => cpus.into_iter().collect(),
        _ => (0..libbpf_rs::num_possible_cpus().unwrap_or(1)).collect(),
    }
}

/// What the loader makes of a machine.
pub struct Layout {
    /// Its CPUs and nodes; `None`: what the kernel reports is not consistent.
    pub machine: Option<Sysfs>,
    /// The tables for policies, which have a warning if all CPUs count as equally near.
    pub places: Places,
}

impl Layout {
    pub fn of_this_machine() -> Self {
        Self { machine: Sysfs::of_folder(Path::new(ROOT)).ok(), places: of_this_machine() }
    }

    /// Of the machine whose files of `/sys/devices/system` are in this tarball.
    pub fn of_tarball(path: &Path) -> Result<Self, flsched_machine::Error> {
        let machine = Sysfs::of_tarball(path)?;
        let online = machine.locations.iter().map(|location| location.cpu).collect();
        let places = places_of(&machine).unwrap_or_else(|reason| Places::flat(&online, &reason));
        Ok(Self { machine: Some(machine), places })
    }
}

/// The highest number of an online CPU if no table of the policies has it.
pub(crate) fn beyond_tables() -> Option<usize> {
    online_cpus().last().copied().filter(|&cpu| cpu >= MAX_CPUS)
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
