//! The priority that each CPU runs, to find the lowest: `kernel/sched/cpupri.c`. It has no lock since
//! Linux 3.1, but its counters and masks are cache lines that all CPUs read, and write when their
//! highest priority changes.
use crate::core::{Core, CpuId, CpuMask, LockId, TaskId};
use std::collections::BTreeMap;

/// `MAX_RT_PRIO`: the value of a CPU that runs no real-time task.
pub(super) const MAX_PRIO: i32 = 100;

#[derive(Debug)]
pub(super) struct Priorities {
    of: Vec<i32>,
    cpus: BTreeMap<i32, CpuMask>,
    line: LockId,
}

impl Priorities {
    pub(super) fn new(core: &mut Core) -> Self {
        let count = core.nr_cpus();
        Self {
            of: vec![MAX_PRIO; count],
            cpus: BTreeMap::from([(MAX_PRIO, CpuMask::first(count))]),
            line: core.locks.add("cpupri"),
        }
    }

    /// `cpupri_set()`.
    pub(super) fn set(&mut self, core: &mut Core, cpu: CpuId, prio: i32) {
        let old = std::mem::replace(&mut self.of[cpu], prio);
        if old == prio {
            return;
        }
        self.cpus.entry(prio).or_insert_with(CpuMask::empty).set(cpu, true);
        if let Some(mask) = self.cpus.get_mut(&old) {
            mask.set(cpu, false);
        }
        core.write(self.line);
    }

    /// `cpupri_find()`: the CPUs with the lowest of all priorities below the task's, of those where
    /// it may run.
    pub(super) fn below(&self, core: &mut Core, task: TaskId) -> Option<CpuMask> {
        core.read(self.line);
        let task = &core.tasks[task];
        let lower = self.cpus.range(task.prio + 1..).rev();
        lower
            .map(|(_, mask)| mask.and(&task.cpus_mask).and(&core.online))
            .find(|mask| mask.iter().next().is_some())
    }
}
