//! The core's part of scheduling, after `kernel/sched/core.c`: `try_to_wake_up()`,
//! `wake_up_new_task()`, `__schedule()`, `sched_tick()`.
use super::Simulation;
use crate::classes::{Class, Dequeue, Enqueue, Wake};
use crate::core::{Core, CpuId, State, TaskId};
use crate::engine::{Event, Ns};
use flsched_machine::{Callback, Distance, Price};

/// What the waker has of the price of a wake-up if the CPU of the woken task enqueues it. This and the other CPU's part
/// are from traces of 16 threads that sleep at the barriers of GCC's OpenMP, with `TTWU_QUEUE` and without it (6.18.15,
/// parallel clock). With it a wake-up and the waker's next one are 1,130 ns closer together under `rr` and 1,420 under
/// `eevdf`, of which 387 and 917 are the class's function; a wake-up and the switch are 510 and 600 ns further apart.
pub(super) fn wakers_part(wakeup_ns: Ns) -> Ns {
    wakeup_ns / 4
}

/// What the CPU has, which is interrupted for it. See [`wakers_part`].
fn wakees_part(wakeup_ns: Ns) -> Ns {
    wakeup_ns * 4 / 3
}

/// The states of a task for accounting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Waiting,
    Sleeping,
}

impl Simulation {
    /// `cpu` stops its present work and enters the kernel.
    pub(super) fn interrupt(&mut self, cpu: CpuId) {
        self.core.go_to(cpu);
        let clock = self.core.clock();
        self.core.stop_work(cpu, clock);
    }

    /// `cpu` leaves the kernel: it schedules if it must, and continues its task's work.
    pub(super) fn settle(&mut self, cpu: CpuId) {
        self.core.here = cpu;
        // An interrupt returns into the system call that it interrupted.
        if self.core.cpus[cpu].need_resched_lazy && !self.is_in_call(cpu) {
            self.core.cpus[cpu].need_resched_lazy = false;
            self.core.cpus[cpu].need_resched = true;
        }
        self.settle_classes(cpu);
        // A task that wakes many holds a wait queue's lock with interrupts off.
        let is_waking = self.core.cpus[cpu].curr.is_some_and(|curr| self.world.actors[curr].is_waking());
        if self.core.cpus[cpu].need_resched && !is_waking {
            self.schedule(cpu);
            self.settle_classes(cpu);
        }
        let state = &mut self.core.cpus[cpu];
        // Requested again: it happens later, in order with the other CPUs' events.
        if state.need_resched && !state.is_interrupt_sent && !is_waking {
            state.is_interrupt_sent = true;
            self.core.queue.push(state.clock, Event::Resched { cpu });
        }
        let clock = state.clock;
        self.core.start_work(cpu, clock);
    }

    fn settle_classes(&mut self, cpu: CpuId) {
        for (class, alive) in self.classes.iter_mut().zip(&self.alive) {
            if *alive > 0 {
                class.settle(&mut self.core, cpu);
            }
        }
    }

    /// Adds the time since the task's last change of state to the state it was in. The sum is the
    /// task's lifetime.
    fn account(&mut self, task: TaskId, was: Phase) {
        let clock = self.core.clock();
        let task = &mut self.core.tasks[task];
        let passed = clock.saturating_sub(task.since);
        task.since = task.since.max(clock);
        match was {
            Phase::Running => task.ran += passed,
            Phase::Waiting => task.waited += passed,
            Phase::Sleeping => task.slept += passed,
        }
    }

