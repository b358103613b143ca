//! `perf bench sched pipe`: two processes pass a byte to and fro. Each loop is two switches.
use super::{Measured, NO_TIME, Runnable};
use flsched_spec::UsageError;
use flsched_spec::workload::PerfPipe;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

impl Runnable for PerfPipe {
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        let loops = self.loops.to_string();
        ["perf", "bench", "sched", "pipe", "--loop", &loops].map(OsString::from).to_vec()
    }

    fn programs(&self) -> Result<Vec<PathBuf>, UsageError> {
        let program = which::which("perf").map_err(|_| {
            let packages =
                "on Debian: apt-get install linux-perf, on Ubuntu: apt-get install linux-tools-generic";
            UsageError(format!("perf is not in PATH; {packages}"))
        });
        Ok(vec![program?])
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        time(output).map(Measured::of).ok_or_else(|| NO_TIME.into())
    }
}

/// The seconds in its line `Total time: 0.040 [sec]`.
fn time(output: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Total time:"))?;
    line.trim().strip_suffix("[sec]")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_time() {
        let output = "# Running 'sched/pipe' benchmark:\n# Executed 1000 pipe operations between two \
                      processes\n\n     Total time: 0.040 [sec]\n\n      40.421000 usecs/op\n";
        assert_eq!(time(output), Some(0.04));
        assert_eq!(time("# Running"), None);
    }
}
