//! `perf bench sched pipe`: two processes that hand a byte to and fro, so that each loop is two switches.
use super::parameters::Parameters;
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// How it is named.
pub const FORM: &str = "perf-pipe:LOOPS";

/// `perf-pipe:LOOPS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerfPipe {
    /// How often the byte goes to and fro.
    pub loops: u64,
}

impl PerfPipe {
    /// Reads what stands after `perf-pipe:`; what is left out is 10,000 loops.
    pub(super) fn parse(parameters: &str) -> Result<Self, UsageError> {
        let mut parameters = Parameters::new(FORM, parameters);
        let loops = parameters.number("LOOPS", 10_000, 1..=1_000_000_000)?;
        parameters.end()?;
        Ok(Self { loops })
    }

    /// The command line.
    pub(super) fn argv(&self) -> Vec<OsString> {
        let loops = self.loops.to_string();
        ["perf", "bench", "sched", "pipe", "--loop", &loops].map(OsString::from).to_vec()
    }
}

/// Where it is, or how to get it.
pub(super) fn program() -> Result<PathBuf, UsageError> {
    which::which("perf").map_err(|_| {
        let packages =
            "on Debian: apt-get install linux-perf, on Ubuntu: apt-get install linux-tools-generic";
        UsageError(format!("perf is not in PATH; {packages}"))
    })
}

/// The seconds in its line `Total time: 0.040 [sec]`.
pub(super) fn time(output: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Total time:"))?;
    line.trim().strip_suffix("[sec]")?.trim().parse().ok()
}

impl fmt::Display for PerfPipe {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "perf-pipe:{}", self.loops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        assert_eq!(PerfPipe::parse("").unwrap().to_string(), "perf-pipe:10000");
        assert_eq!(PerfPipe::parse("7").unwrap().argv().last().unwrap(), "7");
        assert!(PerfPipe::parse("0").unwrap_err().to_string().contains("perf-pipe LOOPS: `0`"));
    }

    #[test]
    fn finds_its_time() {
        let output = "# Running 'sched/pipe' benchmark:\n# Executed 1000 pipe operations between two \
                      processes\n\n     Total time: 0.040 [sec]\n\n      40.421000 usecs/op\n";
        assert_eq!(time(output), Some(0.04));
        assert_eq!(time("# Running"), None);
    }
}
