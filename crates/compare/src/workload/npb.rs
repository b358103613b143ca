//! The user's own programs of the NAS Parallel Benchmarks: they check their results and print their times.
use super::{Measured, Needs, Runnable};
use flsched_spec::UsageError;
use flsched_spec::workload::NpbProgram;
use std::ffi::OsString;
use std::path::Path;

impl Runnable for NpbProgram {
    fn argv(&self, _helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        vec![self.program.clone().into()]
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let threads = self.threads.map(|threads| ("OMP_NUM_THREADS".into(), threads.to_string().into()));
        threads.into_iter().collect()
    }

    fn needs(&self) -> Result<Needs, UsageError> {
        Ok(Needs::programs(vec![self.program.clone()]))
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        time(output).map(Measured::of)
    }
}

/// The seconds that it printed, if it also printed that its result is right.
fn time(output: &str) -> Result<f64, String> {
    let value = |name: &str| {
        let fields = output.lines().filter_map(|line| line.split_once('='));
        fields.rev().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_string())
    };
    match value("Verification") {
        Some(verdict) if verdict == "SUCCESSFUL" => {}
        Some(verdict) => return Err(format!("its verification was {verdict}")),
        None => return Err("it ended well but did not print `Verification =`".into()),
    }
    let time = value("Time in seconds").ok_or("it ended well but did not print `Time in seconds =`")?;
    time.parse().map_err(|_| format!("its time is not a number: {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_set_in_the_environment() {
        let npb = NpbProgram { program: "cg.A.x".into(), threads: Some(8) };
        assert_eq!(npb.environment(), [("OMP_NUM_THREADS".into(), "8".into())]);
    }

    #[test]
    fn a_time_needs_a_successful_verification() {
        let output = |verdict: &str| {
            format!(
                " CG Benchmark Completed.\n Class           =                        S\n Time in seconds \
                 =                     0.05\n Verification    =               {verdict}\n"
            )
        };
        assert_eq!(time(&output("SUCCESSFUL")), Ok(0.05));
        assert_eq!(time(&output("UNSUCCESSFUL")), Err("its verification was UNSUCCESSFUL".into()));
        assert!(time("Time in seconds = 1\n").unwrap_err().contains("Verification"));
        assert!(time("Verification = SUCCESSFUL\n").unwrap_err().contains("Time in seconds"));
    }
}
