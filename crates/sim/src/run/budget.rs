//! The budgets of `SCHED_DEADLINE`, as `kernel/sched/deadline.c` enforces them without a high-resolution timer: at
//! ticks. Among each other such tasks run in the order of arrival, not of their deadlines.
use super::Simulation;
use crate::core::{CpuId, State, TaskId};
use crate::engine::Event;

impl Simulation {
    /// `update_curr_dl()` at a tick of `cpu`, where the task runs: one that has used up its budget is throttled until its
    /// next period.
    pub(super) fn enforce_budget(&mut self, cpu: CpuId, task: TaskId) {
        let (clock, is_waking) = (self.core.clock(), self.world.actors[task].is_waking());
        let state = &mut self.core.tasks[task];
        let ran = state.se.sum_exec_runtime;
        let Some(budget) = &mut state.budget else { return };
        if clock >= budget.period_end {
            budget.period_end = clock + budget.period;
            budget.ran_before = ran;
            return;
        }
        // One that wakes others holds a lock: at the next tick.
        if ran - budget.ran_before < budget.runtime || is_waking || state.state != State::Runnable {
            return;
        }
        let renewed_at = budget.period_end;
        budget.period_end += budget.period;
        budget.ran_before = ran;
        self.core.queue.push(renewed_at, Event::WakeUp { task });
        self.block(cpu, task);
    }
}
