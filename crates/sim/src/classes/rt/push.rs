//! Waiting tasks move to CPUs that run a lower priority.
use super::Rt;
use crate::core::{Core, CpuId, LockId, TaskId};
use crate::engine::Event;

/// The interrupt that visits one overloaded CPU after the other and makes each push:
/// `rto_push_work`.
#[derive(Debug)]
pub(super) struct Chain {
    /// `rto_lock`.
    lock: LockId,
    /// The CPU that it is at; `None`: it is not on its way.
    at: Option<CpuId>,
    /// How many rounds were requested, and done.
    asked: u64,
    done: u64,
}

impl Chain {
    pub(super) fn new(core: &mut Core) -> Self {
        Self { lock: core.locks.add("rto"), at: None, asked: 0, done: 0 }
    }
}

impl Rt {
    /// `find_lowest_rq()`: the CPU where the task was last, else one near it, the waking CPU first.
    pub(super) fn lowest(&mut self, core: &mut Core, task: TaskId, last: CpuId) -> Option<CpuId> {
        if !Self::can_move(core, task) {
            return None;
        }
        let mask = self.priorities.below(core, task)?;
        if mask.has(last) {
            return Some(last);
        }
        let here = core.here;
        for domain in self.domains.around(last) {
            if domain.span.has(here) && mask.has(here) {
                return Some(here);
            }
            let goes_on = core.machine.kernel.distributes_rt();
            let from = if goes_on { (self.chosen[here] + 1) % core.nr_cpus() } else { last };
            if let Some(cpu) = mask.first_common_from(&domain.span, from) {
                self.chosen[here] = cpu;
                return Some(cpu);
            }
        }
        mask.first_common_from(&core.online, here)
    }

    /// `cpupri_find()`: whether there is such a CPU.
    pub(super) fn has_lower(&self, core: &mut Core, task: TaskId) -> bool {
        Self::can_move(core, task) && self.priorities.below(core, task).is_some()
    }

    /// `push_rt_tasks()`; the lock of `cpu` is held.
    pub(super) fn push_all(&mut self, core: &mut Core, cpu: CpuId) {
        while self.push(core, cpu) {}
    }

    /// `push_rt_task()`.
    fn push(&mut self, core: &mut Core, cpu: CpuId) -> bool {
        let Some(&task) = self.queues[cpu].pushable.first() else { return false };
        let prio = core.tasks[task].prio;
        let running = core.cpus[cpu].curr.map_or(i32::MAX, |curr| core.tasks[curr].prio);
        if prio < running {
            core.resched(cpu);
            return false;
        }
        let Some(target) = self.lowest(core, task, cpu) else { return false };
        if target == cpu || self.queues[target].highest() <= prio {
            return false;
        }
        let lock = core.cpus[target].lock;
        core.lock(lock);
        self.move_to(core, cpu, target, task);
        core.resched(target);
        core.unlock(lock);
        true
    }

    fn move_to(&mut self, core: &mut Core, from: CpuId, to: CpuId, task: TaskId) {
        self.remove(core, from, task);
        core.set_task_cpu(task, to);
        self.insert(core, to, task);
        self.add_pushable(core, to, task);
    }

    /// `pull_rt_task()`; the lock of `cpu` is held.
    pub(super) fn pull(&mut self, core: &mut Core, cpu: CpuId) {
        if !self.overloaded.iter().any(|other| other != cpu) {
            return;
        }
        if self.options.push_ipi {
            self.ask_to_push(core);
            return;
        }
        for from in self.overloaded.clone().iter().filter(|&from| from != cpu) {
            core.look_at(from);
            let first = self.queues[from].pushable.first();
            if first.is_none_or(|&task| core.tasks[task].prio >= self.queues[cpu].highest()) {
                continue;
            }
            let lock = core.cpus[from].lock;
            core.lock(lock);
            let may_run = |&&task: &&TaskId| core.tasks[task].may_run_on(cpu);
            let task = self.queues[from].pushable.iter().find(may_run).copied();
            let running = core.cpus[from].curr.map_or(i32::MAX, |curr| core.tasks[curr].prio);
            if let Some(task) = task
                && core.tasks[task].prio < self.queues[cpu].highest()
                // A task that outranks the running one is about to run there.
                && core.tasks[task].prio >= running
            {
                self.move_to(core, from, cpu, task);
            }
            core.unlock(lock);
        }
    }

    /// `tell_cpu_to_push()`.
    fn ask_to_push(&mut self, core: &mut Core) {
        self.chain.asked += 1;
        core.lock(self.chain.lock);
        if self.chain.at.is_none() {
            self.send_on(core);
        }
        core.unlock(self.chain.lock);
    }

    /// `rto_push_irq_work_func()`.
    pub(super) fn asked_to_push(&mut self, core: &mut Core, cpu: CpuId) {
        if !self.queues[cpu].pushable.is_empty() {
            let lock = core.cpus[cpu].lock;
            core.lock(lock);
            self.push_all(core, cpu);
            core.unlock(lock);
        }
        core.lock(self.chain.lock);
        self.send_on(core);
        core.unlock(self.chain.lock);
    }

    /// `rto_next_cpu()`: all overloaded CPUs in their order, and again if a CPU asked in between.
    fn send_on(&mut self, core: &mut Core) {
        loop {
            let from = self.chain.at.map_or(0, |at| at + 1);
            self.chain.at = self.overloaded.iter().find(|&cpu| cpu >= from);
            if let Some(cpu) = self.chain.at {
                let event = Event::Timer { class: self.index, cpu, timer: 0, generation: 0 };
                core.send(cpu, event);
                return;
            }
            if self.chain.done == self.chain.asked {
                return;
            }
            self.chain.done = self.chain.asked;
        }
    }
}
