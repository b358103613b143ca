//! The fair class, after `kernel/sched/fair.c`: what its two generations, [`Eevdf`] and [`Cfs`], have
//! in common. They differ in the order in which a CPU's tasks run ([`Rules`]).
mod balance;
mod cfs;
mod eevdf;
mod idlest;
mod load;
mod nohz;
mod pelt;
mod place;
mod timeline;

pub use cfs::{Cfs, CfsOptions};
pub use eevdf::{Eevdf, EevdfOptions};

use super::domains::Domains;
use super::{Class, Dequeue, Enqueue, Wake};
use crate::core::{Core, CpuId, NICE_0, SCHED_IDLE, SCHED_NORMAL, State, TaskId};
use crate::engine::Ns;
use load::TaskLoad;
use nohz::{Nohz, Success};
use pelt::{Average, Clock};
use place::Wakee;
use std::sync::Arc;

/// `sysctl_sched_migration_cost`: a task that ran more recently than this is cache-hot.
const MIGRATION_COST: Ns = 500_000;

/// Which task runs next on a CPU, by virtual time. The running task is not among the waiting ones.
pub trait Rules {
    /// For reports, and to find costs in the machine's file.
    const NAME: &'static str;
    /// Whether it models 6.x rather than 2.6.38 or 3.10, apart from virtual time: see [`place`] and
    /// [`balance`].
    const IS_MODERN: bool;

    /// A task has been forked by the one that runs on `parent_cpu`.
    fn add_task(&mut self, task: TaskId, weight: u64, parent_cpu: CpuId);
    /// Its weight is another one from now on; it is in no queue.
    fn reweight(&mut self, task: TaskId, weight: u64);
    /// It is added to a CPU's run queue.
    fn enqueue(&mut self, cpu: CpuId, task: TaskId, why: Enqueue);
    /// It leaves the CPU's run queue, to sleep, to exit, or for another CPU.
    fn dequeue(&mut self, cpu: CpuId, task: TaskId, sleeps: bool, dies: bool);
    /// Whether it sleeps but has not left the run queue.
    fn is_delayed(&self, _task: TaskId) -> bool {
        false
    }
    /// Such a task leaves now.
    fn drop_delayed(&mut self, _task: TaskId) {}
    /// A task that had slept in the CPU's run queue and has left it since the last call.
    fn take_left(&mut self, _cpu: CpuId) -> Option<TaskId> {
        None
    }
    /// `update_curr()`: the running task has run for this long. Returns whether its slice is over.
    fn account(&mut self, cpu: CpuId, delta: Ns) -> bool;
    /// The next task; it may be the running one.
    fn pick(&mut self, cpu: CpuId) -> Option<TaskId>;
    /// A waiting task starts to run.
    fn begin(&mut self, cpu: CpuId, task: TaskId);
    /// The running task waits from now on, if it has not left.
    fn end(&mut self, cpu: CpuId, task: TaskId);
    /// Whether `task`, which was just added, preempts the running one.
    fn preempts(&mut self, cpu: CpuId, task: TaskId) -> bool;
    /// Whether the running task's slice is over.
    fn tick(&mut self, _cpu: CpuId) -> bool {
        false
    }
    /// The running task calls `sched_yield()`.
    fn yield_now(&mut self, cpu: CpuId);
    /// The waiting tasks that can be moved.
    fn waiting(&self, cpu: CpuId) -> Vec<TaskId>;
}

#[derive(Debug)]
pub struct Fair<R> {
    rules: R,
    /// Its index among the run's classes.
    index: usize,
    domains: Arc<Domains>,
    /// Whether a core has several CPUs.
    has_threads: bool,
    queues: Vec<Queue>,
    /// How many CPUs have more than one task in their run queues, and whether one had since a CPU last searched all:
    /// `rd->overloaded`.
    overloaded: usize,
    was_overloaded: bool,
    nohz: Nohz,
    /// By the first CPU of a cache: how many CPUs there are searched for an idle one. `nr_idle_scan`
    scans: Vec<usize>,
    /// By task: when it was last added to a CPU, or last ran. Tasks are moved in that order.
    stamps: Vec<u64>,
    stamped: u64,
    /// By task.
    wakees: Vec<Wakee>,
    /// By task.
    loads: Vec<TaskLoad>,
}

