//! Where a run meets the [rest of the kernel](crate::rest).
use super::{MAX_RT_PRIO, Simulation};
use crate::core::{CpuId, Footprint, PF_KTHREAD, Scheduling, State, TaskId, TaskSpec};
use crate::engine::{Event, Ns};
use crate::rest::{
    Access, Detail, Freed, MmapLock, MmapLockId, Preparation, Released, before_fork_ns, first_work_ns,
    grace_period_end,
};
use crate::workload::{Program, Step, View};
use flsched_machine::Price;

/// `rcu_gp_kthread()`.
struct Thread {
    ns: Ns,
    has_run: bool,
}

impl Program for Thread {
    fn next(&mut self, _: &mut View<'_>) -> Step {
        self.has_run = !self.has_run;
        if self.has_run { Step::Run(self.ns) } else { Step::Rest(Detail::AwaitCallbacks) }
    }
}

impl Simulation {
    /// What a step of this kind costs, and what for; `None`: nothing.
    pub(super) fn detail_ns(&self, detail: Detail) -> Option<(Price, Ns)> {
        match detail {
            Detail::Prepare(preparation) => {
                Some((Price::Startup, preparation.ns(self.core.machine.startup.as_ref())))
            }
            Detail::SynchronizeRcu => Some((Price::Syscall, *self.core.machine.costs.syscall_ns)),
            Detail::AwaitCallbacks
            | Detail::LockMemory(..)
            | Detail::DowngradeMemory(_)
            | Detail::UnlockMemory(_) => None,
        }
    }

    pub(super) fn carry_out_detail(&mut self, cpu: CpuId, task: TaskId, detail: Detail, has_waited: bool) {
        match detail {
            Detail::Prepare(Preparation::Exec | Preparation::ExecOwn) => self.call_rcu(Freed::Memory),
            Detail::Prepare(_) => {}
            Detail::SynchronizeRcu => {
                self.call_rcu(Freed::Memory);
                let at = grace_period_end(self.core.clock(), self.core.machine.tick_ns);
                self.core.queue.push(at, Event::WakeUp { task });
                self.block(cpu, task);
            }
            Detail::AwaitCallbacks => self.await_callbacks(cpu, task),
            Detail::LockMemory(lock, access) => self.lock_memory(cpu, task, lock, access, has_waited),
            Detail::DowngradeMemory(lock) => {
                let released = self.world.rest.mmap_locks[lock].downgrade();
                self.pass_memory_on(task, released);
            }
            Detail::UnlockMemory(lock) => {
                let released = self.world.rest.mmap_locks[lock].release();
                self.pass_memory_on(task, released);
            }
        }
    }

    /// How much of a fork's cost has been paid before it, and how much longer it takes.
    pub(super) fn fork_ns(&self, has_stack: bool) -> (Ns, Ns) {
        let startup = self.core.machine.startup.as_ref();
        let done_ns = if has_stack { before_fork_ns(startup) } else { 0 };
        (done_ns, self.world.rest.task_slabs.ns(self.count_alive(), startup))
    }

    /// There will be one more task.
    pub(super) fn begin_fork(&mut self, is_thread: bool) {
        if is_thread {
            self.call_rcu(Freed::Memory);
        }
        let tasks = self.count_alive();
        self.world.rest.task_slabs.add(tasks);
    }

    /// What a new task does before its program continues.
    pub(super) fn begin_task(&mut self, task: TaskId, is_thread: bool) {
        let ns = first_work_ns(is_thread, self.core.machine.startup.as_ref());
        let ns = self.ripple(ns);
        self.core.spent.assign(Price::Startup, ns);
        self.core.tasks[task].work_left = ns;
    }

    /// The thread exists and sleeps when the run begins.
    pub(super) fn start_rcu(&mut self) {
        let Some(ns) = self.core.machine.startup.as_ref().map(|startup| *startup.grace_period_ns) else {
            return;
        };
        // Where it has slept: not where the first task begins.
        self.core.go_to(self.core.nr_cpus() - 1);
        let program = Thread { ns, has_run: false };
        let spec = TaskSpec {
            name: "rcu_preempt".into(),
            parent: None,
            is_thread: false,
            nice: 0,
            scheduling: Scheduling::Normal,
            allowed: None,
            footprint: Footprint::default(),
        };
        let task = self.new_task(&spec, Box::new(program));
        self.core.tasks[task].flags |= PF_KTHREAD;
        self.core.tasks[task].state = State::Sleeping;
        self.world.rest.grace_periods.thread = Some(task);
    }

    /// How many threads of the kernel there are.
    pub(crate) fn kernel_threads(&self) -> usize {
        usize::from(self.world.rest.grace_periods.thread.is_some())
    }

    /// `call_rcu()`, for memory that others may still read.
    pub(super) fn call_rcu(&mut self, freed: Freed) {
        self.world.rest.grace_periods.want(freed);
    }

    /// The thread waits for callbacks, or for the end of the grace period that it has begun.
    fn await_callbacks(&mut self, cpu: CpuId, task: TaskId) {
        self.world.rest.grace_periods.advance(self.core.clock());
        self.block(cpu, task);
    }

    /// `rcu_core()`, at a tick of `cpu`: with several CPUs each notes a new grace period at one tick and says at the
    /// next that it has passed there.
    pub(super) fn rcu_core(&mut self, cpu: CpuId) {
        let Some(task) = self.world.rest.grace_periods.thread else { return };
        let home = self.core.tasks[task].cpu;
        if cpu != home && self.core.cpus[home].curr.is_some() {
            return;
        }
        let lasts = if self.core.online.weight() > 1 { 2 } else { 1 };
        if self.world.rest.grace_periods.are_due(self.core.now, self.core.machine.tick_ns, lasts) {
            self.wake(task, None, false);
        }
    }

    /// Takes the lock of a process's memory. A task that cannot take it spins or sleeps, and tries again.
    fn lock_memory(&mut self, cpu: CpuId, task: TaskId, id: MmapLockId, access: Access, has_slept: bool) {
        let lock = &mut self.world.rest.mmap_locks[id];
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
        let step = Step::Rest(Detail::LockMemory(id, access));
        if spins {
            lock.spin(task);
            self.spin(task, step, MmapLock::SPIN_NS, has_slept);
        } else {
            lock.sleep(task);
            self.retry(cpu, task, step);
        }
    }

    /// `task` has released the lock, or goes on as a reader.
    fn pass_memory_on(&mut self, task: TaskId, released: Released) {
        released.spinners.into_iter().for_each(|spinner| self.cut_short(spinner));
        self.wake_all(task, released.sleepers);
    }

    /// `wait4()` checks all children of `parent`, none of which has ended, once before `parent` sleeps.
    pub(super) fn wait_for_children(&mut self, cpu: CpuId, parent: TaskId, at_most: usize) {
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
    pub(super) fn reap(&mut self, parent: TaskId, at_most: usize) {
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
        let until = &mut self.world.rest.tasklist_held_until;
        *until = (*until).max(self.core.clock() + checks_ns);
    }
}