    /// Wakes a sleeper; `by`: the task that does, none for an interrupt; false: it does not sleep.
    pub(super) fn wake(&mut self, task: TaskId, by: Option<TaskId>, sync: bool) -> bool {
        if self.core.tasks[task].state != State::Sleeping {
            return false;
        }
        self.core.tasks[task].waker = by;
        self.account(task, Phase::Sleeping);
        self.core.counts.events += 1;
        if !self.core.tasks[task].is_kernel_thread() {
            self.core.counts.wakeups += 1;
            // The trace point `sched_waking` is as early.
            self.core.tasks[task].woken_at = Some(self.core.clock());
        }
        let wakeup_ns = *self.core.machine.costs.wakeup_ns;
        let class = self.core.tasks[task].class;
        // `ttwu_runnable()`: it has never left its run queue, and stays there.
        if self.classes[class].is_delayed(&mut self.core, task) {
            self.core.spend(Price::WakeUp, wakeup_ns);
            self.activate(task, Enqueue::Delayed);
            return true;
        }
        let first_ns = if self.may_leave_enqueueing(class) { wakers_part(wakeup_ns) } else { wakeup_ns };
        self.core.spend(Price::WakeUp, first_ns);
        self.place(task, Wake::Up { sync });
        if self.leaves_enqueueing(task) {
            self.core.add_to_wake_list(task);
        } else {
            self.core.spend(Price::WakeUp, wakeup_ns - first_ns);
            self.activate(task, Enqueue::WakeUp);
        }
        true
    }

    /// Can it be that a waker leaves it to another CPU to enqueue a task of this class?
    fn may_leave_enqueueing(&self, class: usize) -> bool {
        self.core.machine.kernel.queues_far_wake_ups() && self.classes[class].allows_queued_wake_ups()
    }

    /// `ttwu_queue_cond()`: does the waker leave it to the task's CPU to enqueue it? The path for a task that is still
    /// being switched out (`p->on_cpu`) is not modelled: here a switch is done in one event.
    fn leaves_enqueueing(&self, task: TaskId) -> bool {
        let (class, cpu, here) = (self.core.tasks[task].class, self.core.tasks[task].cpu, self.core.here);
        let is_far = || self.core.machine.distance(here, cpu) > Distance::Cache;
        let is_idle =
            || self.core.cpus[cpu].nr_running == 0 && self.core.machine.kernel.queues_wake_ups_to_idle();
        cpu != here && self.may_leave_enqueueing(class) && (is_far() || is_idle())
    }

    /// `sched_ttwu_pending()`.
    pub(super) fn empty_wake_list(&mut self, cpu: CpuId) {
        let wakeup_ns = *self.core.machine.costs.wakeup_ns;
        for task in std::mem::take(&mut self.core.cpus[cpu].wake_list) {
            self.core.spend(Price::WakeUp, wakees_part(wakeup_ns));
            let state = &self.core.tasks[task];
            // Its affinity has changed meanwhile, or the CPU goes offline.
            if !state.may_run_on(cpu) || !self.core.online.has(cpu) {
                let to = self.fallback_cpu(task, cpu);
                self.core.set_task_cpu(task, to);
            }
            self.activate(task, Enqueue::WakeUp);
        }
    }

    /// Wakes a task for the first time.
    pub(super) fn wake_new(&mut self, task: TaskId) {
        self.place(task, Wake::Fork);
        self.activate(task, Enqueue::Fork);
    }

    /// `select_task_rq()`.
    fn place(&mut self, task: TaskId, wake: Wake) {
        let (class, prev) = (self.core.tasks[task].class, self.core.tasks[task].cpu);
        let may_choose =
            self.core.tasks[task].nr_cpus_allowed > 1 && self.core.tasks[task].migration_disabled == 0;
        let mut cpu = prev;
        if may_choose {
            self.core.charge(&self.costs[class], Callback::SelectCpu);
            cpu = self.classes[class].select_cpu(&mut self.core, task, prev, wake);
            if self.classes[class].calls_ops_enqueue(&self.core, task) {
                self.core.charge(&self.costs[class], Callback::SelectBusy);
            }
        }
        if !self.core.tasks[task].may_run_on(cpu) || !self.core.online.has(cpu) {
            cpu = self.fallback_cpu(task, cpu);
        }
        self.core.set_task_cpu(task, cpu);
    }

    /// `enqueue_task()`, which costs more where it calls a policy.
    pub(super) fn charge_enqueue(&mut self, task: TaskId) {
        let class = self.core.tasks[task].class;
        self.core.charge(&self.costs[class], Callback::Enqueue);
        if self.classes[class].calls_ops_enqueue(&self.core, task) {
            self.core.charge(&self.costs[class], Callback::OpsEnqueue);
        }
    }

