//! Messages through pipes and sockets, and the mutex of a pipe, which the kernel holds while it copies one.
//!
//! A task does not sleep for one that copies on another CPU at that moment: the kernel spins.
//! But a task that is preempted while it copies holds the mutex until it runs again, and all tasks
//! that use that pipe sleep.
use super::Simulation;
use super::schedule::wakers_part;
use crate::core::{CpuId, TaskId};
use crate::engine::Ns;
use crate::workload::{ChannelId, Outcome, Step};
use flsched_machine::{ChannelCosts, Price};

/// How often a CPU that spins for a wait queue's lock looks whether it is free, when that can be at any moment.
const QUEUE_SPIN_NS: Ns = 500;

impl Simulation {
    pub(super) fn costs_of(&self, channel: ChannelId) -> ChannelCosts {
        let costs = &self.core.machine.costs;
        if self.world.channels[channel].is_pipe() { *costs.pipe_ns } else { *costs.socket_ns }
    }

    pub(super) fn price_of(&self, channel: ChannelId) -> Price {
        if self.world.channels[channel].is_pipe() { Price::Pipe } else { Price::Socket }
    }

    /// How long a task copies for this step, in addition to the system call.
    pub(super) fn copy_ns(&self, step: &Step) -> Ns {
        match step {
            Step::Write(channel) => self.costs_of(*channel).write,
            Step::Read(channel) => self.costs_of(*channel).read,
            _ => 0,
        }
    }

    pub(super) fn write(&mut self, cpu: CpuId, task: TaskId, channel: ChannelId, has_waited: bool) {
        // `sock_wait_for_wmem()` calls `prepare_to_wait()` again.
        if has_waited
            && !self.world.channels[channel].is_pipe()
            && let Some(ns) = self.queue_held_ns(cpu, channel)
        {
            return self.retry_after_spin(task, Step::Write(channel), ns);
        }
        let outcome = self.world.channels[channel].write(task);
        let next = self.world.channels[channel].next_writer(has_waited);
        self.unlock(task, channel);
        self.conclude(cpu, task, Step::Write, channel, outcome, next);
    }

    pub(super) fn read(&mut self, cpu: CpuId, task: TaskId, channel: ChannelId, has_waited: bool) {
        let outcome = self.world.channels[channel].read(task);
        let next = self.world.channels[channel].next_reader(has_waited);
        self.unlock(task, channel);
        self.conclude(cpu, task, Step::Read, channel, outcome, next);
    }

    pub(super) fn poll(&mut self, cpu: CpuId, task: TaskId, channel: ChannelId, has_waited: bool) {
        // `remove_wait_queue()`.
        if has_waited && let Some(ns) = self.queue_held_ns(cpu, channel) {
            return self.retry_after_spin(task, Step::Poll(channel), ns);
        }
        let outcome = self.world.channels[channel].poll(task);
        self.conclude(cpu, task, Step::Poll, channel, outcome, None);
    }

    /// How long `cpu` spins before it looks again whether the wait queue's lock is free; `None`: it is.
    /// `__wake_up()` holds it until it has woken all, and needs some time for each.
    fn queue_held_ns(&self, cpu: CpuId, channel: ChannelId) -> Option<Ns> {
        let waker = self.world.channels[channel].waker?;
        let left = self.world.actors[waker].to_wake.len() as Ns;
        let least = left * wakers_part(*self.core.machine.costs.wakeup_ns);
        (left > 0).then(|| self.core.cpus[cpu].pace.work(least).max(QUEUE_SPIN_NS))
    }

    pub(super) fn retry_after_spin(&mut self, task: TaskId, step: Step, ns: Ns) {
        self.core.tasks[task].work_left = ns;
        self.core.spent.assign(Price::LockWait, ns);
        self.try_again(task, step);
    }

    /// The step is done, and wakes others, `next` last; or the task sleeps and tries it again.
    fn conclude(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        step: fn(ChannelId) -> Step,
        channel: ChannelId,
        outcome: Outcome,
        next: Option<TaskId>,
    ) {
        match outcome {
            Outcome::Done(woken) if woken.is_empty() && next.is_none() => {}
            Outcome::Done(woken) => self.wake_for_message(task, woken, next),
            Outcome::Blocked => self.retry(cpu, task, step(channel)),
        }
    }

    /// How long the CPU of a task spins until no other CPU copies through the same pipe. The task begins with a step
    /// that takes so long, and copies in the last part of it.
    pub(super) fn spin_ns(&mut self, step: &Step, ns: Ns) -> Ns {
        let (Step::Write(channel) | Step::Read(channel)) = *step else { return 0 };
        if !self.world.channels[channel].is_pipe() {
            return 0;
        }
        let copy_ns = self.copy_ns(step).min(ns);
        let at = self.core.clock() + ns - copy_ns;
        let spun = self.world.channels[channel].mutex.spin_ns(at, copy_ns);
        self.core.spent.assign(Price::LockWait, spun);
        spun
    }

    /// `task`, which is runnable, has to leave its CPU, perhaps while it copies a message.
    pub(super) fn keep_locked(&mut self, task: TaskId) {
        let Some(channel) = self.uses(task).filter(|channel| self.world.channels[*channel].is_pipe()) else {
            return;
        };
        let copies = self.world.actors[task].pending.as_ref().map_or(0, |step| self.copy_ns(step));
        if (1..=copies).contains(&self.core.tasks[task].work_left) {
            self.world.channels[channel].mutex.hold(task);
        }
    }

