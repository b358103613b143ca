//! What things cost, in nanoseconds of a CPU's time.
use crate::{Callback, Distance, Ns};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A cost for each distance between two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByDistance {
    /// Threads of one core.
    pub core: Ns,
    /// Cores that share a last-level cache.
    pub cache: Ns,
    /// Caches of one node.
    pub node: Ns,
    /// Different nodes.
    pub remote: Ns,
}

impl ByDistance {
    /// Nothing on the same CPU.
    #[inline]
    pub fn at(&self, distance: Distance) -> Ns {
        match distance {
            Distance::Same => 0,
            Distance::Core => self.core,
            Distance::Cache => self.cache,
            Distance::Node => self.node,
            Distance::Remote => self.remote,
        }
    }
}

/// A cost for each kind of task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByKind {
    /// One with a memory of its own.
    pub process: Ns,
    /// One of several that share it.
    pub thread: Ns,
}

impl ByKind {
    /// Of such a task.
    #[inline]
    pub fn of(&self, is_thread: bool) -> Ns {
        if is_thread { self.thread } else { self.process }
    }
}

/// What a channel for messages costs, beside the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelCosts {
    /// To make one.
    pub make: Ns,
    /// To put a message in.
    pub write: Ns,
    /// To take one out.
    pub read: Ns,
}

/// What each callback of a scheduler takes, without waiting for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackCosts(pub(crate) [Ns; Callback::COUNT]);

impl CallbackCosts {
    /// Of one call.
    #[inline]
    pub fn of(&self, callback: Callback) -> Ns {
        self.0[callback as usize]
    }
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// From one task to another, with the registers saved; without the scheduler's callbacks.
    pub switch_ns: Ns,
    /// The core's part of a wake-up, on the CPU of who wakes.
    pub wakeup_ns: Ns,
    /// Into the kernel and back, with the work of a small call.
    pub syscall_ns: Ns,
    /// A pipe.
    pub pipe_ns: ChannelCosts,
    /// A pair of sockets.
    pub socket_ns: ChannelCosts,
    /// A new task, for its parent.
    pub fork_ns: ByKind,
    /// How much longer that takes if there is no memory for the task. 0 unless the file says so.
    pub task_slab_ns: Ns,
    /// What it does before its program goes on: a process has faults on the pages that it shares with its
    /// parent. 0 unless the file says so.
    pub start_ns: ByKind,
    /// What its parent writes then, which it shares with it, as hackbench before the fork of a receiver. 0
    /// unless the file says so.
    pub copy_on_write_ns: Ns,
    /// Its end.
    pub exit_ns: ByKind,
    /// From a program's start to its work: `exec`, its libraries, what it sets up. 0 unless the file says so.
    pub exec_ns: Ns,
    /// The timer interrupt, without the scheduler's callback.
    pub tick_ns: Ns,
    /// From an idle CPU's interrupt to its first instruction of the scheduler.
    pub idle_exit_ns: Ns,
    /// From sending an interrupt to its handler.
    pub ipi_ns: ByDistance,
    /// A lock's cache line, from its last holder.
    pub handover_ns: ByDistance,
    /// By scheduler; `default` for those that are not named.
    pub(crate) callbacks: BTreeMap<String, CallbackCosts>,
}

impl Costs {
    /// Those of the scheduler `name`.
    pub fn callbacks(&self, name: &str) -> CallbackCosts {
        self.callbacks.get(name).copied().unwrap_or(self.callbacks["default"])
    }
}
