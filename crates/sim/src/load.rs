//! From what a user names to what runs.
use crate::Error;
use crate::scenario::Scenario;
use crate::workload::{self, Workload};
use flsched_spec::workload::Model;
use std::sync::Arc;

/// Loads the workload that the user has named. Files are read and checked.
pub fn load(model: &Model) -> Result<Arc<dyn Workload>, Error> {
    match model {
        Model::Scenario(path) => Scenario::read(path)?.as_workload(path),
        other => workload::load(other),
    }
}
