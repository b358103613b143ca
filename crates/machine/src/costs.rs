//! Costs, in nanoseconds of a CPU's time.
use crate::source::Source;
use crate::sourced::{Certainty, Sourced};
use crate::{Callback, Distance, Error, Ns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The upper limit of every cost: a minute.
const MAX_COST_NS: u64 = 60_000_000_000;

/// A cost for each distance between two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// The cost at this distance; 0 on the same CPU.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByKind {
    /// A task with its own memory.
    pub process: Ns,
    /// A task that shares its memory.
    pub thread: Ns,
}

impl ByKind {
    /// The cost for such a task.
    #[inline]
    pub fn of(&self, is_thread: bool) -> Ns {
        if is_thread { self.thread } else { self.process }
    }
}

/// The costs of a channel for messages, without those of the system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelCosts {
    pub make: Ns,
    pub write: Ns,
    pub read: Ns,
}

/// All costs except those of the schedulers' functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// A switch from one task to another, with the registers saved; without the scheduler's
    /// callbacks.
    pub switch_ns: Sourced<Ns>,
    /// The core's part of a wake-up, on the waker's CPU.
    pub wakeup_ns: Sourced<Ns>,
    /// A system call that does little work.
    pub syscall_ns: Sourced<Ns>,
    pub pipe_ns: Sourced<ChannelCosts>,
    /// A pair of sockets.
    pub socket_ns: Sourced<ChannelCosts>,
    /// Creating a task, for its parent.
    pub fork_ns: Sourced<ByKind>,
    /// The exit of a task.
    pub exit_ns: Sourced<ByKind>,
    /// The timer interrupt, without the scheduler's callback.
    pub tick_ns: Sourced<Ns>,
    /// Under CFS: a search, in one of a CPU's domains, for tasks to pull: `load_balance()`.
    pub load_balance_ns: Sourced<Ns>,
    /// Under EEVDF: for each CPU of the groups that are searched, for a new task's CPU or for tasks to pull:
    /// `update_sg_wakeup_stats()`, `update_sg_lb_stats()`.
    pub cpu_search_ns: Sourced<Ns>,
    /// Under EEVDF: a task that is pulled: `detach_tasks()`, `attach_tasks()`.
    pub pull_ns: Sourced<Ns>,
    /// From an idle CPU's interrupt to its first instruction of the scheduler.
    pub idle_exit_ns: Sourced<Ns>,
    /// From sending an interrupt to its handler.
    pub ipi_ns: Sourced<ByDistance>,
    /// A lock's cache line, from its last holder.
    pub handover_ns: Sourced<ByDistance>,
}

impl Costs {
    pub(crate) fn check(&self, source: &Source<'_>) -> Result<(), Error> {
        check(source, "switch_ns", &self.switch_ns)?;
        check(source, "wakeup_ns", &self.wakeup_ns)?;
        check(source, "syscall_ns", &self.syscall_ns)?;
        check(source, "pipe_ns", &self.pipe_ns)?;
        check(source, "socket_ns", &self.socket_ns)?;
        check(source, "fork_ns", &self.fork_ns)?;
        check(source, "exit_ns", &self.exit_ns)?;
        check(source, "tick_ns", &self.tick_ns)?;
        check(source, "load_balance_ns", &self.load_balance_ns)?;
        check(source, "cpu_search_ns", &self.cpu_search_ns)?;
        check(source, "pull_ns", &self.pull_ns)?;
        check(source, "idle_exit_ns", &self.idle_exit_ns)?;
        check(source, "ipi_ns", &self.ipi_ns)?;
        check(source, "handover_ns", &self.handover_ns)
    }
}

pub(crate) fn check<T: Parts>(source: &Source<'_>, field: &str, of: &Sourced<T>) -> Result<(), Error> {
    match of.parts().find(|&ns| ns > MAX_COST_NS) {
        None => Ok(()),
        Some(ns) => Err(source.wrong(of.span(), field, format!("{ns} is not from 0 to {MAX_COST_NS}"))),
    }
}

/// A cost, or several of them.
pub(crate) trait Parts {
    fn parts(&self) -> impl Iterator<Item = Ns>;
}

impl Parts for Ns {
    fn parts(&self) -> impl Iterator<Item = Ns> {
        [*self].into_iter()
    }
}

impl Parts for ByDistance {
    fn parts(&self) -> impl Iterator<Item = Ns> {
        [self.core, self.cache, self.node, self.remote].into_iter()
    }
}

impl Parts for ByKind {
    fn parts(&self) -> impl Iterator<Item = Ns> {
        [self.process, self.thread].into_iter()
    }
}

impl Parts for ChannelCosts {
    fn parts(&self) -> impl Iterator<Item = Ns> {
        [self.make, self.write, self.read].into_iter()
    }
}

/// What each function of a scheduler costs, by [`Callback::name`]; none may be left out.
pub type Callbacks = BTreeMap<String, Ns>;

/// The same for fast access. Waiting for locks is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackCosts {
    ns: [Ns; Callback::COUNT],
    /// How sure they are.
    pub certainty: Certainty,
}

impl CallbackCosts {
    /// The cost of one call.
    #[inline]
    pub fn of(&self, callback: Callback) -> Ns {
        self.ns[callback as usize]
    }

    pub(crate) fn check(source: &Source<'_>, scheduler: &str, of: &Sourced<Callbacks>) -> Result<(), Error> {
        let section = format!("[callbacks.{scheduler}]");
        let wrong = |what: String| source.wrong(of.span(), &section, what);
        let names = Callback::ALL.map(Callback::name);
        if let Some(odd) = of.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(wrong(format!("unknown callback {odd} (valid: {})", names.join(", "))));
        }
        for callback in Callback::ALL {
            let name = callback.name();
            match of.get(name) {
                None if callback.is_optional() => {}
                None => return Err(wrong(format!("{name} is missing"))),
                Some(ns) if *ns > MAX_COST_NS => {
                    return Err(wrong(format!("{name}: {ns} is not from 0 to {MAX_COST_NS}")));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl From<&Sourced<Callbacks>> for CallbackCosts {
    fn from(named: &Sourced<Callbacks>) -> Self {
        let ns = Callback::ALL.map(|callback| named.get(callback.name()).copied().unwrap_or(0));
        Self { ns, certainty: named.certainty }
    }
}
