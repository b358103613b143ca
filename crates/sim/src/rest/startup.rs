//! How tasks and programs start: slabs, copied pages, tables of open files. What each costs is in the section `[startup]`
//! of a machine's file; without it, nothing.
use crate::engine::Ns;
use flsched_machine::{MemoryCall, Startup};

/// `/sys/kernel/slab/task_struct/objs_per_slab` of Linux 6.18.
const TASKS_PER_SLAB: usize = 3;
/// How many slabs are there and empty before a program begins: `min_partial` in the same folder.
const EMPTY_TASK_SLABS: usize = 6;
/// Files that hackbench has open before it makes the first channel of a group.
const FILES: usize = 8;
/// For how many a process has room at first: `NR_OPEN_DEFAULT`.
const FILE_TABLE: usize = 64;
/// From a tick to the wake-up of a task that waits for the grace period that has passed, as measured on the
/// work clock.
const RCU_NS: Ns = 20_000;

/// By the thread that creates another one: a stack, without the page below it.
pub(crate) const BEFORE_FORK: [MemoryCall; 3] = [MemoryCall::Map, MemoryCall::Protect, MemoryCall::Fault];
/// By the new thread: an arena, of twice its size and cut on both sides, and a stack for signals.
pub(crate) const AT_FIRST: [MemoryCall; 7] = [
    MemoryCall::Map,
    MemoryCall::Unmap,
    MemoryCall::Unmap,
    MemoryCall::Protect,
    MemoryCall::Fault,
    MemoryCall::Map,
    MemoryCall::Protect,
];
/// By the thread that ends: it releases the stack for signals and the pages of its other stack, and exits.
pub(crate) const AT_LAST: [MemoryCall; 3] = [MemoryCall::Unmap, MemoryCall::Discard, MemoryCall::Fault];

/// What a program does before its work, or before it forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// Becomes another program.
    Exec,
    /// Becomes the project's own program, which is larger.
    ExecOwn,
    /// Writes to pages that it shares with its last child: the kernel copies them.
    CopyOnWrite,
    /// Plays a scenario, and forks one of its processes.
    PlayersFork,
    /// Does something to the map of its memory.
    Memory(MemoryCall),
}

impl Preparation {
    /// How long it takes.
    pub(crate) fn ns(self, costs: Option<&Startup>) -> Ns {
        costs.map_or(0, |costs| match self {
            Self::Exec => costs.exec_ns.hackbench,
            Self::ExecOwn => costs.exec_ns.flsched,
            Self::CopyOnWrite => *costs.copy_on_write_ns,
            Self::PlayersFork => *costs.player_fork_ns,
            Self::Memory(call) => costs.memory_ns.of(call),
        })
    }
}

/// Memory for `task_struct`; what there is stays.
#[derive(Debug)]
pub(crate) struct TaskSlabs(usize);

impl Default for TaskSlabs {
    fn default() -> Self {
        Self(EMPTY_TASK_SLABS)
    }
}

impl TaskSlabs {
    fn are_full(&self, tasks: usize) -> bool {
        tasks >= self.0 * TASKS_PER_SLAB
    }

    /// How much longer a fork takes while so many tasks exist.
    pub(crate) fn ns(&self, tasks: usize, costs: Option<&Startup>) -> Ns {
        costs.filter(|_| self.are_full(tasks)).map_or(0, |costs| *costs.task_slab_ns)
    }

    /// One more task than these.
    pub(crate) fn add(&mut self, tasks: usize) {
        self.0 += usize::from(self.are_full(tasks));
    }
}

/// The part of a fork's cost that is due to the calls of [`BEFORE_FORK`].
pub(crate) fn before_fork_ns(costs: Option<&Startup>) -> Ns {
    let of = |call| costs.map_or(0, |costs| costs.memory_ns.of(MemoryCall::Enter) + costs.memory_ns.of(call));
    BEFORE_FORK.into_iter().map(of).sum()
}

/// What a new task does before its program continues.
pub(crate) fn first_work_ns(is_thread: bool, costs: Option<&Startup>) -> Ns {
    costs.map_or(0, |costs| costs.start_ns.of(is_thread))
}

/// `expand_fdtable()`: does hackbench's table of open files grow when it has made so many channels and makes one more?
/// Threads that share it then wait for a grace period.
pub(crate) fn grows_file_table(channels: usize) -> bool {
    let file = FILES + 2 * channels;
    file >= FILE_TABLE && file.is_power_of_two()
}

/// When a task that waits for a grace period of RCU from `now` on is woken: one begins at a tick, and has passed at the
/// next one.
pub(crate) fn grace_period_end(now: Ns, tick_ns: Ns) -> Ns {
    (now / tick_ns + 2) * tick_ns + RCU_NS
}
