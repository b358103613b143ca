//! The CPU of a woken task: `select_task_rq_fair()`.
use super::{Fair, Rules};
use crate::core::{Core, CpuId, TaskId};
use crate::engine::Ns;

const SECOND: Ns = 1_000_000_000;

/// Which tasks a task wakes: one that wakes many others in turn is better not kept near them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wakee {
    last: Option<TaskId>,
    flips: u64,
    decayed_at: Ns,
}

impl Wakee {
    /// Of the task that forks the first one. A fork copies `wakee_flips`, so that all tasks have some of the shell's, and the
    /// shell has some of process 1's: 79 in a virtual machine with kernel 6.18.
    pub(super) const INHERITED: Self = Self { last: None, flips: 79, decayed_at: 0 };
}

impl<R: Rules> Fair<R> {
    /// Near the waking CPU or near its own, and there on an idle CPU that shares the cache.
    pub(super) fn place_wakee(&mut self, core: &mut Core, task: TaskId, prev: CpuId, sync: bool) -> CpuId {
        let here = core.here;
        let waker = core.cpus[here].curr;
        let is_wide = R::IS_MODERN && self.is_wide(core, waker, task);
        let may_come = core.tasks[task].may_run_on(here) && !is_wide;
        let mut target = prev;
        if may_come && here != prev {
            target = self.affine(core, task, prev, sync);
        }
        if R::IS_MODERN {
            self.idle_sibling(core, task, prev, target)
        } else {
            self.idle_sibling_old(core, task, prev, target)
        }
    }

    /// `record_wakee()`, `wake_wide()`
    fn is_wide(&mut self, core: &Core, waker: Option<TaskId>, task: TaskId) -> bool {
        let Some(waker) = waker.filter(|&waker| core.tasks[waker].class == self.index) else { return false };
        let now = core.clock();
        let record = &mut self.wakees[waker];
        if now > record.decayed_at + SECOND {
            record.flips /= 2;
            record.decayed_at = now;
        }
        if record.last != Some(task) {
            record.last = Some(task);
            record.flips += 1;
        }
        let (one, other) = (self.wakees[waker].flips, self.wakees[task].flips);
        let (many, few) = (one.max(other), one.min(other));
        let size = self.domains.cache(core.here).len() as u64;
        few >= size && many >= few * size
    }

    /// `wake_affine()`: the waking CPU, or the one on which the task was last.
    fn affine(&self, core: &mut Core, task: TaskId, prev: CpuId, sync: bool) -> CpuId {
        let here = core.here;
        core.look_at(prev);
        if R::IS_MODERN {
            let prev_is_idle = self.is_idle(core, prev);
            if self.is_idle(core, here) && self.domains.share_cache(here, prev) {
                return if prev_is_idle { prev } else { here };
            }
            if sync && self.queues[here].count == 1 {
                return here;
            }
            if prev_is_idle {
                return prev;
            }
        }
        let mut load = self.cpu_load(here);
        if sync && let Some(waker) = core.cpus[here].curr.filter(|_| self.is_mine(core, here)) {
            let own = self.task_load(core, waker);
            if own > load {
                return here;
            }
            load -= own;
        }
        let task_load = self.task_load(core, task);
        let domain = self.domains.around(here).find(|domain| domain.span.has(prev));
        let percent = 100 + (domain.map_or(117, |domain| domain.imbalance_percent()) - 100) / 2;
        let with_task = (load + task_load) * 100;
        if R::IS_MODERN {
            // What is left there of the task's own.
            let there = self.cpu_load(prev).saturating_sub(task_load) * percent;
            return if with_task < there + u64::from(sync) { here } else { prev };
        }
        // 2.6.38: an idle CPU takes it in any case.
        if load == 0 || with_task <= self.queues[prev].load * percent { here } else { prev }
    }

