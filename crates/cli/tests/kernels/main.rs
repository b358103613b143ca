//! FLSCHED on stock kernels: every scenario on every supported kernel series, one virtual machine a
//! kernel. This program is both sides: started by cargo it boots the machines, with `--guest` it is
//! the command inside that plays the scenarios.
//!
//! `FLSCHED_TEST_KERNELS=6.18` picks kernels, `FLSCHED_TEST_SCENARIOS=hotplug,delay` picks scenarios by
//! parts of their names, and `FLSCHED_TEST_SEED=7` repeats what is drawn at random.
mod guest;
mod load;
mod machine;
mod scenarios;
mod scheduler;

use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machine;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

const KERNELS: &str = "6.16,6.18,7.0,7.2,7.3";
/// The kernel of the machines there is only one of.
const KERNEL: &str = "6.18";
/// Real seconds that all scenarios on one kernel may take; a quiet machine needs a fifth of it.
const LIMIT: &str = "600";

/// What one machine told: scenario → outcome, and its whole output for the failures.
struct Told {
    outcomes: BTreeMap<String, Result<(), String>>,
    transcript: String,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--guest") {
        return guest::play();
    }
    let arguments = Arguments::from_args();
    let kernels = std::env::var("FLSCHED_TEST_KERNELS").unwrap_or_else(|_| KERNELS.into());
    let wanted = std::env::var("FLSCHED_TEST_SCENARIOS").unwrap_or_default();

    let machines = kernels.split(',').map(|kernel| (kernel, Machine::Instructions));
    let machines = machines.chain([(KERNEL, Machine::Wall), (KERNEL, Machine::Odd)]);
    let machines: Vec<_> =
        machines.map(|(kernel, machine)| (kernel.to_owned(), machine, Arc::new(OnceLock::new()))).collect();

    // By scenario first, so that the test threads boot different machines.
    let mut trials = Vec::new();
    for scenario in scenarios::all().filter(|scenario| scenario.is_wanted(&wanted)) {
        for (kernel, machine, told) in machines.iter().filter(|(_, machine, _)| scenario.is_for(*machine)) {
            let (kernel, machine, told) = (kernel.clone(), *machine, told.clone());
            let wanted = wanted.clone();
            trials.push(Trial::test(format!("{kernel}::{machine}::{}", scenario.name), move || {
                judge(told.get_or_init(|| boot(&kernel, machine, &wanted)), scenario.name)
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

fn boot(kernel: &str, machine: Machine, wanted: &str) -> Told {
    let me = std::env::current_exe().expect("this program has a path");
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args(["vm", "--verbose", "--kernel", kernel, "--timeout", LIMIT])
        .args(machine.arguments())
        .args(["--include", "/usr/bin/hackbench", "--"])
        .arg(me)
        .args(["--guest", &machine.to_string(), wanted])
        .output()
        .expect("flsched runs");
    let transcript =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let outcomes = String::from_utf8_lossy(&output.stdout).lines().filter_map(guest::parse_outcome).collect();
    Told { outcomes, transcript }
}
