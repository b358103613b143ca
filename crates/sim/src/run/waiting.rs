//! Waiting at barriers: a task spins, yields or sleeps until the last one has arrived.
use super::Simulation;
use crate::core::{CpuId, TaskId};
use crate::engine::Ns;
use crate::workload::{Arrival, BarrierId, Step, Wait, Waiting};
use flsched_machine::Price;

impl Simulation {
    pub(super) fn arrive(&mut self, cpu: CpuId, task: TaskId, barrier: BarrierId, wait: Wait) {
        // The counter's cache line comes from the CPU of the previous arrival.
        if let Some(last) = self.world.barriers[barrier].line_at.replace(cpu) {
            self.core.spend(Price::Handover, self.core.travel_ns(last));
        }
        if let Some(last) = self.world.barriers[barrier].last.replace(task) {
            self.core.share_memory(task, last);
        }
        match self.world.barriers[barrier].arrive(task) {
            Arrival::Early { round } => {
                let since = self.core.clock();
                self.world.actors[task].waiting = Waiting { barrier, round, wait, since, has_polled: false };
                self.await_round(cpu, task);
            }
            Arrival::Last { pollers, sleepers } => {
                for poller in pollers {
                    self.cut_short(poller);
                }
                if !sleepers.is_empty() {
                    self.core.spend(Price::Syscall, *self.core.machine.costs.syscall_ns);
                }
                self.wake_all(task, sleepers);
            }
        }
    }

    /// The task starts to spin, or has spun.
    pub(super) fn await_round(&mut self, cpu: CpuId, task: TaskId) {
        let Waiting { barrier, round, wait, since, has_polled } = self.world.actors[task].waiting;
        if self.world.barriers[barrier].is_over(round) {
            return;
        }
        let waited = self.core.clock() - since;
        if wait.block_after.is_some_and(|after| waited >= after) {
            self.world.barriers[barrier].sleep(task);
            self.core.spend(Price::Syscall, *self.core.machine.costs.syscall_ns);
            self.retry(cpu, task, Step::Await);
            return;
        }
        let actor = &mut self.world.actors[task];
        actor.pending = Some(Step::Await);
        if has_polled && wait.yields {
            actor.waiting.has_polled = false;
            self.yield_now(cpu, task);
            return;
        }
        actor.waiting.has_polled = true;
        let until_sleep = wait.block_after.map_or(Ns::MAX, |after| after - waited);
        let entry = if wait.yields { *self.core.machine.costs.syscall_ns } else { 0 };
        let poll = wait.poll.min(until_sleep).max(1);
        self.core.tasks[task].work_left = poll + entry;
        self.core.spent.assign(Price::Spin, poll);
        self.core.spent.assign(Price::Syscall, entry);
    }

    /// What the task polls has changed: it notices the change when the cache line has arrived.
    pub(super) fn cut_short(&mut self, task: TaskId) {
        let cpu = self.core.tasks[task].cpu;
        let now = self.core.clock();
        let is_polling = self.core.cpus[cpu].curr == Some(task) && self.core.stop_work(cpu, now).is_some();
        let left = std::mem::take(&mut self.core.tasks[task].work_left);
        self.core.spent.cancel(Price::Spin, left);
        if is_polling {
            let travel = self.core.travel_ns(cpu);
            let state = &self.core.cpus[cpu];
            // The time is given, and the work is what fills it.
            let work = state.pace.work(travel);
            self.core.tasks[task].work_left = work;
            self.core.spent.assign(Price::Handover, work);
            self.core.start_work(cpu, now.max(state.clock));
        }
    }
}
