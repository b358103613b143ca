//! Carries out the steps of tasks.
use super::Simulation;
use crate::core::{Before, CpuId, State, TaskId, TaskSpec};
use crate::engine::{Event, Ns};
use crate::rest::Freed;
use crate::workload::{Attempt, Child, Mark, Step, View};
use flsched_machine::Price;
use rand::RngExt;

/// A task that exits.
const PF_EXITING: u32 = 4;

/// How much a call may be longer or shorter than its cost.
const RIPPLE_PERCENT: u64 = 2;

impl Simulation {
    /// The running task of `cpu` has done its last piece of work: what is next?
    ///
    /// The cost of a step is spent before the step takes effect, and each of several wake-ups is an
    /// event of its own. So no CPU runs far ahead of the others, and each gets what they did in
    /// between.
    pub(super) fn step(&mut self, cpu: CpuId) {
        let Some(task) = self.core.cpus[cpu].curr else { return };
        if self.core.tasks[task].work_left > 0 || self.wake_one(task) || self.waits_for_mutex(cpu, task) {
            return;
        }
        match self.world.actors[task].pending.take() {
            Some(step) => self.carry_out(cpu, task, step),
            None => self.begin_step(cpu, task),
        }
    }

    /// The running task of `cpu` has done its last step, and begins with the next one.
    pub(super) fn begin_step(&mut self, cpu: CpuId, task: TaskId) {
        let step = match std::mem::take(&mut self.world.actors[task].left_to_run) {
            0 => {
                let mut view = View { now: self.core.cpus[cpu].clock, random: &mut self.world.random };
                self.world.actors[task].program.next(&mut view)
            }
            ns => Step::Run(ns),
        };
        self.core.tasks[task].work_left = match step {
            Step::Run(ns) => {
                let piece = self.core.piece_of(task, ns);
                self.world.actors[task].left_to_run = ns - piece;
                piece + self.core.sharing(cpu, task, piece) + self.core.memory_wait(cpu, task, piece)
            }
            _ => {
                let ns = self.cost_of(task, &step);
                ns + self.spin_ns(&step, ns)
            }
        };
        if matches!(step, Step::Exit) && self.core.tasks[task].flags & PF_EXITING == 0 {
            self.core.tasks[task].program_end = Some((self.core.clock(), self.core.tasks[task].switches()));
        }
        self.world.actors[task].pending = Some(step);
        self.waits_for_mutex(cpu, task);
    }

    /// Whether the running task of `cpu` is inside a system call. After an interrupt it returns to the
    /// kernel's own work.
    pub(super) fn is_in_call(&self, cpu: CpuId) -> bool {
        self.core.cpus[cpu].curr.is_some_and(|curr| {
            let step = self.world.actors[curr].pending.as_ref();
            self.core.tasks[curr].work_left > 0 && step.is_some_and(Step::is_call)
        })
    }

    /// How long a task works on a step before it takes effect.
    fn cost_of(&mut self, task: TaskId, step: &Step) -> Ns {
        let costs = &self.core.machine.costs;
        let call = (Price::Syscall, *costs.syscall_ns);
        let nothing = (Price::Syscall, 0);
        let [(price, ns), (further, further_ns)] = match step {
            Step::Write(channel) | Step::Read(channel) => {
                [(self.price_of(*channel), self.copy_ns(step)), call]
            }
            Step::Make(channel) => [(self.price_of(*channel), self.costs_of(*channel).make), call],
            Step::Fork(child) => {
                let (done_ns, further_ns) = self.fork_ns(child.has_stack);
                [
                    (Price::Fork, costs.fork_ns.of(child.is_thread).saturating_sub(done_ns)),
                    (Price::Startup, further_ns),
                ]
            }
            Step::Exit => [(Price::Exit, costs.exit_ns.of(self.core.tasks[task].is_thread())), nothing],
            Step::Rest(detail) => match self.detail_ns(*detail) {
                Some(price) => [price, nothing],
                None => return 0,
            },
            Step::Sleep(_)
            | Step::SleepUntil(_)
            | Step::Yield
            | Step::YieldTo(_)
            | Step::Poll(_)
            | Step::WaitFor(..)
            | Step::Signal(_)
            | Step::Broadcast(_)
            | Step::WaitChildren { .. }
            | Step::SetAffinity(_) => [call, nothing],
            // In user space, as long as no task sleeps.
            Step::Meet(..) | Step::Await | Step::Down(_) | Step::Up(_) | Step::Send(_) => {
                return 0;
            }
            Step::DisableMigration | Step::EnableMigration | Step::BeginExit | Step::Run(_) => return 0,
            Step::Mark(_) => return 0,
        };
        let all = self.ripple(ns + further_ns);
        self.core.spent.assign(price, all - all.min(further_ns));
        self.core.spent.assign(further, all.min(further_ns));
        all
    }

