//! Scheduling domains: for each CPU the sets of CPUs around it, from the threads of its core to the
//! whole machine, each made of groups that are the domains one level below. Source:
//! `kernel/sched/topology.c`; levels that add nothing are left out, as there.
use crate::core::{CpuId, CpuMask};
use flsched_machine::{Machine, Place};
use std::collections::BTreeMap;

/// What the CPUs of a domain share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Core,
    Cache,
    Node,
    Machine,
}

impl Level {
    /// The number of the part of this level that a CPU is in.
    fn part_of(self, place: &Place) -> usize {
        match self {
            Self::Core => place.core,
            Self::Cache => place.cache,
            Self::Node => place.node,
            Self::Machine => 0,
        }
    }
}

/// A set of CPUs among which tasks are spread.
#[derive(Debug)]
pub struct Domain {
    /// What the CPUs share.
    pub level: Level,
    /// The CPUs as a set.
    pub span: CpuMask,
    /// The CPUs as a list, ascending.
    pub cpus: Vec<CpuId>,
    /// Its parts: CPUs, or domains of the level below.
    pub groups: Vec<Vec<CpuId>>,
}

impl Domain {
    /// How much fuller than its own a group must be before tasks are moved, in percent.
    pub fn imbalance_percent(&self) -> u64 {
        if self.level == Level::Core { 110 } else { 117 }
    }

    /// How often balancing may fail before tasks that are still in a cache are moved.
    pub fn cache_nice_tries(&self) -> u32 {
        match self.level {
            Level::Core => 0,
            Level::Cache | Level::Node => 1,
            Level::Machine => 2,
        }
    }
}

/// All domains of a machine.
#[derive(Debug)]
pub struct Domains {
    all: Vec<Domain>,
    /// Domains by CPU, the nearest first.
    of: Vec<Vec<usize>>,
    caches: Vec<usize>,
    /// CPUs by cache.
    cache_cpus: Vec<Vec<CpuId>>,
}

impl Domains {
    /// The domains of this machine.
    pub fn new(machine: &Machine) -> Self {
        let count = machine.nr_cpus();
        let mut all: Vec<Domain> = Vec::new();
        let mut of: Vec<Vec<usize>> = vec![Vec::new(); count];
        for level in [Level::Core, Level::Cache, Level::Node, Level::Machine] {
            let mut members: BTreeMap<usize, Vec<CpuId>> = BTreeMap::new();
            for (cpu, place) in machine.places.iter().enumerate() {
                members.entry(level.part_of(place)).or_default().push(cpu);
            }
            for cpus in members.into_values() {
                let Some(&first) = cpus.first() else { continue };
                let below = of[first].last().map(|&index| all[index].cpus.len()).unwrap_or(1);
                if cpus.len() == below {
                    continue;
                }
                let mut span = CpuMask::empty();
                let mut groups: Vec<Vec<CpuId>> = Vec::new();
                for &cpu in &cpus {
                    if span.has(cpu) {
                        continue;
                    }
                    let group = of[cpu].last().map_or_else(|| vec![cpu], |&index| all[index].cpus.clone());
                    group.iter().for_each(|&member| span.set(member, true));
                    groups.push(group);
                }
                cpus.iter().for_each(|&cpu| of[cpu].push(all.len()));
                all.push(Domain { level, span, cpus, groups });
            }
        }
        let caches: Vec<usize> = machine.places.iter().map(|place| place.cache).collect();
        let mut cache_cpus = vec![Vec::new(); caches.iter().max().map_or(0, |most| most + 1)];
        caches.iter().enumerate().for_each(|(cpu, &cache)| cache_cpus[cache].push(cpu));
        Self { all, of, caches, cache_cpus }
    }

    /// How many domains `cpu` is in.
    pub fn depth(&self, cpu: CpuId) -> usize {
        self.of[cpu].len()
    }

    /// The domain of `cpu` at this depth; 0 is the nearest.
    pub fn at(&self, cpu: CpuId, depth: usize) -> &Domain {
        &self.all[self.of[cpu][depth]]
    }

    /// From near to far.
    pub fn around(&self, cpu: CpuId) -> impl DoubleEndedIterator<Item = &Domain> {
        self.of[cpu].iter().map(|&index| &self.all[index])
    }

    /// Whether two CPUs share the last-level cache.
    pub fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.caches[a] == self.caches[b]
    }

    /// The CPUs that share the last-level cache of `cpu`, itself included.
    pub fn cache(&self, cpu: CpuId) -> &[CpuId] {
        &self.cache_cpus[self.caches[cpu]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_add_nothing_are_left_out() {
        // A cache for each core: the cache's domain would be the core's.
        let domains = Domains::new(&Machine::find("knc-31s1p").unwrap());
        let levels: Vec<Level> = domains.around(5).map(|domain| domain.level).collect();
        assert_eq!(levels, [Level::Core, Level::Node]);
        assert_eq!(domains.at(5, 0).cpus, [4, 5, 6, 7]);
        assert_eq!(domains.at(5, 0).groups, [[4], [5], [6], [7]]);
        assert_eq!(domains.at(5, 1).groups.len(), 57);
        assert_eq!(domains.at(5, 1).groups[1], [4, 5, 6, 7]);
        assert!(domains.share_cache(4, 7) && !domains.share_cache(4, 8));
    }

    #[test]
    fn a_cache_of_several_cores_is_a_level() {
        let domains = Domains::new(&Machine::find("ryzen-3400g").unwrap());
        let levels: Vec<Level> = domains.around(0).map(|domain| domain.level).collect();
        assert_eq!(levels, [Level::Core, Level::Cache]);
        assert_eq!(domains.cache(3).len(), 8);
        let one = Machine::find("ryzen-3400g").unwrap().with_cpus(1).unwrap();
        assert_eq!(Domains::new(&one).depth(0), 0);
    }
}
