//! `perf bench sched pipe`: two processes pass a byte to and fro. Each loop is two switches.
use super::{Measured, NO_TIME, Needs, Runnable};
use flsched_spec::UsageError;
use flsched_spec::workload::PerfPipe;
use std::ffi::OsString;
use std::path::Path;

impl Runnable for PerfPipe {
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        let loops = self.loops.to_string();
        ["perf", "bench", "sched", "pipe", "--loop", &loops].map(OsString::from).to_vec()
    }

    fn needs(&self) -> Result<Needs, UsageError> {
        let program = which::which("perf").map_err(|_| {
            let packages =
                "on Debian: apt-get install linux-perf, on Ubuntu: apt-get install linux-tools-generic";
            UsageError(format!("perf is not in PATH; {packages}"))
        });
        Ok(Needs::programs(vec![program?]))
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        let time_s = loop_us(output).map(|us| us * self.loops as f64 / 1e6);
        time_s.map(Measured::of).ok_or_else(|| NO_TIME.into())
    }
}

/// The microseconds of a loop, from its line `40.421000 usecs/op`. perf prints the total time in whole milliseconds, and that
/// of a few loops as 0.
fn loop_us(output: &str) -> Option<f64> {
    let figure = output.lines().find_map(|line| line.trim().strip_suffix("usecs/op"))?;
    figure.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_time() {
        let output = "# Running 'sched/pipe' benchmark:\n\
                      # Executed 50 pipe operations between two processes\n\n\
                      \x20    Total time: 0.000 [sec]\n\n\
                      \x20      5.420000 usecs/op\n\
                      \x20        184501 ops/sec\n";
        let measured = |output| PerfPipe { loops: 50 }.measured(output, 0.0);
        assert_eq!(measured(output).unwrap().time_s, 0.000_271);
        assert_eq!(measured("# Running").unwrap_err(), NO_TIME);
    }
}
