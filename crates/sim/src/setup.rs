//! What a run is given.
use crate::engine::Ns;
use crate::workload::Workload;
use flsched_machine::Machine;
use flsched_spec::Scheduler;
use std::sync::Arc;

/// What to run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The simulated machine.
    pub machine: Arc<Machine>,
    /// The scheduler under test.
    pub scheduler: Scheduler,
    /// The workload.
    pub workload: Arc<dyn Workload>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The simulated time after which the run counts as hung.
    pub limit: Ns,
}