    /// `activate_task()` and `wakeup_preempt()`.
    pub(super) fn activate(&mut self, task: TaskId, why: Enqueue) {
        let (class, cpu) = (self.core.tasks[task].class, self.core.tasks[task].cpu);
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        self.core.tasks[task].state = State::Runnable;
        self.core.set_queued(task, true);
        self.core.record_queue(cpu, 1);
        if why != Enqueue::Restore {
            let (at, by) = (self.core.clock(), self.core.tasks[task].waker);
            self.core.timeline.iter_mut().for_each(|timeline| timeline.woken(task, cpu, at, by));
        }
        self.charge_enqueue(task);
        self.classes[class].enqueue(&mut self.core, cpu, task, why);
        self.core.tasks[task].on_rq = 1;
        if why == Enqueue::Fork {
            // The trace point `sched_wakeup_new` is as late.
            self.core.tasks[task].woken_at = Some(self.core.clock());
        }
        match self.core.cpus[cpu].curr.map(|curr| self.core.tasks[curr].class) {
            Some(running) if running == class => {
                self.core.charge(&self.costs[class], Callback::WakeupPreempt);
                self.classes[class].wakeup_preempt(&mut self.core, cpu, task);
            }
            Some(running) if running < class => {}
            _ => self.core.resched(cpu),
        }
        self.core.unlock(lock);
    }

    /// `deactivate_task()`.
    pub(super) fn deactivate(&mut self, task: TaskId, why: Dequeue) {
        let (class, cpu) = (self.core.tasks[task].class, self.core.tasks[task].cpu);
        self.core.charge(&self.costs[class], Callback::Dequeue);
        self.classes[class].dequeue(&mut self.core, cpu, task, why);
        self.core.set_queued(task, false);
        self.core.tasks[task].on_rq = 0;
        if self.core.cpus[cpu].curr != Some(task) {
            self.core.record_queue(cpu, -1);
        }
    }

    /// `__schedule()`.
    pub(super) fn schedule(&mut self, cpu: CpuId) {
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        let prev = self.core.cpus[cpu].curr;
        self.core.cpus[cpu].rq_clock = Some(self.core.clock());
        self.replace(cpu, prev);
        self.core.cpus[cpu].rq_clock = None;
        self.core.unlock(lock);
        if let Some(prev) = prev
            && self.core.tasks[prev].state == State::Dead
        {
            self.bury(prev);
        }
    }

    /// The part of `__schedule()` under the run queue's lock.
    fn replace(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        if let Some(prev) = prev {
            if self.core.tasks[prev].state != State::Runnable {
                self.deactivate(prev, Dequeue::Sleep);
            }
            if self.is_misplaced(prev) {
                return self.evict(cpu, prev);
            }
        }
        let next = self.pick(cpu, prev);
        match (prev, next) {
            (None, None) => self.update_idle(cpu, true, false),
            _ if prev == next => {}
            _ => self.switch(cpu, prev, next),
        }
        // A request that a class made while it put `prev` away concerned `prev`.
        self.core.clear_need_resched(cpu);
    }

    /// `None` on a CPU that is going offline.
    pub(super) fn pick(&mut self, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        if !self.core.online.has(cpu) {
            return None;
        }
        for (index, class) in self.classes.iter_mut().enumerate() {
            if self.alive[index] == 0 {
                continue;
            }
            let prev = prev.filter(|&prev| self.core.tasks[prev].class == index);
            self.core.charge(&self.costs[index], Callback::Balance);
            class.balance(&mut self.core, cpu, prev);
            self.core.charge(&self.costs[index], Callback::Pick);
            if let Some(next) = class.pick(&mut self.core, cpu, prev) {
                return Some(next);
            }
        }
        None
    }

    fn switch(&mut self, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>) {
        match prev {
            Some(prev) => self.leave(cpu, prev, next),
            None => {
                let clock = self.core.clock();
                let state = &mut self.core.cpus[cpu];
                state.idled += clock - state.idle_since;
                self.core.idle.set(cpu, false);
                self.core.set_busy(cpu, true);
                self.update_idle(cpu, false, true);
            }
        }
        self.take_over(cpu, next);
    }

