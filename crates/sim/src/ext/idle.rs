//! The built-in idle tracking and CPU selection of `kernel/sched/ext_idle.c`.
use super::Ext;
use crate::core::{Core, CpuId, CpuMask, TaskId};
use crate::env::abi::*;
use flsched_machine::{Distance, Machine};

impl Ext {
    /// Whether built-in idle tracking is on. If it is off, because the policy tracks idle CPUs itself, the run
    /// ends with an error.
    pub(crate) fn needs_builtin_idle(&mut self, core: &mut Core) -> bool {
        if !self.has_builtin_idle {
            core.fail(self.callback, None, "built-in idle tracking is disabled");
        }
        self.has_builtin_idle
    }

    /// Records whether `cpu` is idle, and whether all threads of its core are.
    pub(super) fn record_idle(&mut self, machine: &Machine, cpu: CpuId, is_idle: bool) {
        self.idle_cpus.set(cpu, is_idle);
        let threads = &machine.threads[machine.places[cpu].core];
        let whole = threads.iter().all(|&thread| self.idle_cpus.has(thread));
        for &thread in threads {
            self.idle_cores.set(thread, whole);
        }
    }

    /// `scx_idle_test_and_clear_cpu()`: claims `cpu` if it is idle. Its core then no longer counts as fully idle.
    pub(crate) fn take_idle(&mut self, core: &Core, cpu: CpuId) -> bool {
        if !self.idle_cpus.has(cpu) {
            return false;
        }
        self.idle_cpus.set(cpu, false);
        for &thread in &core.machine.threads[core.machine.places[cpu].core] {
            self.idle_cores.set(thread, false);
        }
        true
    }

    /// `scx_pick_idle_cpu()`: claims an idle CPU of `allowed`, preferably on a fully idle core. `near`: only CPUs
    /// at most this far from this CPU. `whole`: only CPUs on fully idle cores.
    pub(crate) fn pick_idle(
        &mut self,
        core: &Core,
        allowed: &CpuMask,
        near: Option<(CpuId, Distance)>,
        whole: bool,
    ) -> Option<CpuId> {
        let masks = [&*self.idle_cores, &*self.idle_cpus];
        let fits = |cpu: CpuId| near.is_none_or(|(to, most)| core.machine.distance(to, cpu) <= most);
        let found = masks
            .into_iter()
            .take(if whole { 1 } else { 2 })
            .find_map(|mask| mask.iter().find(|&cpu| allowed.has(cpu) && fits(cpu)))?;
        self.take_idle(core, found);
        Some(found)
    }

    /// `scx_select_cpu_dfl()`.
    pub(crate) fn select_idle(
        &mut self,
        core: &mut Core,
        task: TaskId,
        prev: CpuId,
        wake_flags: u64,
        among: Option<&CpuMask>,
        flags: u64,
    ) -> Option<CpuId> {
        let mut allowed = core.tasks[task].cpus_mask.clone();
        if let Some(among) = among {
            let outside: Vec<CpuId> = allowed.iter().filter(|&cpu| !among.has(cpu)).collect();
            outside.into_iter().for_each(|cpu| allowed.set(cpu, false));
        }
        let prev_fits = allowed.has(prev);
        let waker = core.here;
        if wake_flags & WAKE_SYNC != 0 {
            if prev_fits
                && core.machine.distance(waker, prev) <= Distance::Cache
                && self.take_idle(core, prev)
            {
                return Some(prev);
            }
            // The waker is about to sleep, and no task waits for its CPU.
            let exits = core.cpus[waker].curr.is_some_and(|c| core.tasks[c].flags & PF_EXITING != 0);
            if allowed.has(waker) && !exits && self.dsqs.len(waker) == 0 && self.idle_cpus.weight() > 0 {
                return Some(waker);
            }
        }
        let mut rounds = vec![true, false];
        if flags & PICK_IDLE_CORE != 0 {
            rounds.pop();
        }
        for whole in rounds {
            let prev_is_idle = if whole { self.idle_cores.has(prev) } else { self.idle_cpus.has(prev) };
            if prev_fits && prev_is_idle && self.take_idle(core, prev) {
                return Some(prev);
            }
            for distance in [Distance::Cache, Distance::Node, Distance::Remote] {
                if flags & PICK_IDLE_IN_NODE != 0 && distance == Distance::Remote {
                    break;
                }
                if let Some(cpu) = self.pick_idle(core, &allowed, Some((prev, distance)), whole) {
                    return Some(cpu);
                }
            }
        }
        None
    }
}
