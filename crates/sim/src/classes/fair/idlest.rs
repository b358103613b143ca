//! The CPU of a new task: from the machine down to a CPU, at each level the group with the most
//! room. Source: `find_idlest_group()`, `find_idlest_group_cpu()`.
use super::{Fair, Rules};
use crate::core::{Core, CpuId, TaskId};
use flsched_machine::{FULL_SPEED, Price};
use std::cmp::{Ordering, Reverse};

/// The load of a group of CPUs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupLoad {
    pub cpus: u64,
    pub idle: u64,
    pub tasks: u64,
    pub load: u64,
    /// `cpu_util_cfs()` of its CPUs.
    pub used: u64,
    pub fullness: Fullness,
}

/// How full a group is: `enum group_type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fullness {
    #[default]
    HasSpare,
    Full,
    Overloaded,
}

impl GroupLoad {
    /// `group_has_capacity()` and `group_is_overloaded()`: `in_time` is what its CPUs did of late. Before 5.5, and in the
    /// model of it, numbers of tasks decide alone.
    fn classify(&mut self, in_time: Option<&InTime>, percent: u64) {
        let is_used = in_time.is_none_or(|it| it.capacity * 100 <= it.used * percent);
        let is_waited_for = in_time.is_none_or(|it| it.capacity * percent < it.runnable * 100);
        self.fullness = match self.tasks.cmp(&self.cpus) {
            Ordering::Greater if is_used || is_waited_for => Fullness::Overloaded,
            Ordering::Equal if is_used || is_waited_for => Fullness::Full,
            _ => Fullness::HasSpare,
        };
    }

    /// The average load of a CPU.
    pub(super) fn average(&self) -> u64 {
        self.load / self.cpus.max(1)
    }
}

/// What the CPUs of a group did of late: their tasks' utilisation, and how many could run, of what they can do.
#[derive(Debug, Clone, Copy, Default)]
struct InTime {
    used: u64,
    runnable: u64,
    capacity: u64,
}

impl<R: Rules> Fair<R> {
    pub(super) fn group_load(
        &self,
        core: &mut Core,
        cpus: impl Iterator<Item = CpuId>,
        percent: u64,
    ) -> GroupLoad {
        let mut sum = GroupLoad::default();
        let mut in_time = InTime::default();
        for cpu in cpus {
            if !core.online.has(cpu) {
                continue;
            }
            core.look_at(cpu);
            sum.cpus += 1;
            sum.idle += u64::from(self.is_idle(core, cpu));
            sum.tasks += self.queues[cpu].count as u64;
            if R::IS_MODERN {
                let average = &self.queues[cpu].average;
                sum.load += average.load(1);
                in_time.used += average.utilisation().max(self.queues[cpu].estimate);
                in_time.runnable += average.runnable();
                in_time.capacity += u64::from(core.perf_cap(cpu));
            } else {
                sum.load += self.cpu_load(cpu);
            }
        }
        sum.used = in_time.used;
        sum.classify(R::IS_MODERN.then_some(&in_time), percent);
        sum
    }

    pub(super) fn find_idlest(&self, core: &mut Core, task: TaskId) -> CpuId {
        let mut cpu = core.here;
        let mut below = usize::MAX;
        loop {
            let next = self.domains.around(cpu).rev().find(|domain| domain.cpus.len() < below);
            let Some(domain) = next else { break };
            below = domain.cpus.len();
            let allowed = core.tasks[task].cpus_mask.and(&core.online);
            let mut local = None;
            let mut best: Option<(usize, GroupLoad)> = None;
            // From its own group on, as the groups' ring begins there.
            let own = domain.groups.iter().position(|group| group.binary_search(&cpu).is_ok()).unwrap_or(0);
            for index in (own..domain.groups.len()).chain(0..own) {
                let group = &domain.groups[index];
                if !group.iter().any(|&cpu| allowed.has(cpu)) {
                    continue;
                }
                // Before 4.x one number for each CPU was added up.
                if R::IS_MODERN {
                    Self::spend_search(core, group.len());
                }
                let load = self.group_load(core, group.iter().copied(), domain.imbalance_percent());
                if index == own {
                    local = Some(load);
                } else if best.is_none_or(|(_, best)| has_more_room::<R>(&load, &best)) {
                    best = Some((index, load));
                }
            }
            let Some((index, best)) = best else { continue };
            if local.is_some_and(|local| stays::<R>(&local, &best, domain.imbalance_percent())) {
                continue;
            }
            cpu = self.idlest_of(
                core,
                domain.groups[index].iter().copied().filter(|&cpu| allowed.has(cpu)),
                cpu,
            );
        }
        cpu
    }

    /// Charges the time in which the kernel reads the load of so many CPUs.
    pub(super) fn spend_search(core: &mut Core, cpus: usize) {
        core.spend(Price::CpuSearch, *core.machine.costs.cpu_search_ns * cpus as u64);
    }

    /// The CPU that has idled for the shortest time, else the one with the least load.
    fn idlest_of(&self, core: &Core, cpus: impl Iterator<Item = CpuId>, otherwise: CpuId) -> CpuId {
        let since = |cpu: CpuId| self.queues[cpu].idle_since.unwrap_or(0);
        let key = |&cpu: &CpuId| match self.is_idle(core, cpu) {
            true => (0, u64::MAX - since(cpu)),
            false => (1, self.cpu_load(cpu)),
        };
        cpus.min_by_key(key).unwrap_or(otherwise)
    }
}

fn has_more_room<R: Rules>(one: &GroupLoad, other: &GroupLoad) -> bool {
    if !R::IS_MODERN {
        return one.average() < other.average();
    }
    match (one.fullness, other.fullness) {
        // Of those with as many idle CPUs the one that did less of late: new tasks are spread.
        (Fullness::HasSpare, Fullness::HasSpare) => {
            (one.idle, Reverse(one.used)) > (other.idle, Reverse(other.used))
        }
        (a, b) if a == b => one.average() < other.average(),
        (a, b) => a < b,
    }
}

/// Whether the best of the other groups is no better, or not by enough.
fn stays<R: Rules>(local: &GroupLoad, best: &GroupLoad, percent: u64) -> bool {
    if !R::IS_MODERN {
        return 100 * local.average() < (100 + (percent - 100) / 2) * best.average();
    }
    match (local.fullness, best.fullness) {
        (Fullness::HasSpare, Fullness::HasSpare) => local.idle >= best.idle,
        (a, b) if a == b => {
            best.average() >= local.average() + FULL_SPEED as u64 * (percent - 100) / 100
                || 100 * local.average() <= percent * best.average()
        }
        (a, b) => a < b,
    }
}
