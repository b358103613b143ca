//! Carries out the steps of tasks.
use super::Simulation;
use super::rcu::Freed;
use crate::core::{Before, CpuId, State, TaskId, TaskSpec};
use crate::engine::{Event, Ns};
use crate::startup::{Preparation, before_fork_ns, first_work_ns, grace_period_end};
use crate::workload::{Attempt, Child, Step, View};
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
        let startup = self.core.machine.startup.as_ref();
        let call = (Price::Syscall, *costs.syscall_ns);
        let nothing = (Price::Syscall, 0);
        let [(price, ns), (further, further_ns)] = match step {
            Step::Write(channel) | Step::Read(channel) => {
                [(self.price_of(*channel), self.copy_ns(step)), call]
            }
            Step::Make(channel) => [(self.price_of(*channel), self.costs_of(*channel).make), call],
            Step::Fork(child) => {
                let done_ns = if child.has_stack { before_fork_ns(startup) } else { 0 };
                [
                    (Price::Fork, costs.fork_ns.of(child.is_thread).saturating_sub(done_ns)),
                    (Price::Startup, self.task_slabs.ns(self.count_alive(), startup)),
                ]
            }
            Step::Exit => [(Price::Exit, costs.exit_ns.of(self.core.tasks[task].is_thread())), nothing],
            Step::Prepare(preparation) => [(Price::Startup, preparation.ns(startup)), nothing],
            Step::AwaitCallbacks => return 0,
            Step::Sleep(_)
            | Step::SleepUntil(_)
            | Step::SynchronizeRcu
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
            Step::LockMemory(..) | Step::DowngradeMemory(_) | Step::UnlockMemory(_) => return 0,
            Step::DisableMigration | Step::EnableMigration | Step::BeginExit | Step::Run(_) => return 0,
            Step::Start | Step::Stop | Step::Figure(..) | Step::Time(_) | Step::EndRun => return 0,
        };
        let all = self.ripple(ns + further_ns);
        self.core.spent.assign(price, all - all.min(further_ns));
        self.core.spent.assign(further, all.min(further_ns));
        all
    }

    /// No call takes exactly as long as the last one. Otherwise two seeds of a workload that draws
    /// nothing would give the same run.
    fn ripple(&mut self, ns: Ns) -> Ns {
        let most = ns * RIPPLE_PERCENT / 100;
        match most {
            0 => ns,
            _ => self.world.random.random_range(ns - most..=ns + most),
        }
    }

    fn carry_out(&mut self, cpu: CpuId, task: TaskId, step: Step) {
        let has_waited = std::mem::take(&mut self.world.actors[task].has_waited);
        match step {
            Step::Prepare(Preparation::Exec | Preparation::ExecOwn) => self.call_rcu(Freed::Memory),
            Step::Run(_) | Step::Prepare(_) | Step::Make(_) => {}
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
            Step::SynchronizeRcu => {
                self.call_rcu(Freed::Memory);
                let at = grace_period_end(self.core.clock(), self.core.machine.tick_ns);
                self.core.queue.push(at, Event::WakeUp { task });
                self.block(cpu, task);
            }
            Step::AwaitCallbacks => self.await_callbacks(cpu, task),
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
            Step::LockMemory(lock, access) => self.lock_memory(cpu, task, lock, access, has_waited),
            Step::DowngradeMemory(lock) => {
                let released = self.world.mmap_locks[lock].downgrade();
                self.pass_memory_on(task, released);
            }
            Step::UnlockMemory(lock) => {
                let released = self.world.mmap_locks[lock].release();
                self.pass_memory_on(task, released);
            }
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
            Step::Start => {
                self.world.started_at = Some(self.core.clock());
                self.core.before = Before::now(&self.core);
            }
            Step::Stop => self.world.stopped_at = Some(self.core.clock()),
            Step::Figure(name, value) => self.world.figures.push((name, value)),
            Step::Time(seconds) => self.world.own_time_s = Some(seconds),
            Step::BeginExit => {
                self.core.tasks[task].program_end =
                    Some((self.core.clock(), self.core.tasks[task].switches()));
                self.core.tasks[task].flags |= PF_EXITING;
                let now = self.core.now;
                if let Some(watch) = &mut self.core.watch {
                    watch.exits(&self.core.tasks[task], now);
                }
            }
            Step::Exit => self.exit(cpu, task),
            Step::EndRun => {
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
        if child.is_thread {
            self.call_rcu(Freed::Memory);
        }
        self.task_slabs.add(self.count_alive());
        let Child { name, is_thread, nice, scheduling, footprint, has_stack: _, vfork, program } = child;
        let scheduling = scheduling.unwrap_or(self.core.tasks[parent].scheduling());
        let allowed = Some(self.core.tasks[parent].cpus_mask.clone());
        let spec = TaskSpec { name, parent: Some(parent), is_thread, nice, scheduling, allowed, footprint };
        let task = self.new_task(&spec, program);
        if !is_thread {
            self.world.actors[parent].unreaped.push(task);
        }
        let ns = first_work_ns(is_thread, self.core.machine.startup.as_ref());
        let ns = self.ripple(ns);
        self.core.spent.assign(Price::Startup, ns);
        self.core.tasks[task].work_left = ns;
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
        let waits_ns = self.world.tasklist_held_until.saturating_sub(self.core.clock());
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

    /// `wait4()` checks all children of `parent`, none of which has ended, once before `parent` sleeps.
    fn wait_for_children(&mut self, cpu: CpuId, parent: TaskId, at_most: usize) {
        let child_ns = self.core.machine.startup.as_ref().map_or(0, |costs| *costs.child_ns);
        let actor = &mut self.world.actors[parent];
        let has_checked = actor.waits_for_children.replace(at_most).is_some();
        actor.pending = Some(Step::WaitChildren { at_most });
        let checks_ns = child_ns * actor.children as Ns;
        if has_checked || checks_ns == 0 {
            self.block(cpu, parent);
        } else {
            self.wait4(parent, checks_ns, 0);
        }
    }

    /// `wait4()`, until at most this number of processes is left: `parent` checks its children in the order of their birth,
    /// and releases each that has ended.
    fn reap(&mut self, parent: TaskId, at_most: usize) {
        let Some(costs) = self.core.machine.startup.as_ref() else { return };
        let actor = &mut self.world.actors[parent];
        let mut left = actor.unreaped.len().saturating_sub(at_most);
        let (mut alive, mut checks_ns, mut releases_ns) = (0, 0, 0);
        actor.unreaped.retain(|&child| {
            if left == 0 {
                return true;
            }
            let has_ended = self.core.tasks[child].state == State::Dead;
            if has_ended {
                left -= 1;
                checks_ns += alive * *costs.child_ns;
                releases_ns += *costs.reap_ns;
            } else {
                alive += 1;
            }
            !has_ended
        });
        self.wait4(parent, checks_ns, releases_ns);
    }

    /// `parent` holds `tasklist_lock` while it checks its children, so no task ends meanwhile.
    fn wait4(&mut self, parent: TaskId, checks_ns: Ns, releases_ns: Ns) {
        let ns = checks_ns + releases_ns;
        self.core.spent.assign(Price::Startup, ns);
        self.core.tasks[parent].work_left += ns;
        let until = &mut self.world.tasklist_held_until;
        *until = (*until).max(self.core.clock() + checks_ns);
    }
}
