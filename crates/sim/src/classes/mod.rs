//! The schedulers behind one interface, that of the kernel's `struct sched_class`.
//!
//! A class keeps its run queues; the core calls it for a task's CPU and for the next task. The core
//! charges the cost of each call and holds the run-queue lock of `cpu` around all calls except
//! `select_cpu`, as the kernel does. A class itself charges further locks and costs.
pub mod domains;
mod fair;
mod rt;

pub use fair::{Cfs, CfsOptions, Eevdf, EevdfOptions, Fair};
pub use rt::{Rt, RtOptions};

use crate::Error;
use crate::core::{Core, CpuId, TaskId};

/// Why a CPU is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Up {
        /// The waker announces that it is about to sleep.
        sync: bool,
    },
    /// A task is forked.
    Fork,
}

/// Why a task is added to a run queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueue {
    /// It has been woken.
    WakeUp,
    /// It has been woken while still in the queue: see [`Class::is_delayed`].
    Delayed,
    /// It has been forked.
    Fork,
    /// It comes from another queue, or its affinity or priority has changed.
    Restore,
}

/// Why a task is removed from a run queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dequeue {
    /// It sleeps or exits.
    Sleep,
    /// Its affinity changes; it keeps its place.
    Save,
    /// It moves to another queue, or gets a new place in this one.
    Move,
}

/// See the module. `cpu` is the run queue's CPU, [`Core::here`] the CPU that executes the call.
pub trait Class {
    /// For reports, and to find its costs in the machine's file.
    fn name(&self) -> &str;

    /// Called before the first task.
    fn start(&mut self, _core: &mut Core) -> Result<(), Error> {
        Ok(())
    }

    /// A task has been forked, and is not yet awake.
    fn task_new(&mut self, _core: &mut Core, _task: TaskId) {}

    /// A task has ended and is dequeued.
    fn task_dead(&mut self, _core: &mut Core, _task: TaskId) {}

    /// A task of another class has been forked; it may come to this one later.
    fn task_new_elsewhere(&mut self, _core: &mut Core, _task: TaskId) {}

    /// The task existed before the class was set up: see [`Simulation`](crate::Simulation) on attaching.
    fn task_exists(&mut self, _core: &mut Core, _task: TaskId) {}

    /// A task of another class has ended.
    fn task_dead_elsewhere(&mut self, _core: &mut Core, _task: TaskId) {}

    /// The weight or the class of a task of this class is about to change. If the task was queued, it is out of the
    /// queue until after the change.
    fn begin_change(&mut self, _core: &mut Core, _task: TaskId) {}

    /// The weight of a task of this class has changed: `reweight_task`.
    fn reweight(&mut self, _core: &mut Core, _task: TaskId) {}

    /// The task has come from another class: `switching_to`, `switched_to`.
    fn task_joins(&mut self, _core: &mut Core, _task: TaskId) {}

    /// The task goes to another class: `switched_from`.
    fn task_leaves(&mut self, _core: &mut Core, _task: TaskId) {}

    /// Selects the CPU of a task that is woken or new, and was last on `prev`. Not called for tasks
    /// that may only run on one CPU.
    fn select_cpu(&mut self, core: &mut Core, task: TaskId, prev: CpuId, wake: Wake) -> CpuId;

    /// Whether the sleeper is still in a run queue, to be removed later. Then it is woken there, and
    /// no CPU is selected.
    fn is_delayed(&mut self, _core: &mut Core, _task: TaskId) -> bool {
        false
    }

    /// Whether a woken task may be enqueued by its CPU instead of its waker.
    fn allows_queued_wake_ups(&self) -> bool {
        true
    }

    /// Whether `enqueue` is going to call a policy's for the task.
    fn calls_ops_enqueue(&self, _core: &Core, _task: TaskId) -> bool {
        false
    }

    /// The task has become runnable on `cpu`.
    fn enqueue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Enqueue);

    /// The task is not runnable on `cpu` any more; it may be the running one.
    fn dequeue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Dequeue);

    /// `task` was added to `cpu`, where another task of this class runs. Calls [`Core::resched`] if
    /// the running task has to be preempted.
    fn wakeup_preempt(&mut self, core: &mut Core, cpu: CpuId, task: TaskId);

    /// `cpu` is about to pick, and may pull tasks from other CPUs. `prev` ran, and may continue if
    /// [`crate::core::Task::is_queued`].
    fn balance(&mut self, _core: &mut Core, _cpu: CpuId, _prev: Option<TaskId>) {}

    /// Picks the next task on `cpu`; it may be `prev`. It stays in the run queue.
    fn pick(&mut self, core: &mut Core, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId>;

    /// `prev` leaves `cpu` for another task or the idle one; if still queued, it waits from now on.
    fn put_prev(&mut self, core: &mut Core, cpu: CpuId, prev: TaskId, next: Option<TaskId>);

    /// `next`, which was picked, begins to run.
    fn set_next(&mut self, core: &mut Core, cpu: CpuId, next: TaskId);

    /// The periodic tick of `cpu`, where `curr` of this class runs.
    fn tick(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId);

    /// `curr` has called `sched_yield()`; the core reschedules afterwards.
    fn yield_task(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId);

    /// `curr` gives its CPU to `_to`, which waits: `yield_to()`. False: this class does not.
    fn yield_to(&mut self, _core: &mut Core, _cpu: CpuId, _curr: TaskId, _to: TaskId) -> bool {
        false
    }

    /// Whether the modelled kernel makes tasks leave their autogroup when they exit.
    fn knows_autogroups(&self) -> bool {
        true
    }

    /// `cpu` starts or stops to run the idle task; not `changed`: it has searched for work without
    /// success.
    fn update_idle(&mut self, _core: &mut Core, _cpu: CpuId, _is_idle: bool, _changed: bool) {}

    /// What it asks of `schedutil` for `cpu`, of [`flsched_machine::FULL_SPEED`], at [`Core::now`]; `None`: nothing, or
    /// what it has asked before with [`Core::set_perf_target`].
    fn utilisation(&self, _core: &Core, _cpu: CpuId) -> Option<u32> {
        None
    }

    /// The task's affinity has changed; if the task was queued, it is out of the queue during this
    /// call.
    fn set_cpumask(&mut self, _core: &mut Core, _task: TaskId) {}

    /// Does what was deferred while locks were held, for instance kicks; `cpu` holds none now.
    fn settle(&mut self, _core: &mut Core, _cpu: CpuId) {}

    /// A CPU has come online, or is about to go offline.
    fn hotplug(&mut self, _core: &mut Core, _cpu: CpuId, _is_online: bool) {}

    /// A timer that the class planned fires on `cpu`.
    fn timer(&mut self, _core: &mut Core, _cpu: CpuId, _timer: usize, _generation: u32) {}

    /// Once a second: checks whether a task has waited for longer than the class allows.
    fn watchdog(&mut self, _core: &mut Core) {}

    /// How many tasks wait in run queues, for checking; running ones do not count.
    fn waiting(&self, core: &Core) -> usize;

    /// The class's own named counts.
    fn statistics(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