    /// No call takes exactly as long as the last one. Otherwise two seeds of a workload that draws
    /// nothing would give the same run.
    pub(super) fn ripple(&mut self, ns: Ns) -> Ns {
        let most = ns * RIPPLE_PERCENT / 100;
        match most {
            0 => ns,
            _ => self.world.random.random_range(ns - most..=ns + most),
        }
    }

    fn carry_out(&mut self, cpu: CpuId, task: TaskId, step: Step) {
        let has_waited = std::mem::take(&mut self.world.actors[task].has_waited);
        match step {
            Step::Run(_) | Step::Make(_) => {}
            Step::Sleep(ns) => {
                let at = self.core.clock() + ns;
                self.core.queue.push(at, Event::WakeUp { task });
                self.block(cpu, task);
            }
            Step::SleepUntil(at) => {
                if at > self.core.clock() {
                    self.core.queue.push(at, Event::WakeUp { task });
                    self.block(cpu, task);
                }
            }
            Step::Yield => self.yield_now(cpu, task),
            Step::YieldTo(number) => self.yield_to(cpu, task, number),
            Step::Write(channel) => self.write(cpu, task, channel, has_waited),
            Step::Read(channel) => self.read(cpu, task, channel, has_waited),
            Step::Poll(channel) => self.poll(cpu, task, channel, has_waited),
            Step::Meet(barrier, wait) => self.arrive(cpu, task, barrier, wait),
            Step::Await => self.await_round(cpu, task),
            Step::Down(semaphore) => self.down(cpu, task, semaphore, has_waited),
            Step::Up(semaphore) => self.up(task, &[semaphore], false),
            Step::Send(semaphores) => self.up(task, &semaphores, true),
            Step::WaitFor(condition, mutex) => {
                self.world.conditions[condition].wait(task);
                if let Some(mutex) = mutex {
                    self.up(task, &[mutex], false);
                }
                self.block(cpu, task);
            }
            Step::Signal(condition) => {
                let woken = self.world.conditions[condition].signal(false);
                self.wake_all(task, woken);
            }
            Step::Broadcast(condition) => {
                let woken = self.world.conditions[condition].signal(true);
                self.wake_all(task, woken);
            }
            Step::Rest(detail) => self.carry_out_detail(cpu, task, detail, has_waited),
            Step::Fork(child) => self.fork(cpu, task, *child),
            Step::WaitChildren { at_most } => {
                if self.world.actors[task].children <= at_most {
                    self.reap(task, at_most);
                } else {
                    self.wait_for_children(cpu, task, at_most);
                }
            }
            Step::SetAffinity(mask) => self.set_affinity(task, &mask),
            Step::DisableMigration => self.core.tasks[task].migration_disabled += 1,
            Step::EnableMigration => self.enable_migration(cpu, task),
            Step::Mark(mark) => self.note(mark),
            Step::BeginExit => {
                self.core.tasks[task].program_end =
                    Some((self.core.clock(), self.core.tasks[task].switches()));
                self.core.tasks[task].flags |= PF_EXITING;
                let now = self.core.now;
                if let Some(observer) = &mut self.core.observer {
                    observer.exits(&self.core.tasks[task], now);
                }
            }
            Step::Exit => self.exit(cpu, task),
        }
    }

    fn note(&mut self, mark: Mark) {
        match mark {
            Mark::Start => {
                self.world.started_at = Some(self.core.clock());
                self.core.before = Before::now(&self.core);
            }
            Mark::Stop => self.world.stopped_at = Some(self.core.clock()),
            Mark::Figure(name, value) => self.world.figures.push((name, value)),
            Mark::Time(seconds) => self.world.own_time_s = Some(seconds),
            Mark::EndRun => {
                self.world.stopped_at.get_or_insert(self.core.clock());
                self.world.is_over = true;
            }
        }
    }

