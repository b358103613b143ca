//! Waiting for semaphores, mutexes, and the lock of a process's memory.
use super::{MAX_RT_PRIO, Simulation};
use crate::core::{CpuId, TaskId};
use crate::engine::Ns;
use crate::workload::{Access, Attempt, MmapLock, MmapLockId, Released, Semaphore, SemaphoreId, Step};
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
    fn spin(&mut self, task: TaskId, step: Step, ns: Ns, has_slept: bool) {
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

    /// Takes the lock of a process's memory. A task that cannot take it spins or sleeps, and tries again.
    pub(super) fn lock_memory(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        id: MmapLockId,
        access: Access,
        has_slept: bool,
    ) {
        let lock = &mut self.world.mmap_locks[id];
        if lock.take(task, access, has_slept) {
            return;
        }
        let runs = |writer: TaskId| self.core.cpus[self.core.tasks[writer].cpu].curr == Some(writer);
        let writer_runs = lock.writer().map(runs);
        let is_asked = self.core.cpus[cpu].need_resched;
        let is_urgent = self.core.tasks[task].prio < MAX_RT_PRIO;
        // `rwsem_optimistic_spin()`: while the writer runs, or for a while if readers have it.
        let mut spins = match writer_runs {
            _ if has_slept || access == Access::Read || is_asked => false,
            Some(runs) => runs,
            None => !is_urgent && lock.can_spin(task),
        };
        if !spins {
            lock.queue(task, access, is_urgent);
            // The first waiter gets the lock at the next release, so it spins, too.
            spins = writer_runs == Some(true) && lock.is_handed_to(task);
        }
        let step = Step::LockMemory(id, access);
        if spins {
            lock.spin(task);
            self.spin(task, step, MmapLock::SPIN_NS, has_slept);
        } else {
            lock.sleep(task);
            self.retry(cpu, task, step);
        }
    }

    /// `task` has released the lock, or goes on as a reader.
    pub(super) fn pass_memory_on(&mut self, task: TaskId, released: Released) {
        released.spinners.into_iter().for_each(|spinner| self.cut_short(spinner));
        self.wake_all(task, released.sleepers);
    }
}
