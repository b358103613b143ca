//! The rest of the kernel of the emulated machine, in such detail as a comparison of counts with it needs: how tasks
//! and programs start and end, RCU, the lock of a process's memory. [`Step::Rest`](crate::workload::Step::Rest) is how
//! programs call it, `run::rest` how a run does.
mod mmap_lock;
mod rcu;
mod startup;

pub use mmap_lock::{Access, MmapLock, MmapLockId, Released};
pub(crate) use rcu::{Freed, GracePeriods};
pub use startup::Preparation;
pub(crate) use startup::{
    AT_FIRST, AT_LAST, BEFORE_FORK, TaskSlabs, before_fork_ns, first_work_ns, grace_period_end,
    grows_file_table,
};

use crate::engine::Ns;
use flsched_machine::Machine;

/// What a task has this part of the kernel do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Prepares its work, or a fork.
    Prepare(Preparation),
    /// Waits until no CPU reads earlier data any more: `synchronize_rcu()`.
    SynchronizeRcu,
    /// RCU's thread: waits until there is something to do for it.
    AwaitCallbacks,
    /// Takes the lock of a process's memory; waits until it is free.
    LockMemory(MmapLockId, Access),
    /// Goes on with it as a reader.
    DowngradeMemory(MmapLockId),
    /// Releases that lock.
    UnlockMemory(MmapLockId),
}

impl Detail {
    /// Whether it is a system call from its first moment on.
    pub(crate) fn is_call(&self) -> bool {
        // Most of a program's start is its libraries' work, in user space.
        !matches!(self, Self::Prepare(preparation) if !matches!(preparation, Preparation::Memory(_)))
    }
}

/// Its state in a run.
#[derive(Debug)]
pub struct Rest {
    /// Whether the machine's file says what it costs to start tasks.
    pub(crate) knows_startup: bool,
    pub(crate) mmap_locks: Vec<MmapLock>,
    pub(crate) task_slabs: TaskSlabs,
    pub(crate) grace_periods: GracePeriods,
    /// Until when a task that checks its children holds `tasklist_lock`.
    pub(crate) tasklist_held_until: Ns,
}

impl Rest {
    /// As it is when a run begins.
    pub fn new(machine: &Machine) -> Self {
        Self {
            knows_startup: machine.startup.is_some(),
            mmap_locks: Vec::new(),
            task_slabs: TaskSlabs::default(),
            grace_periods: GracePeriods::default(),
            tasklist_held_until: 0,
        }
    }

    /// The lock of one more process's memory.
    pub fn add_mmap_lock(&mut self) -> MmapLockId {
        self.mmap_locks.push(MmapLock::default());
        self.mmap_locks.len() - 1
    }
}
