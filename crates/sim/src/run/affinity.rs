//! Where tasks may run, and what happens to those that are elsewhere: `set_cpus_allowed_ptr()`,
//! `migrate_disable()`, `select_fallback_rq()` of `kernel/sched/core.c`.
//!
//! A running task that must leave its CPU does so when that CPU schedules. In the kernel a stopper
//! thread moves it, which is not modelled as a task.
use super::Simulation;
use crate::classes::{Dequeue, Enqueue};
use crate::core::{CpuId, CpuMask, TaskId};
use flsched_machine::Callback;

/// `TASK_ON_RQ_MIGRATING`.
const MIGRATING: i32 = 2;

impl Simulation {
    /// Whether the task is runnable on a CPU where it must not run.
    pub(super) fn is_misplaced(&self, task: TaskId) -> bool {
        let state = &self.core.tasks[task];
        let goes_offline = !self.core.online.has(state.cpu) && state.migration_disabled == 0;
        state.is_queued && (goes_offline || !state.may_run_on(state.cpu))
    }

    /// `select_fallback_rq()`: another CPU; any CPU if it may run on none.
    pub(super) fn fallback_cpu(&mut self, task: TaskId, near: CpuId) -> CpuId {
        let mask = &self.core.tasks[task].cpus_mask;
        if let Some(cpu) = mask.first_common_from(&self.core.online, near) {
            return cpu;
        }
        let all = CpuMask::first(self.core.nr_cpus());
        self.change_affinity(task, &all);
        self.core.online_near(near)
    }

    /// `sched_setaffinity()`, by any task.
    pub(super) fn set_affinity(&mut self, task: TaskId, mask: &CpuMask) {
        self.changed_at = self.core.now;
        let lock = self.core.cpus[self.core.tasks[task].cpu].lock;
        self.core.lock(lock);
        self.change_affinity(task, mask);
        self.core.unlock(lock);
        self.leave_if_misplaced(task);
    }

    /// `migrate_enable()` by the running task.
    pub(super) fn enable_migration(&mut self, cpu: CpuId, task: TaskId) {
        let state = &mut self.core.tasks[task];
        state.migration_disabled = state.migration_disabled.saturating_sub(1);
        if state.migration_disabled == 0 {
            if state.unpin() {
                self.call_set_cpumask(task);
            }
            if self.is_misplaced(task) {
                self.core.resched(cpu);
            }
        }
    }

    /// `migrate_disable_switch()`: the policy is shown only the one CPU while the task is off it.
    pub(super) fn pin_while_off_cpu(&mut self, task: TaskId) {
        let state = &mut self.core.tasks[task];
        if state.migration_disabled > 0 && state.is_queued && state.pin() {
            self.call_set_cpumask(task);
        }
    }

    fn change_affinity(&mut self, task: TaskId, mask: &CpuMask) {
        if let Some(observer) = &mut self.core.observer {
            observer.may_run_elsewhere(&self.core.tasks[task], self.core.now);
        }
        self.put_back_after(task, Dequeue::Save, |run| {
            run.core.tasks[task].nr_cpus_allowed = mask.weight() as i32;
            run.core.tasks[task].cpus_mask = mask.clone();
            run.call_set_cpumask(task);
        });
    }

    fn call_set_cpumask(&mut self, task: TaskId) {
        let class = self.core.tasks[task].class;
        self.core.charge(&self.costs[class], Callback::SetCpumask);
        self.classes[class].set_cpumask(&mut self.core, task);
    }

    /// `affine_move_task()`.
    pub(super) fn leave_if_misplaced(&mut self, task: TaskId) {
        if !self.is_misplaced(task) {
            return;
        }
        let cpu = self.core.tasks[task].cpu;
        if self.core.cpus[cpu].curr == Some(task) {
            return self.core.resched(cpu);
        }
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        self.move_queued(cpu, task);
        self.core.unlock(lock);
    }

    /// `__schedule()` on a CPU whose running task must leave it. Its lock is held.
    pub(super) fn evict(&mut self, cpu: CpuId, prev: TaskId) {
        self.leave(cpu, prev, Some(prev));
        self.core.cpus[cpu].curr = None;
        self.move_queued(cpu, prev);
        let next = self.pick(cpu, None);
        self.core.clear_need_resched(cpu);
        self.take_over(cpu, next);
    }

    /// `move_queued_task()`: from `cpu`, whose lock is held, to a CPU where it may run.
    fn move_queued(&mut self, cpu: CpuId, task: TaskId) {
        let lock = self.core.cpus[cpu].lock;
        self.core.tasks[task].on_rq = MIGRATING;
        self.deactivate(task, Dequeue::Move);
        self.core.tasks[task].on_rq = MIGRATING;
        let to = self.fallback_cpu(task, cpu);
        self.core.set_task_cpu(task, to);
        self.core.unlock(lock);
        self.activate(task, Enqueue::Restore);
        self.core.lock(lock);
    }
}