    /// The running task of `cpu` is about to use a pipe. If the pipe's mutex is held by a task that does not
    /// run, it sleeps.
    #[inline]
    pub(super) fn waits_for_mutex(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let Some(channel) = self.uses(task) else { return false };
        // That of a socket is never held.
        let mutex = &mut self.world.channels[channel].mutex;
        let is_held = mutex.is_held(task);
        if is_held {
            mutex.wait(task);
            self.block(cpu, task);
        }
        is_held
    }

    /// The channel that the task writes or reads, or is about to.
    fn uses(&self, task: TaskId) -> Option<ChannelId> {
        match self.world.actors[task].pending {
            Some(Step::Write(channel) | Step::Read(channel)) => Some(channel),
            _ => None,
        }
    }

    fn unlock(&mut self, task: TaskId, channel: ChannelId) {
        if let Some(next) = self.world.channels[channel].mutex.unlock(task) {
            self.wake(next, Some(task), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{prepare, program};
    use crate::Simulation;
    use crate::core::Scheduling;
    use crate::workload::{ChannelId, Child, Step, World};
    use flsched_machine::{Machine, Price};

    fn doing(steps: Vec<Step>, priority: u8) -> Child {
        Child { scheduling: Some(Scheduling::Fifo(priority)), ..Child::process("x", program(steps)) }
    }

    fn on_kernel(machine: &str, kernel: &str) -> Machine {
        let setting = format!("kernel={kernel}").parse().unwrap();
        Machine::find_with(machine, &[setting]).unwrap()
    }

    /// These tasks on one CPU, with a pipe that they share.
    fn run(kernel: &str, tasks: impl FnOnce(ChannelId) -> Vec<Child>) -> Simulation {
        let machine = on_kernel("knc-31s1p", kernel).with_cpus(1).unwrap();
        run_on(machine, |world| world.add_pipe(100), tasks)
    }

    fn run_on(
        machine: Machine,
        channel: impl FnOnce(&mut World) -> ChannelId,
        tasks: impl FnOnce(ChannelId) -> Vec<Child>,
    ) -> Simulation {
        let mut simulation = prepare(machine, "fifo");
        let channel = channel(&mut simulation.world);
        let forks = tasks(channel).into_iter().rev().map(Step::fork);
        simulation.go_through(Box::new(program(forks.collect()))).unwrap();
        simulation
    }

    /// How often a task gives up its CPU that wakes at `at` and sends a message, while a task of lower priority
    /// sends some through the same pipe.
    fn sleeps(at: u64) -> u64 {
        let simulation = run("6.18", |pipe| {
            let urgent = doing(vec![Step::SleepUntil(at), Step::Write(pipe)], 50);
            let other = doing((0..600).map(|_| Step::Write(pipe)).collect(), 10);
            vec![other, urgent]
        });
        simulation.core.tasks[1].nvcsw
    }

    #[test]
    fn an_old_pipe_wakes_all_its_readers_for_each_message() {
        const READERS: u64 = 5;
        let wakeups = |kernel| {
            let simulation = run(kernel, |pipe| {
                let ms = |at: u64| Step::SleepUntil(at * 1_000_000);
                let sends = (10..10 + READERS).flat_map(|at| [ms(at), Step::Write(pipe)]);
                let mut children = vec![doing(sends.collect(), 10)];
                children.extend((0..READERS).map(|_| doing(vec![Step::Read(pipe)], 20)));
                children
            });
            simulation.core.counts.wakeups - READERS
        };
        assert_eq!(wakeups("5.10"), READERS);
        // Those that find no message sleep again.
        assert_eq!(wakeups("5.4"), (1..=READERS).sum::<u64>());
    }

    /// They prepare to wait once more, under the lock that the reader holds while it wakes them.
    #[test]
    fn those_that_wait_for_room_in_a_socket_spin_until_all_are_woken() {
        let spun = |writers: u64| {
            let ms = |at: u64| Step::SleepUntil(at * 1_000_000);
            // There the reader is longer about it than with queued wake-ups.
            let simulation = run_on(
                on_kernel("parallel-clock", "5.19"),
                |world| world.add_socket(100),
                |socket| {
                    let fills = (0..1000).map(|_| Step::Write(socket));
                    let mut children = vec![doing(fills.collect(), 10)];
                    children.extend((1..writers).map(|_| doing(vec![ms(5), Step::Write(socket)], 10)));
                    let reads = (0..999 + writers).map(|_| Step::Read(socket));
                    children.push(doing(std::iter::once(ms(20)).chain(reads).collect(), 10));
                    children
                },
            );
            simulation.core.spent.of(Price::LockWait)
        };
        let (few, many) = (spun(2), spun(12));
        assert!(many > few + 5_000, "{few} and {many} ns");
    }

    #[test]
    fn a_task_interrupted_in_a_message_keeps_its_pipes_mutex() {
        // The other task's messages begin within 2 ms; it holds the mutex for 4 of every 4.9 us.
        let begun = 2_500_000;
        let sleeps: Vec<u64> = (0..10).map(|step| sleeps(begun + step * 490)).collect();
        // It sleeps to wait for the time, at its end, and perhaps for the mutex.
        assert!(sleeps.iter().all(|&sleeps| sleeps == 2 || sleeps == 3), "{sleeps:?}");
        let waited = sleeps.iter().filter(|&&sleeps| sleeps == 3).count();
        assert!((7..=9).contains(&waited), "{sleeps:?}");
    }
}
