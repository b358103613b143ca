//! Changes for which a task is removed from its run queue, if it is in one, and added again:
//! `sched_change_begin()` and `sched_change_end()` of `kernel/sched/core.c`.
use super::{MAX_RT_PRIO, Simulation};
use crate::classes::{Dequeue, Enqueue};
use crate::core::{CpuId, Scheduling, TaskId};
use flsched_machine::Callback;

impl Simulation {
    /// The lock of the task's CPU is held. The change may bring the task into another class.
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
        let class = self.core.tasks[task].class;
        if is_queued {
            self.core.set_queued(task, true);
            self.core.tasks[task].on_rq = 1;
            if !is_running {
                self.core.record_queue(cpu, 1);
            }
            self.charge_enqueue(task);
            self.classes[class].enqueue(&mut self.core, cpu, task, Enqueue::Restore);
        }
        if is_running {
            self.core.charge(&self.costs[class], Callback::SetNext);
            self.classes[class].set_next(&mut self.core, cpu, task);
            let now = self.core.cpus[self.core.here].clock;
            if let Some(observer) = &mut self.core.observer {
                observer.goes_on(&self.core.tasks[task], now);
            }
        }
    }

    /// `set_user_nice()`.
    pub(super) fn set_nice(&mut self, task: TaskId, nice: i32) {
        let (class, cpu) = (self.core.tasks[task].class, self.core.tasks[task].cpu);
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        self.put_back_after(task, Dequeue::Save, |run| {
            run.classes[class].begin_change(&mut run.core, task);
            run.core.tasks[task].set_nice(nice);
            run.classes[class].reweight(&mut run.core, task);
        });
        self.core.unlock(lock);
    }

    /// `sched_setscheduler()`.
    pub(super) fn set_scheduling(&mut self, task: TaskId, scheduling: Scheduling) {
        let cpu = self.core.tasks[task].cpu;
        let was = self.core.tasks[task].class;
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        self.put_back_after(task, Dequeue::Move, |run| {
            run.classes[was].begin_change(&mut run.core, task);
            run.core.tasks[task].set_scheduling(scheduling);
            let class = usize::from(run.core.tasks[task].prio >= MAX_RT_PRIO);
            run.core.tasks[task].class = class;
            if class == was {
                run.classes[class].reweight(&mut run.core, task);
                return;
            }
            run.classes[was].task_leaves(&mut run.core, task);
            run.alive[was] -= 1;
            run.alive[class] += 1;
            run.classes[class].task_joins(&mut run.core, task);
        });
        self.check_class_changed(cpu, task, was);
        self.core.unlock(lock);
    }

    /// `check_class_changed()`: whether its CPU must schedule, as the task was in class `was` before.
    fn check_class_changed(&mut self, cpu: CpuId, task: TaskId, was: usize) {
        let class = self.core.tasks[task].class;
        if !self.core.tasks[task].is_queued || (class == was && self.core.cpus[cpu].curr != Some(task)) {
            return;
        }
        match self.core.cpus[cpu].curr {
            Some(curr) if curr == task || class < self.core.tasks[curr].class => self.core.resched(cpu),
            Some(curr) if self.core.tasks[curr].class == class => {
                self.core.charge(&self.costs[class], Callback::WakeupPreempt);
                self.classes[class].wakeup_preempt(&mut self.core, cpu, task);
            }
            Some(_) => {}
            None => self.core.resched(cpu),
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
