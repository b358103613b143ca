//! CPUs that go off- and online, like `kernel/cpu.c` and `sched_cpu_deactivate()`.
use super::Simulation;
use crate::core::{CpuId, State, TaskId};
use crate::engine::{Event, Ns};
use crate::rest::Freed;
use crate::workload::Disturbance;
use flsched_machine::Price;

/// How long to wait for a task that must not be moved.
const RETRY_NS: Ns = 1_000_000;

impl Simulation {
    /// Plans changes from outside.
    pub fn plan(&mut self, disturbances: impl IntoIterator<Item = (Ns, Disturbance)>) {
        let mut all: Vec<(Ns, Disturbance)> = disturbances.into_iter().collect();
        all.sort_by_key(|(at, _)| *at);
        for (at, disturbance) in all {
            let event = match disturbance {
                Disturbance::Offline(cpu) => Event::Hotplug { cpu, is_online: false },
                Disturbance::Online(cpu) => Event::Hotplug { cpu, is_online: true },
                change => {
                    self.changes.push(change);
                    Event::Change { number: self.changes.len() - 1 }
                }
            };
            self.core.queue.push(at, event);
        }
    }

    /// Done on the first CPU that is online.
    pub(super) fn change(&mut self, number: usize) {
        let change = self.changes[number].clone();
        let (Disturbance::Affinity(task, _) | Disturbance::Nice(task, _) | Disturbance::Schedule(task, _)) =
            change
        else {
            return;
        };
        let task = task + self.kernel_threads();
        let is_alive = self.core.tasks.get(task).is_some_and(|task| task.state != State::Dead);
        if !is_alive || self.core.tasks[task].state == State::New {
            return;
        }
        let here = self.core.online_near(0);
        self.interrupt(here);
        self.core.spend(Price::Syscall, *self.core.machine.costs.syscall_ns);
        match change {
            Disturbance::Affinity(_, mask) => self.set_affinity(task, &mask),
            Disturbance::Nice(_, nice) => self.set_nice(task, nice),
            Disturbance::Schedule(_, scheduling) => self.set_scheduling(task, scheduling),
            Disturbance::Offline(_) | Disturbance::Online(_) => {}
        }
        self.settle(here);
    }

    /// Done on another CPU.
    pub(super) fn hotplug(&mut self, cpu: CpuId, is_online: bool) {
        if cpu >= self.core.nr_cpus() || self.core.online.has(cpu) == is_online {
            return;
        }
        if !is_online && (self.core.online.weight() == 1 || self.must_wait(cpu)) {
            return;
        }
        self.changed_at = self.core.now;
        self.core.online.set(cpu, is_online);
        self.core.cpus[cpu].is_online = is_online;
        if let Some(observer) = &mut self.core.observer {
            observer.hotplug(cpu, is_online, self.core.now);
        }
        let here = self.core.online_near(cpu + 1 - usize::from(cpu + 1 == self.core.nr_cpus()));
        self.interrupt(here);
        self.call_rcu(Freed::Memory);
        for class in &mut self.classes {
            class.hotplug(&mut self.core, cpu, is_online);
        }
        if is_online {
            self.core.resched(cpu);
        } else {
            let here = |task: &&crate::core::Task| task.cpu == cpu && task.is_queued;
            let tasks: Vec<TaskId> = self.core.tasks.iter().filter(here).map(|task| task.id).collect();
            tasks.into_iter().for_each(|task| self.leave_if_misplaced(task));
        }
        self.settle(here);
    }

    /// A task that must not be moved delays the end of the CPU: it is tried again later.
    fn must_wait(&mut self, cpu: CpuId) -> bool {
        let holds = self
            .core
            .tasks
            .iter()
            .any(|task| task.cpu == cpu && task.migration_disabled > 0 && task.state != State::Dead);
        if holds {
            self.core.queue.push(self.core.now + RETRY_NS, Event::Hotplug { cpu, is_online: false });
        }
        holds
    }
}