/// A CPU's state in the fair class.
#[derive(Debug)]
struct Queue {
    /// Runnable tasks, the running one included.
    count: usize,
    /// Tasks that sleep and have not left: `cfs_h_nr_delayed()`.
    delayed: usize,
    /// The weights of both.
    load: u64,
    /// A task of the class runs.
    runs: bool,
    /// Load and utilisation over time, with what is left of tasks that sleep.
    average: Average,
    /// Of tasks that have been woken elsewhere, with their weights: still a part of that.
    removed: Vec<(Average, u64)>,
    clock: Clock,
    /// The sum of the tasks' estimates.
    estimate: u64,
    /// How long it idles, on average.
    average_idle: Ns,
    /// Since when it has been idle.
    idle_since: Option<Ns>,
    /// When to balance next.
    balance_at: Ns,
    /// It balances when it leaves the scheduler.
    is_due: bool,
    /// By depth of the domain.
    levels: Vec<LevelState>,
    /// The CPU to which one of its tasks has to move, even the running one: active balance.
    evict_to: Option<CpuId>,
}

/// A CPU's state in one of its domains: `struct sched_domain`.
#[derive(Debug, Clone)]
struct LevelState {
    /// `None`: before the run, in which all CPUs have idled for long.
    balanced_at: Option<Ns>,
    interval: Ns,
    failed: u32,
    /// The highest cost so far of a search for work by a CPU that would idle.
    cost: Ns,
    cost_at: Ns,
    success: Success,
}

impl<R: Rules> Fair<R> {
    /// On this machine, as the class of this index.
    pub fn new(core: &Core, rules: R, index: usize) -> Self {
        let domains = Arc::new(Domains::new(&core.machine));
        let level = |interval| LevelState {
            balanced_at: None,
            interval,
            failed: 0,
            cost: 0,
            cost_at: 0,
            success: Success::default(),
        };
        let queue = |cpu| Queue {
            count: 0,
            delayed: 0,
            load: 0,
            runs: false,
            average: Average::default(),
            removed: Vec::new(),
            clock: Clock::default(),
            estimate: 0,
            average_idle: 2 * MIGRATION_COST,
            idle_since: None,
            balance_at: 0,
            is_due: false,
            levels: domains.around(cpu).map(|domain| level(balance::shortest(domain))).collect(),
            evict_to: None,
        };
        let scans = (0..core.nr_cpus()).map(|cpu| domains.cache(cpu).len()).collect();
        Self {
            rules,
            index,
            queues: (0..core.nr_cpus()).map(queue).collect(),
            domains,
            has_threads: core.machine.threads.iter().any(|threads| threads.len() > 1),
            overloaded: 0,
            was_overloaded: false,
            nohz: Nohz::default(),
            scans,
            stamps: Vec::new(),
            stamped: 0,
            wakees: Vec::new(),
            loads: Vec::new(),
        }
    }

    fn is_mine(&self, core: &Core, cpu: CpuId) -> bool {
        core.cpus[cpu].curr.is_some_and(|curr| core.tasks[curr].class == self.index)
    }

    /// `update_curr()`
    fn update_curr(&mut self, core: &mut Core, cpu: CpuId) {
        if !self.is_mine(core, cpu) {
            return;
        }
        let delta = core.update_curr(cpu);
        if self.rules.account(cpu, delta) {
            self.resched(core, cpu);
        }
    }

    /// Debian's kernels since 6.16 preempt lazily; kernels with CFS did not preempt in the kernel.
    fn resched(&self, core: &mut Core, cpu: CpuId) {
        if R::IS_MODERN { core.resched_lazy(cpu) } else { core.resched_voluntary(cpu) }
    }

    /// `idle_cpu()`
    fn is_idle(&self, core: &Core, cpu: CpuId) -> bool {
        core.cpus[cpu].curr.is_none() && self.queues[cpu].count == 0 && core.cpus[cpu].wake_list.is_empty()
    }

    /// The task has come from another CPU: nothing of it is in this one's cache. `ENQUEUE_MIGRATED`
    fn cool(&self, core: &mut Core, task: TaskId) {
        if R::IS_MODERN {
            core.tasks[task].se.exec_start = 0;
        }
    }

    fn stamp(&mut self, task: TaskId) {
        self.stamped += 1;
        self.stamps[task] = self.stamped;
    }
}

impl<R: Rules> Class for Fair<R> {
    fn name(&self) -> &str {
        R::NAME
    }

