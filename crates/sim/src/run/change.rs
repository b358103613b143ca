//! Changes for which a task is removed from its run queue, if it is in one, and added again:
//! `sched_change_begin()` and `sched_change_end()` of `kernel/sched/core.c`.
use super::Simulation;
use crate::classes::{Dequeue, Enqueue};
use crate::core::{CpuId, TaskId};
use flsched_machine::Callback;

impl Simulation {
    /// The lock of the task's CPU is held.
    pub(super) fn put_back_after(&mut self, task: TaskId, why: Dequeue, change: impl FnOnce(&mut Self)) {
        let (class, cpu) = (self.core.tasks[task].class, self.core.tasks[task].cpu);
        let is_queued = self.core.tasks[task].is_queued;
        let is_running = self.core.cpus[cpu].curr == Some(task);
        if is_queued {
            self.deactivate(task, why);
        }
        if is_running {
            self.classes[class].put_prev(&mut self.core, cpu, task, Some(task));
        }
        change(self);
        if is_queued {
            self.core.set_queued(task, true);
            self.core.tasks[task].on_rq = 1;
            if !is_running {
                self.core.record_queue(cpu, 1);
            }
            self.core.charge(&self.costs[class], Callback::Enqueue);
            self.classes[class].enqueue(&mut self.core, cpu, task, Enqueue::Restore);
        }
        if is_running {
            self.core.charge(&self.costs[class], Callback::SetNext);
            self.classes[class].set_next(&mut self.core, cpu, task);
        }
    }

    /// `sched_autogroup_exit_task()`, since Linux 4.9: a task that exits leaves its autogroup, whether it is
    /// in one or not, and `sched_move_task()` makes its CPU schedule.
    pub(super) fn leave_autogroup(&mut self, cpu: CpuId, task: TaskId) {
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        self.put_back_after(task, Dequeue::Move, |_| {});
        self.core.unlock(lock);
        self.core.resched(cpu);
    }
}
