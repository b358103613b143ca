//! What a run is given.
use crate::engine::Ns;
use crate::workload::Workload;
use flsched_machine::Machine;
use flsched_spec::Scheduler;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Setup {
    pub machine: Arc<Machine>,
    /// The scheduler under test.
    pub scheduler: Scheduler,
    pub workload: Arc<dyn Workload>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The simulated time after which the run counts as hung.
    pub limit: Ns,
}
