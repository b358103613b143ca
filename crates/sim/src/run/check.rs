//! What must be true of every run, under any scheduler.
use super::Simulation;
use crate::Violation;
use crate::core::{CpuId, State, Task, TaskId};
use crate::engine::Ns;

/// In addition to two ticks: the time that CPUs need to find a task and to switch to it.
const TO_SWITCH_NS: Ns = 1_000_000;

impl Simulation {
    /// `task` is about to run on `cpu`.
    pub(super) fn check_begin(&mut self, cpu: CpuId, task: TaskId) {
        let state = &self.core.tasks[task];
        let wrong = if state.state != State::Runnable || !state.is_queued {
            Some("is picked and not runnable".to_owned())
        } else if state.cpu != cpu {
            Some(format!("is picked by CPU {cpu} and in the run queue of CPU {}", state.cpu))
        } else if !state.may_run_on(cpu) {
            Some(format!("is picked by CPU {cpu}, where it may not run"))
        } else if self.core.cpus.iter().any(|other| other.curr == Some(task)) && cfg!(debug_assertions) {
            Some("runs on two CPUs".to_owned())
        } else {
            None
        };
        if let Some(what) = wrong {
            self.core.fail("pick", Some(task), what);
        }
    }

    /// Checks the whole state: no task is lost or on two CPUs, and no time is lost. Too slow for
    /// every event.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let fail = |task: Option<TaskId>, what: String| {
            let task = task.map(|task| self.core.tasks[task].label());
            Err(Violation { what, callback: "", task, at: self.core.now })
        };
        let mut running = vec![None; self.core.tasks.len()];
        for (cpu, state) in self.core.cpus.iter().enumerate() {
            let Some(curr) = state.curr else { continue };
            if let Some(other) = running[curr].replace(cpu) {
                return fail(Some(curr), format!("runs on CPUs {other} and {cpu}"));
            }
        }
        for task in &self.core.tasks {
            let life = task.since - task.born_at;
            if task.ran + task.waited + task.slept != life {
                return fail(Some(task.id), format!("ran, waited and slept for other than its {life} ns"));
            }
        }
        let queued = self.core.tasks.iter().filter(|task| task.is_queued).count();
        let on_cpu = running.iter().filter(|cpu| cpu.is_some()).count();
        let sleeping = self
            .core
            .cpus
            .iter()
            .filter(|cpu| cpu.curr.is_some_and(|curr| !self.core.tasks[curr].is_queued))
            .count();
        let waiting: usize = self.classes.iter().map(|class| class.waiting(&self.core)).sum();
        if waiting + on_cpu != queued + sleeping {
            return fail(
                None,
                format!("{queued} tasks are runnable, {on_cpu} run, {waiting} wait in queues"),
            );
        }
        if let Some((task, cpu)) = self.waiting_beside_idle() {
            return fail(Some(task), format!("waits for more than two ticks while CPU {cpu} idles"));
        }
        Ok(())
    }

    /// A task that has waited for more than two ticks, and a CPU that has idled for as long and where it
    /// may run; only if the scheduler guarantees that there is none. A change of online CPUs or of an
    /// affinity can disturb a search, so the time counts from the last of these.
    fn waiting_beside_idle(&self) -> Option<(TaskId, CpuId)> {
        let since = self.core.now.checked_sub(2 * self.core.machine.tick_ns + TO_SWITCH_NS)?;
        if !self.keeps_cpus_busy || self.changed_at >= since {
            return None;
        }
        let idle = |cpu: &CpuId| {
            let state = &self.core.cpus[*cpu];
            state.curr.is_none() && state.is_online && state.idle_since < since
        };
        let idle: Vec<CpuId> = (0..self.core.nr_cpus()).filter(idle).collect();
        let waits = |task: &&Task| {
            task.is_queued && task.on_cpu == 0 && task.since < since && task.migration_disabled == 0
        };
        let waiting = self.core.tasks.iter().filter(waits);
        waiting
            .flat_map(|task| idle.iter().map(move |&cpu| (task, cpu)))
            .find_map(|(task, cpu)| task.may_run_on(cpu).then_some((task.id, cpu)))
    }
}
