//! Any command as a workload, timed from start to exit.
use super::{Measured, Runnable};
use flsched_spec::UsageError;
use flsched_spec::workload::CommandLine;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

impl Runnable for CommandLine {
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        self.words().to_vec()
    }

    fn programs(&self) -> Result<Vec<PathBuf>, UsageError> {
        Ok(vec![self.program()?])
    }

    fn measured(&self, _output: &str, elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured::of(elapsed_s))
    }
}
