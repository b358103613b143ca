//! What belongs to a run beside the tasks: only scenarios have any of it.
use crate::core::{CpuId, CpuMask, TaskId};
use crate::engine::Ns;

/// What a workload requires of its run.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// When the first task begins, after a tick.
    pub begin: Ns,
    /// When the run counts as hung, if that is earlier than otherwise.
    pub limit: Option<Ns>,
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
    Affinity(TaskId, Box<CpuMask>),
}