    /// `prev` leaves the CPU.
    pub(super) fn leave(&mut self, cpu: CpuId, prev: TaskId, next: Option<TaskId>) {
        let class = self.core.tasks[prev].class;
        self.core.charge(&self.costs[class], Callback::PutPrev);
        if self.core.tasks[prev].is_queued {
            self.core.charge(&self.costs[class], Callback::Requeue);
        }
        self.classes[class].put_prev(&mut self.core, cpu, prev, next);
        self.account(prev, Phase::Running);
        let at = self.core.clock();
        self.core.observer.iter_mut().for_each(|it| it.leaves(cpu, at));
        if self.core.tasks[prev].is_queued {
            self.keep_locked(prev);
            self.core.record_queue(self.core.tasks[prev].cpu, 1);
        }
        let task = &mut self.core.tasks[prev];
        task.on_cpu = 0;
        if task.is_queued {
            task.nivcsw += 1
        } else {
            task.nvcsw += 1
        }
        self.pin_while_off_cpu(prev);
    }

    /// `next`, or the idle task, gets the CPU, on which no task runs.
    pub(super) fn take_over(&mut self, cpu: CpuId, next: Option<TaskId>) {
        // Most of it lies before the trace point `sched_switch`.
        self.core.spend(Price::Switch, *self.core.machine.costs.switch_ns);
        let at = self.core.clock();
        self.core.timeline.iter_mut().for_each(|timeline| timeline.switched(cpu, next, at));
        match next {
            Some(next) => {
                self.core.record_queue(cpu, -1);
                self.begin(cpu, next);
            }
            None => {
                self.core.cpus[cpu].curr = None;
                self.core.cpus[cpu].idle_since = self.core.clock();
                self.core.idle.set(cpu, true);
                self.core.set_busy(cpu, false);
                self.core.observer.iter_mut().for_each(|it| it.idles(cpu, at));
                self.update_idle(cpu, true, true);
            }
        }
        self.core.counts.switches += 1;
        self.core.counts.events += 1;
    }

    /// `next` gets the CPU.
    fn begin(&mut self, cpu: CpuId, next: TaskId) {
        let waited_since = self.core.tasks[next].since;
        self.account(next, Phase::Waiting);
        let (clock, rq_clock) = (self.core.clock(), self.core.rq_clock(cpu));
        let task = &mut self.core.tasks[next];
        task.se.exec_start = rq_clock;
        task.on_cpu = 1;
        let class = task.class;
        if let Some(woken_at) = task.woken_at.take() {
            self.core.counts.latency.add(clock.saturating_sub(woken_at));
        }
        if let Some(observer) = &mut self.core.observer {
            observer.begins(&self.core.tasks[next], cpu, waited_since, clock);
        }
        self.check_begin(cpu, next);
        self.core.charge(&self.costs[class], Callback::SetNext);
        self.classes[class].set_next(&mut self.core, cpu, next);
        self.core.cpus[cpu].curr = Some(next);
        self.core.warm_up(cpu, next);
        if !self.core.cpus[cpu].is_ticking {
            self.core.cpus[cpu].is_ticking = true;
            self.plan_tick(cpu, clock);
        }
    }

    fn update_idle(&mut self, cpu: CpuId, is_idle: bool, changed: bool) {
        for (index, class) in self.classes.iter_mut().enumerate() {
            if self.alive[index] > 0 {
                self.core.charge(&self.costs[index], Callback::UpdateIdle);
            }
            class.update_idle(&mut self.core, cpu, is_idle, changed);
        }
    }

    fn bury(&mut self, task: TaskId) {
        self.core.leave_process(task);
        let class = self.core.tasks[task].class;
        self.core.charge(&self.costs[class], Callback::Exit);
        for (index, it) in self.classes.iter_mut().enumerate() {
            if index == class {
                it.task_dead(&mut self.core, task);
            } else {
                it.task_dead_elsewhere(&mut self.core, task);
            }
        }
        self.alive[class] -= 1;
    }

