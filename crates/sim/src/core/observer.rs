//! Whoever wants to know what happens in the core; it changes nothing there.
use super::{CpuId, Task};
use crate::engine::Ns;
use std::any::Any;
use std::fmt::Debug;

/// What the core tells. Times are those of the CPU where it happens.
pub(crate) trait Observer: Any + Debug {
    /// A task enters the run queue of its CPU, or leaves it.
    fn queued(&mut self, task: &Task, is_queued: bool, now: Ns);
    /// A queued task goes to another CPU.
    fn moved(&mut self, task: &Task, to: CpuId, now: Ns);
    /// A queued task waits for `cpu` from now on. For the kernel it is on the CPU where it ran last.
    fn waits_for(&mut self, task: &Task, cpu: CpuId, now: Ns);
    /// The task begins to run on `cpu`; it has waited since then.
    fn begins(&mut self, task: &Task, cpu: CpuId, since: Ns, now: Ns);
    /// The running task leaves `cpu`.
    fn leaves(&mut self, cpu: CpuId, now: Ns);
    /// `cpu` has nothing to run.
    fn idles(&mut self, cpu: CpuId, now: Ns);
    /// A running task begins to exit.
    fn exits(&mut self, task: &Task, now: Ns);
    /// A running task goes on after a change of its attributes.
    fn goes_on(&mut self, task: &Task, now: Ns);
    /// The affinity of a task will change now.
    fn may_run_elsewhere(&mut self, task: &Task, now: Ns);
    /// A CPU goes on- or offline.
    fn hotplug(&mut self, cpu: CpuId, is_online: bool, now: Ns);
    /// A scheduler has been attached.
    fn attached(&mut self, now: Ns);
    /// Once a tick, between two. `idle_since`: by CPU, if it idles.
    fn look(&mut self, tasks: &[Task], idle_since: &[Option<Ns>], now: Ns);
}
