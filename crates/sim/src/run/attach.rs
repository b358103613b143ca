//! A policy that is attached while tasks run: `scx_enable()` of `kernel/sched/ext.c`. Bypass mode is not modelled; all
//! tasks come at one moment.
use super::Simulation;
use crate::Error;
use crate::classes::{Dequeue, Enqueue};
use crate::core::{State, TaskId};
use crate::schedulers::set_up;

/// The number of the class below the real-time class.
const BELOW_RT: usize = 1;

impl Simulation {
    pub(super) fn attach(&mut self) {
        let here = self.core.online_near(0);
        self.interrupt(here);
        if let Err(error) = self.replace_fair() {
            self.core.fail("init", None, error.to_string());
        }
        let online: Vec<usize> = self.core.online.iter().collect();
        online.into_iter().for_each(|cpu| self.core.resched(cpu));
        self.settle(here);
    }

    fn replace_fair(&mut self) -> Result<(), Error> {
        let Some(mut policy) = set_up(&self.setup.scheduler, &mut self.core)?.pop() else { return Ok(()) };
        let tasks: Vec<TaskId> = self
            .core
            .tasks
            .iter()
            .filter(|task| task.state != State::Dead || task.is_queued)
            .map(|task| task.id)
            .collect();
        let (moved, others): (Vec<TaskId>, Vec<TaskId>) =
            tasks.into_iter().partition(|&task| self.core.tasks[task].class == BELOW_RT);
        let queued: Vec<TaskId> =
            moved.iter().copied().filter(|&task| self.core.tasks[task].is_queued).collect();
        let runs = |run: &Self, task: TaskId| run.core.cpus[run.core.tasks[task].cpu].curr == Some(task);
        for &task in &moved {
            let cpu = self.core.tasks[task].cpu;
            let class = &mut self.classes[BELOW_RT];
            if self.core.tasks[task].is_queued {
                class.dequeue(&mut self.core, cpu, task, Dequeue::Move);
                self.core.set_queued(task, false);
            }
            if self.core.cpus[cpu].curr == Some(task) {
                class.put_prev(&mut self.core, cpu, task, Some(task));
            }
            class.begin_change(&mut self.core, task);
        }
        if let Some(observer) = &mut self.core.observer {
            observer.attached(self.core.now);
        }
        policy.start(&mut self.core)?;
        self.costs[BELOW_RT] = self.setup.machine.callbacks(policy.name());
        self.classes[BELOW_RT] = policy;
        let class = &mut self.classes[BELOW_RT];
        for &task in moved.iter().chain(&others) {
            class.task_exists(&mut self.core, task);
        }
        for &task in &moved {
            self.classes[BELOW_RT].task_joins(&mut self.core, task);
        }
        for task in queued {
            let cpu = self.core.tasks[task].cpu;
            self.core.set_queued(task, true);
            self.classes[BELOW_RT].enqueue(&mut self.core, cpu, task, Enqueue::Restore);
            if runs(self, task) {
                self.classes[BELOW_RT].set_next(&mut self.core, cpu, task);
            }
        }
        Ok(())
    }
}
