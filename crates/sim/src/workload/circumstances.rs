//! What belongs to a run beside the tasks: only scenarios have any of it.
use crate::core::{CpuId, CpuMask, Scheduling, TaskId};
use crate::engine::Ns;
use std::sync::Arc;

/// What a workload requires of its run.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// When the first task begins, after a tick.
    pub begin: Ns,
    /// When the run counts as hung, if that is earlier than otherwise.
    pub limit: Option<Ns>,
    /// When it ends, even if tasks are not done.
    pub end: Option<Ns>,
    /// When the policy is attached; until then the kernel's own scheduler runs. `None`: before the run.
    pub attach: Option<Ns>,
    /// Changes from outside, each with its time.
    pub disturbances: Vec<(Ns, Disturbance)>,
}

/// A change from outside during a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disturbance {
    /// A CPU goes offline, unless it is the last one.
    Offline(CpuId),
    /// A CPU comes back online.
    Online(CpuId),
    /// A task may run on these CPUs only, if it exists at that time.
    Affinity(TaskId, Arc<CpuMask>),
    /// A task gets this nice value, likewise.
    Nice(TaskId, i32),
    /// A task is scheduled so, likewise.
    Schedule(TaskId, Scheduling),
}
