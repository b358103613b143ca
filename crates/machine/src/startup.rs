//! What the start and the end of programs and tasks cost beside `[costs]`, where counts are so exact that it matters.
use crate::costs::{ByKind, Parts, check};
use crate::source::Source;
use crate::sourced::Sourced;
use crate::{Error, Ns};
use serde::{Deserialize, Serialize};

/// The section `[startup]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Startup {
    /// From a program's start to its work: `exec`, its libraries, what it sets up.
    pub exec_ns: Sourced<ByProgram>,
    /// How much longer a fork takes if there is no memory for the task.
    pub task_slab_ns: Sourced<Ns>,
    /// What a new task does before its program starts: a process takes faults on the pages that it shares with
    /// its parent.
    pub start_ns: Sourced<ByKind>,
    /// What its parent writes then of the memory that they share, as hackbench before the fork of a receiver.
    pub copy_on_write_ns: Sourced<Ns>,
    /// How much longer than a fork of hackbench's first process one takes of the process that plays the tasks of a
    /// scenario: it is larger, and writes to more pages between two forks.
    pub player_fork_ns: Sourced<Ns>,
    /// What a process does with each process that it has waited for and that has ended.
    pub reap_ns: Sourced<Ns>,
    /// What a thread of the project's own programs does to the map of its process's memory.
    pub memory_ns: Sourced<ByMemoryCall>,
    /// What `wait4()` costs for each child that still runs: it checks the children in the order of their birth, up to
    /// the first that has ended.
    pub child_ns: Sourced<Ns>,
    /// What RCU's thread does to end a grace period and to begin the next one.
    pub grace_period_ns: Sourced<Ns>,
}

/// Costs of starting a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByProgram {
    /// A small one in C.
    pub hackbench: Ns,
    /// This one, which contains some of the workloads.
    pub flsched: Ns,
}

impl Parts for ByProgram {
    fn parts(&self) -> impl Iterator<Item = Ns> {
        [self.hackbench, self.flsched].into_iter()
    }
}

/// Something that a thread does under `mmap_lock`, or before it takes the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryCall {
    /// The end of the last call, what the program does then, and the beginning of the next call.
    Enter,
    /// `mmap()`
    Map,
    /// `mprotect()`
    Protect,
    /// The first part of `munmap()`: the range leaves the map.
    Remove,
    /// The second part of it: its pages are released, while others may read the map.
    Unmap,
    /// `madvise()` with `MADV_DONTNEED`
    Discard,
    /// A page fault on the first page of a range, or another short read of the map.
    Fault,
}

impl MemoryCall {
    /// Whether it begins with a change of the map.
    pub fn is_change(self) -> bool {
        matches!(self, Self::Map | Self::Protect | Self::Remove | Self::Unmap)
    }
}

/// How long each takes, while the thread has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByMemoryCall {
    /// [`MemoryCall::Enter`], without the lock.
    pub enter: Ns,
    /// [`MemoryCall::Map`]
    pub map: Ns,
    /// [`MemoryCall::Protect`]
    pub protect: Ns,
    /// [`MemoryCall::Remove`]
    pub remove: Ns,
    /// [`MemoryCall::Unmap`]
    pub unmap: Ns,
    /// [`MemoryCall::Discard`]
    pub discard: Ns,
    /// [`MemoryCall::Fault`]
    pub fault: Ns,
}

impl ByMemoryCall {
    pub fn of(&self, call: MemoryCall) -> Ns {
        match call {
            MemoryCall::Enter => self.enter,
            MemoryCall::Map => self.map,
            MemoryCall::Protect => self.protect,
            MemoryCall::Remove => self.remove,
            MemoryCall::Unmap => self.unmap,
            MemoryCall::Discard => self.discard,
            MemoryCall::Fault => self.fault,
        }
    }
}

impl Parts for ByMemoryCall {
    fn parts(&self) -> impl Iterator<Item = Ns> {
        [self.enter, self.map, self.protect, self.remove, self.unmap, self.discard, self.fault].into_iter()
    }
}

impl Startup {
    pub(crate) fn check(&self, source: &Source<'_>) -> Result<(), Error> {
        check(source, "exec_ns", &self.exec_ns)?;
        check(source, "task_slab_ns", &self.task_slab_ns)?;
        check(source, "start_ns", &self.start_ns)?;
        check(source, "copy_on_write_ns", &self.copy_on_write_ns)?;
        check(source, "player_fork_ns", &self.player_fork_ns)?;
        check(source, "reap_ns", &self.reap_ns)?;
        check(source, "memory_ns", &self.memory_ns)?;
        check(source, "child_ns", &self.child_ns)?;
        check(source, "grace_period_ns", &self.grace_period_ns)
    }
}