    fn task_new(&mut self, core: &mut Core, task: TaskId) {
        // The kernel that has CFS updates the parent at a fork; that with EEVDF does not.
        if !R::IS_MODERN {
            self.update_curr(core, core.here);
        }
        self.stamps.resize(core.tasks.len(), 0);
        let parent = core.cpus[core.here].curr.and_then(|parent| self.wakees.get(parent));
        let inherited = parent.copied().unwrap_or(Wakee::INHERITED);
        self.wakees.resize(core.tasks.len(), inherited);
        self.loads.resize(core.tasks.len(), TaskLoad::default());
        self.rules.add_task(task, core.tasks[task].weight(), core.here);
    }

    fn task_new_elsewhere(&mut self, core: &mut Core, task: TaskId) {
        self.task_new(core, task);
    }

    /// `dequeue_task()` of a task that sleeps in the queue, and `detach_task_cfs_rq()`.
    fn begin_change(&mut self, core: &mut Core, task: TaskId) {
        if self.rules.is_delayed(task) {
            let cpu = core.tasks[task].cpu;
            self.update_curr(core, cpu);
            self.rules.drop_delayed(task);
            self.drop_load(core, cpu);
        }
        self.leave_load(core, task);
    }

    fn reweight(&mut self, core: &mut Core, task: TaskId) {
        self.rules.reweight(task, core.tasks[task].weight());
    }

    /// It begins anew, as a task that was forked.
    fn task_joins(&mut self, core: &mut Core, task: TaskId) {
        self.rules.add_task(task, core.tasks[task].weight(), core.tasks[task].cpu);
    }

    fn select_cpu(&mut self, core: &mut Core, task: TaskId, prev: CpuId, wake: Wake) -> CpuId {
        match wake {
            Wake::Fork => self.find_idlest(core, task),
            Wake::Up { sync } => self.place_wakee(core, task, prev, sync),
        }
    }

    fn is_delayed(&mut self, core: &mut Core, task: TaskId) -> bool {
        if !self.rules.is_delayed(task) {
            return false;
        }
        let cpu = core.tasks[task].cpu;
        let stays = core.online.has(cpu) && core.tasks[task].may_run_on(cpu);
        if !stays {
            self.update_curr(core, cpu);
            self.rules.drop_delayed(task);
            self.drop_load(core, cpu);
        }
        stays
    }

