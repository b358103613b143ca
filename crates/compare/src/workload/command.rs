//! Any command as a workload, timed from start to exit.
use super::{Measured, Needs, Runnable};
use flsched_spec::UsageError;
use flsched_spec::workload::CommandLine;
use std::ffi::OsString;
use std::path::Path;

impl Runnable for CommandLine {
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        self.words().to_vec()
    }

    fn needs(&self) -> Result<Needs, UsageError> {
        Ok(Needs::programs(vec![self.program()?]))
    }

    fn measured(&self, _output: &str, elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured::of(elapsed_s))
    }
}