    fn plan_tick(&mut self, cpu: CpuId, after: Ns) {
        let tick = self.core.machine.tick_ns;
        self.core.queue.push((after / tick + 1) * tick, Event::Tick { cpu });
    }

    /// `sched_tick()`; on most machines an idle CPU has none.
    pub(super) fn tick(&mut self, cpu: CpuId) {
        let curr = self.core.cpus[cpu].curr;
        if curr.is_none() && self.core.machine.tickless_idle {
            self.core.cpus[cpu].is_ticking = false;
            return;
        }
        self.interrupt(cpu);
        self.core.spend(Price::Tick, *self.core.machine.costs.tick_ns);
        self.core.see_frequency(cpu);
        self.core.counts.ticks += 1;
        self.core.counts.events += 1;
        self.plan_tick(cpu, self.core.now);
        let Some(curr) = curr else { return self.settle(cpu) };
        let class = self.core.tasks[curr].class;
        let lock = self.core.cpus[cpu].lock;
        self.core.lock(lock);
        // In this order, as `rq->clock` is when it began.
        self.classes[class].tick(&mut self.core, cpu, curr);
        self.core.charge(&self.costs[class], Callback::Tick);
        self.enforce_budget(cpu, curr);
        self.core.unlock(lock);
        self.rcu_core(cpu);
        self.settle(cpu);
    }

    /// `sched_yield()`.
    pub(super) fn yield_now(&mut self, cpu: CpuId, curr: TaskId) {
        self.core.counts.yields += 1;
        self.give_up(cpu, curr, |class, core| {
            class.yield_task(core, cpu, curr);
            true
        });
    }

    /// `yield_to()`: nothing happens unless the other task is of the same class, and waits.
    pub(super) fn yield_to(&mut self, cpu: CpuId, curr: TaskId, number: usize) {
        let class = self.core.tasks[curr].class;
        let target = self.world.actors[curr].parent.map(|parent| parent + 1 + number);
        let waits = |&id: &TaskId| {
            let task = self.core.tasks.get(id);
            task.is_some_and(|task| {
                task.class == class
                    && task.state == State::Runnable
                    && self.core.cpus[task.cpu].curr != Some(id)
            })
        };
        let Some(target) = target.filter(waits) else { return };
        self.give_up(cpu, curr, |class, core| class.yield_to(core, cpu, curr, target));
    }

    /// `curr` gives its CPU up, if its class does so: `yields`.
    fn give_up(&mut self, cpu: CpuId, curr: TaskId, yields: impl FnOnce(&mut dyn Class, &mut Core) -> bool) {
        let class = self.core.tasks[curr].class;
        let lock = self.core.cpus[cpu].lock;
        self.core.counts.events += 1;
        self.core.lock(lock);
        self.core.charge(&self.costs[class], Callback::Yield);
        let yields = yields(self.classes[class].as_mut(), &mut self.core);
        self.core.unlock(lock);
        if yields {
            self.core.resched(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{prepare, program};
    use crate::workload::{Child, Step};
    use flsched_machine::Machine;

    /// The longest wait of a new task, if the search for its CPU takes so long for each.
    fn wait_of_a_new_task(cpu_search_ns: u64) -> u64 {
        let setting = format!("costs.cpu_search_ns={cpu_search_ns}").parse().unwrap();
        let machine = Machine::find_with("parallel-clock", &[setting]).unwrap();
        let mut simulation = prepare(machine.with_cpus(64).unwrap(), "eevdf");
        let child = Child::process("child", program(vec![Step::Run(1_000_000)]));
        simulation.go_through(Box::new(program(vec![Step::fork(child)]))).unwrap();
        simulation.core.counts.latency.percentile(1.0).unwrap()
    }

    #[test]
    fn a_new_task_waits_from_when_it_is_in_its_queue() {
        let (short, long) = (wait_of_a_new_task(10), wait_of_a_new_task(1000));
        assert!(short > 1000 && short == long, "{short} and {long} ns");
    }
}
