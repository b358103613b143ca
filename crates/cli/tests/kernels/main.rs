//! FLSCHED on stock kernels: every scenario on every supported kernel series, one virtual machine a
//! kernel. This program is both sides: started by cargo it boots the machines, with `--guest` it is
//! the command inside that plays the scenarios.
//!
//! The instructions clock makes delays inside repeatable however busy the host is; one machine on the
//! wall clock adds real parallelism. `FLSCHED_TEST_KERNELS=6.18` picks kernels,
//! `FLSCHED_TEST_SCENARIOS=hotplug` picks scenarios by part of their name.
mod guest;
mod load;
mod scenarios;

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

const KERNELS: &str = "6.16,6.18,7.0,7.2,7.3";
const CPUS: &str = "4";
/// Real seconds that all scenarios on one kernel may take; a quiet machine needs a fifth of it.
const LIMIT: &str = "600";

/// What one machine told: scenario → outcome, and its whole output for the failures.
struct Told {
    outcomes: BTreeMap<String, Result<(), String>>,
    transcript: String,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--guest") {
        return guest::play(std::env::args().nth(2).as_deref().unwrap_or(""));
    }
    let arguments = Arguments::from_args();
    let kernels = std::env::var("FLSCHED_TEST_KERNELS").unwrap_or_else(|_| KERNELS.into());
    let wanted = std::env::var("FLSCHED_TEST_SCENARIOS").unwrap_or_default();

    let instructions = kernels.split(',').map(|kernel| (kernel.to_owned(), "instructions"));
    let machines = instructions.chain([("6.18".to_owned(), "wall")]);
    let machines: Vec<_> =
        machines.map(|(kernel, clock)| (kernel, clock, Arc::new(OnceLock::new()))).collect();

    // By scenario first, so that the test threads boot different machines.
    let mut trials = Vec::new();
    for (scenario, _) in scenarios::ALL.iter().filter(|(name, _)| name.contains(&wanted)) {
        for (kernel, clock, told) in machines.clone() {
            let wanted = wanted.clone();
            trials.push(Trial::test(format!("{kernel}::{clock}::{scenario}"), move || {
                judge(told.get_or_init(|| boot(&kernel, clock, &wanted)), scenario)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn judge(told: &Told, scenario: &str) -> Result<(), Failed> {
    match told.outcomes.get(scenario) {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => Err(why.into()),
        None => {
            Err(format!("the machine ended before this scenario did; it said:\n{}", told.transcript).into())
        }
    }
}

fn boot(kernel: &str, clock: &str, wanted: &str) -> Told {
    let me = std::env::current_exe().expect("this program has a path");
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args(["vm", "--verbose", "--kernel", kernel, "--cpus", CPUS, "--clock", clock, "--timeout", LIMIT])
        .args(["--include", "/usr/bin/hackbench", "--"])
        .arg(me)
        .args(["--guest", wanted, clock])
        .output()
        .expect("flsched runs");
    let transcript =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let outcomes = String::from_utf8_lossy(&output.stdout).lines().filter_map(guest::parse_outcome).collect();
    Told { outcomes, transcript }
}