    fn enqueue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Enqueue) {
        self.update_curr(core, cpu);
        self.rules.enqueue(cpu, task, why);
        if why == Enqueue::Fork {
            self.expect(core, cpu, task);
        }
        if why == Enqueue::Delayed {
            self.resume(core, cpu, task);
            return;
        }
        if why == Enqueue::WakeUp && self.loads[task].is_on_other(cpu) {
            self.remove_load(core, task);
            self.cool(core, task);
        }
        self.add(core, cpu, task);
    }

    fn dequeue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Dequeue) {
        self.update_curr(core, cpu);
        let dies = core.tasks[task].state == State::Dead;
        self.rules.dequeue(cpu, task, why == Dequeue::Sleep, dies);
        if self.rules.is_delayed(task) {
            self.delay(core, cpu, task);
        } else {
            self.sub(core, cpu, task);
        }
        if why == Dequeue::Sleep {
            self.estimate(task);
        }
    }

    fn task_dead(&mut self, core: &mut Core, task: TaskId) {
        self.remove_load(core, task);
    }

    fn knows_autogroups(&self) -> bool {
        R::IS_MODERN
    }

    fn wakeup_preempt(&mut self, core: &mut Core, cpu: CpuId, task: TaskId) {
        // A task of `SCHED_BATCH` does not preempt others.
        let is_idle = |task: TaskId| core.tasks[task].policy == SCHED_IDLE;
        // Tasks of `SCHED_IDLE` are preempted by all others.
        if core.cpus[cpu].curr.is_some_and(is_idle) && !is_idle(task) {
            return self.resched(core, cpu);
        }
        let is_asked = core.cpus[cpu].need_resched || (!R::IS_MODERN && core.cpus[cpu].need_resched_lazy);
        if !is_asked && core.tasks[task].policy == SCHED_NORMAL && self.rules.preempts(cpu, task) {
            self.resched(core, cpu);
        }
    }

    fn balance(&mut self, core: &mut Core, cpu: CpuId, _prev: Option<TaskId>) {
        if self.queues[cpu].count == 0 {
            self.balance_newly_idle(core, cpu);
        }
    }

    fn pick(&mut self, core: &mut Core, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        self.update_curr(core, cpu);
        let next = self.rules.pick(cpu);
        self.drop_load(core, cpu);
        // The stopper runs first, and moves it away.
        let is_leaving = self.queues[cpu].evict_to.is_some() && next == prev;
        next.filter(|_| !is_leaving)
    }

    fn put_prev(&mut self, core: &mut Core, cpu: CpuId, prev: TaskId, _next: Option<TaskId>) {
        self.update_curr(core, cpu);
        self.rules.end(cpu, prev);
        self.stop(core, cpu, prev);
    }

    fn set_next(&mut self, core: &mut Core, cpu: CpuId, next: TaskId) {
        self.stamp(next);
        self.rules.begin(cpu, next);
        self.run(core, cpu, next);
    }

    fn tick(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId) {
        self.update_curr(core, cpu);
        self.tick_load(core, cpu, curr);
        if self.rules.tick(cpu) {
            self.resched(core, cpu);
        }
        self.queues[cpu].is_due = core.clock() >= self.queues[cpu].balance_at;
        self.kick_idle_balance(core, cpu);
    }

    fn yield_task(&mut self, core: &mut Core, cpu: CpuId, _curr: TaskId) {
        self.update_curr(core, cpu);
        self.rules.yield_now(cpu);
    }

    /// The kernel also makes `_to` the next one of its queue, as far as that is fair; not modelled.
    fn yield_to(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId, _to: TaskId) -> bool {
        self.yield_task(core, cpu, curr);
        true
    }

    fn update_idle(&mut self, core: &mut Core, cpu: CpuId, is_idle: bool, changed: bool) {
        if changed {
            self.note_idle(core.clock(), cpu, is_idle);
            self.turn_clock(core, cpu, is_idle);
        }
    }

    fn utilisation(&self, core: &Core, cpu: CpuId) -> Option<u32> {
        Some(self.cpu_utilisation(core, cpu)).filter(|&utilisation| utilisation > 0)
    }

    fn settle(&mut self, core: &mut Core, cpu: CpuId) {
        if self.queues[cpu].evict_to.is_some() && !core.cpus[cpu].need_resched {
            self.evict(core, cpu);
        }
        if std::mem::take(&mut self.queues[cpu].is_due) {
            self.balance_domains(core, cpu);
        }
    }

    /// An event of [`Nohz`].
    fn timer(&mut self, core: &mut Core, cpu: CpuId, _timer: usize, _generation: u32) {
        self.balance_for_idle(core, cpu);
    }

    fn waiting(&self, core: &Core) -> usize {
        let running = |cpu: &CpuId| {
            self.is_mine(core, *cpu) && core.cpus[*cpu].curr.is_some_and(|curr| core.tasks[curr].is_queued)
        };
        let running = (0..self.queues.len()).filter(running).count();
        self.queues.iter().map(|queue| queue.count).sum::<usize>() - running
    }
}

/// A time, at nice 0's pace, as virtual time of this weight.
fn virtual_time(ns: i64, weight: i64) -> i64 {
    ns * NICE_0 as i64 / weight
}

/// `SCHED_TUNABLESCALING_LOG`: one more than the logarithm of the number of CPUs, of 8 at most.
fn scale(core: &Core, us: u64) -> u64 {
    us * u64::from(1 + core.nr_cpus().min(8).ilog2())
}

#[cfg(test)]
pub(super) mod tests {
    use super::eevdf::{Eevdf, EevdfOptions};
    use super::*;
    use crate::core::{Scheduling, TaskSpec};
    use flsched_machine::Machine;

    pub(super) fn four_cpus() -> (Core, Fair<Eevdf>) {
        let machine = Machine::find("parallel-clock").unwrap().with_cpus(4).unwrap();
        let core = Core::new(Arc::new(machine), 1);
        let rules = Eevdf::new(&core, EevdfOptions::default());
        let fair = Fair::new(&core, rules, 0);
        (core, fair)
    }

    /// A new task of the first one, which runs on CPU 0, or the first one itself.
    pub(super) fn fork(core: &mut Core, fair: &mut Fair<Eevdf>) -> TaskId {
        let spec = TaskSpec {
            name: "task".into(),
            parent: core.cpus[0].curr,
            is_thread: false,
            nice: 0,
            scheduling: Scheduling::Normal,
            allowed: None,
            footprint: Default::default(),
        };
        let task = core.add_task(&spec, 0);
        fair.task_new(core, task);
        core.cpus[0].curr = Some(0);
        task
    }
}