    pub(super) fn block(&mut self, cpu: CpuId, task: TaskId) {
        self.core.tasks[task].state = State::Sleeping;
        self.core.resched(cpu);
    }

    pub(super) fn retry(&mut self, cpu: CpuId, task: TaskId, step: Step) {
        self.try_again(task, step);
        self.block(cpu, task);
    }

    /// The task does this step once more.
    pub(super) fn try_again(&mut self, task: TaskId, step: Step) {
        let actor = &mut self.world.actors[task];
        actor.pending = Some(step);
        actor.has_waited = true;
    }

    /// As a futex does.
    pub(super) fn wake_all(&mut self, task: TaskId, woken: Vec<TaskId>) {
        self.wake_in_turn(task, woken, false);
    }

    /// As a pipe or socket does: these wait for the task's message, or for room.
    pub(super) fn wake_for_message(&mut self, task: TaskId, mut woken: Vec<TaskId>, further: Option<TaskId>) {
        woken.extend(further);
        self.wake_in_turn(task, woken, true);
    }

    fn wake_in_turn(&mut self, task: TaskId, mut woken: Vec<TaskId>, for_messages: bool) {
        woken.reverse();
        let actor = &mut self.world.actors[task];
        actor.to_wake = woken;
        actor.wakes_for_messages = for_messages;
        self.wake_one(task);
    }

    /// Wakes the next of the tasks that the task's last step wakes; false: there are none left.
    fn wake_one(&mut self, task: TaskId) -> bool {
        let actor = &mut self.world.actors[task];
        let Some(sleeper) = actor.to_wake.pop() else { return false };
        let sync = actor.wakes_for_messages;
        self.wake(sleeper, Some(task), sync);
        true
    }

    pub(super) fn count_alive(&self) -> usize {
        self.alive.iter().sum::<usize>() - self.kernel_threads()
    }

    fn fork(&mut self, cpu: CpuId, parent: TaskId, child: Child) {
        self.begin_fork(child.is_thread);
        let Child { name, is_thread, nice, scheduling, footprint, has_stack: _, vfork, program } = child;
        let scheduling = scheduling.unwrap_or(self.core.tasks[parent].scheduling());
        let allowed = Some(self.core.tasks[parent].cpus_mask.clone());
        let spec = TaskSpec { name, parent: Some(parent), is_thread, nice, scheduling, allowed, footprint };
        let task = self.new_task(&spec, program);
        if !is_thread {
            self.world.actors[parent].unreaped.push(task);
        }
        self.begin_task(task, is_thread);
        self.core.tasks[task].waker = Some(parent);
        self.wake_new(task);
        if let Some(semaphore) = vfork
            && self.world.semaphores[semaphore].down(parent, false) != Attempt::Taken
        {
            self.retry(cpu, parent, Step::Down(semaphore));
        }
    }

    fn exit(&mut self, cpu: CpuId, task: TaskId) {
        self.core.tasks[task].flags |= PF_EXITING;
        let has_left = std::mem::replace(&mut self.core.tasks[task].has_left_autogroup, true);
        if !has_left && self.classes[self.core.tasks[task].class].knows_autogroups() {
            self.leave_autogroup(cpu, task);
            self.world.actors[task].pending = Some(Step::Exit);
            return;
        }
        let waits_ns = self.world.rest.tasklist_held_until.saturating_sub(self.core.clock());
        if waits_ns > 0 {
            self.retry_after_spin(task, Step::Exit, waits_ns);
            return;
        }
        self.core.tasks[task].state = State::Dead;
        self.core.resched(cpu);
        self.call_rcu(Freed::Task);
        let Some(parent) = self.world.actors[task].parent else { return };
        let waiter = &mut self.world.actors[parent];
        waiter.children -= 1;
        if waiter.waits_for_children.is_some_and(|most| waiter.children <= most) {
            waiter.waits_for_children = None;
            self.wake(parent, Some(task), false);
        }
    }
}