    /// `select_idle_sibling()`
    fn idle_sibling(&self, core: &mut Core, task: TaskId, prev: CpuId, target: CpuId) -> CpuId {
        let idle = |core: &Core, cpu: CpuId| core.tasks[task].may_run_on(cpu) && self.is_idle(core, cpu);
        let recent = core.tasks[task].recent_used_cpu as CpuId;
        core.tasks[task].recent_used_cpu = prev as i32;
        core.look_at(target);
        if idle(core, target) {
            return target;
        }
        if prev != target && self.domains.share_cache(prev, target) {
            core.look_at(prev);
            if idle(core, prev) {
                return prev;
            }
        }
        if recent != prev && recent != target && self.domains.share_cache(recent, target) {
            core.look_at(recent);
            if idle(core, recent) {
                return recent;
            }
        }
        let idle_core = self.has_threads.then(|| self.idle_core(core, target)).flatten();
        if self.has_threads && idle_core.is_none() && self.domains.share_cache(prev, target) {
            let place = core.machine.places[prev].core;
            let found = core.machine.threads[place].iter().copied().find(|&cpu| idle(core, cpu));
            if let Some(cpu) = found {
                return cpu;
            }
        }
        self.idle_cpu(core, target, task, idle_core.is_some()).unwrap_or(target)
    }

    /// `test_idle_cores()`: a core that shares the cache and all of whose threads idle.
    fn idle_core(&self, core: &Core, target: CpuId) -> Option<usize> {
        let of = |cpu: CpuId| core.machine.places[cpu].core;
        self.domains.cache(target).iter().map(|&cpu| of(cpu)).find(|&place| self.is_core_idle(core, place))
    }

    fn is_core_idle(&self, core: &Core, place: usize) -> bool {
        core.machine.threads[place].iter().all(|&cpu| self.is_idle(core, cpu))
    }

    /// `update_idle_cpu_scan()`, whenever a CPU balances the domain of its cache: the more of their time the CPUs there
    /// work, the fewer are to be searched for an idle one (`SIS_UTIL`).
    pub(super) fn limit_scan(&mut self, cpu: CpuId, used: u64, percent: u64) {
        const WHOLE: u64 = 1024;
        let cpus = self.domains.cache(cpu);
        let share = used / cpus.len() as u64;
        let left = WHOLE.saturating_sub(share * share * percent * percent / (10_000 * WHOLE));
        self.scans[cpus[0]] = cpus.len() * left as usize / WHOLE as usize;
    }

    /// `select_idle_cpu()`
    fn idle_cpu(&self, core: &mut Core, target: CpuId, task: TaskId, by_core: bool) -> Option<CpuId> {
        let cpus = self.domains.cache(target);
        let most = if by_core { cpus.len() } else { self.scans[cpus[0]] };
        let after = cpus.partition_point(|&cpu| cpu <= target);
        let ring = cpus[after..].iter().chain(&cpus[..after]).copied();
        let mut second = None;
        for cpu in ring.take(most) {
            if !core.tasks[task].may_run_on(cpu) {
                continue;
            }
            core.look_at(cpu);
            if !self.is_idle(core, cpu) {
                continue;
            }
            if !by_core || self.is_core_idle(core, core.machine.places[cpu].core) {
                return Some(cpu);
            }
            second = second.or(Some(cpu));
        }
        second
    }

    /// The same in 2.6.38: the first idle CPU, searched outward through the domains that share the
    /// cache, up to the first one with both CPUs.
    fn idle_sibling_old(&self, core: &mut Core, task: TaskId, prev: CpuId, target: CpuId) -> CpuId {
        let here = core.here;
        core.look_at(target);
        if self.is_idle(core, target) {
            return target;
        }
        for domain in self.domains.around(target) {
            if domain.level > super::super::domains::Level::Cache {
                break;
            }
            for &cpu in &domain.cpus {
                core.look_at(cpu);
                if core.tasks[task].may_run_on(cpu) && self.is_idle(core, cpu) {
                    return cpu;
                }
            }
            if domain.span.has(here) && domain.span.has(prev) {
                break;
            }
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fork, four_cpus};
    use super::*;

    #[test]
    fn a_task_inherits_how_many_tasks_were_woken() {
        let (mut core, mut fair) = four_cpus();
        for _ in 0..3 {
            fork(&mut core, &mut fair);
        }
        let inherited = Wakee::INHERITED.flips;
        assert_eq!(fair.wakees[1].flips, inherited);
        // A waker is wide when it has woken so many times as many as the woken task.
        let mut wakes = 0;
        while !fair.is_wide(&core, Some(0), 1 + wakes % 2) {
            wakes += 1;
        }
        assert_eq!(fair.wakees[0].flips, 4 * inherited);
        // To a child that is forked now it is not.
        let child = fork(&mut core, &mut fair);
        assert_eq!(fair.wakees[child].flips, 4 * inherited);
        assert!(!fair.is_wide(&core, Some(0), child));
    }
}
