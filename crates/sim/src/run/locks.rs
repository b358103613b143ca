//! Waiting for semaphores and mutexes.
use super::Simulation;
use crate::core::{CpuId, TaskId};
use crate::engine::Ns;
use crate::workload::{Attempt, Semaphore, SemaphoreId, Step};
use flsched_machine::Price;

impl Simulation {
    /// Takes one of the semaphore; waiting asleep costs a system call.
    pub(super) fn down(&mut self, cpu: CpuId, task: TaskId, semaphore: SemaphoreId, has_slept: bool) {
        match self.world.semaphores[semaphore].down(task, has_slept) {
            Attempt::Taken => {}
            Attempt::Spins => self.spin(task, Step::Down(semaphore), Semaphore::SPIN_NS, has_slept),
            Attempt::Sleeps { spinners } => {
                spinners.into_iter().for_each(|spinner| self.cut_short(spinner));
                self.core.spend(Price::Syscall, *self.core.machine.costs.syscall_ns);
                self.retry(cpu, task, Step::Down(semaphore));
            }
        }
    }

    /// The task spins for so long, or until [`Simulation::cut_short`], and tries the step again.
    pub(super) fn spin(&mut self, task: TaskId, step: Step, ns: Ns, has_slept: bool) {
        self.core.tasks[task].work_left = ns;
        self.core.spent.assign(Price::Spin, ns);
        let actor = &mut self.world.actors[task];
        actor.pending = Some(step);
        actor.has_waited = has_slept;
    }

    /// Releases one of each semaphore; wake-ups by it cost a system call.
    pub(super) fn up(&mut self, task: TaskId, semaphores: &[SemaphoreId], is_message: bool) {
        let mut woken = Vec::new();
        for &semaphore in semaphores {
            let (sleeper, spinners) = self.world.semaphores[semaphore].up();
            woken.extend(sleeper);
            spinners.into_iter().for_each(|spinner| self.cut_short(spinner));
        }
        if !woken.is_empty() {
            self.core.spend(Price::Syscall, *self.core.machine.costs.syscall_ns);
        }
        match is_message {
            true => self.wake_for_message(task, woken, None),
            false => self.wake_all(task, woken),
        }
    }
}
