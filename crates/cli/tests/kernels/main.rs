//! The policies on stock kernels, one virtual machine for each policy and kernel. This program is both
//! sides: started by cargo it boots the machines, with `--guest` it is the command inside that plays the
//! scenarios.
//!
//! Without more words each policy is played on the kernels where a difference is most likely to show;
//! `./test.sh matrix` plays all on all. `FLSCHED_TEST_POLICIES=smove`, `FLSCHED_TEST_KERNELS=6.18` and
//! `FLSCHED_TEST_MACHINES=odd` pick policies, kernels and machines, and
//! `FLSCHED_TEST_SCENARIOS=hotplug,delay` picks scenarios by parts of their names;
//! `FLSCHED_TEST_ROUNDS=5` attaches and detaches five times as often, `FLSCHED_TEST_TIMES=20` plays each
//! scenario twenty times, and `FLSCHED_TEST_SEED=7` repeats what is drawn at random.
#[path = "../common/mod.rs"]
mod common;
mod guest;
mod load;
mod machine;
mod scenarios;
mod scheduler;

use common::variable;
use flsched_policies::Policy;
use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machine;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

/// The kernel with long-term support.
const KERNEL: &str = "6.18";
/// FLSCHED's: also the oldest and the newest.
const KERNELS: &str = "6.16,6.18,7.3";
/// Real seconds that all scenarios on one machine may take; a quiet host needs a tenth of it.
const LIMIT_S: u32 = 1800;

/// What one machine told: scenario → outcome, and what it wrote beside that.
struct Told {
    outcomes: BTreeMap<String, Result<(), String>>,
    output: String,
    errors: String,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--guest") {
        return guest::play();
    }
    let arguments = Arguments::from_args();
    let wanted = variable("SCENARIOS").unwrap_or_default();
    let rigs = rigs();

    // By scenario first, so that the test threads boot different machines.
    let mut trials = Vec::new();
    for scenario in scenarios::all().filter(|scenario| scenario.is_wanted(&wanted)) {
        for (rig, told) in rigs.iter().filter(|(rig, _)| scenario.is_for(rig.machine, rig.policy)) {
            let (rig, told, wanted) = (rig.clone(), told.clone(), wanted.clone());
            let name = format!("{}::{}::{}::{}", rig.policy, rig.kernel, rig.machine, scenario.name);
            trials.push(Trial::test(name, move || {
                judge(told.get_or_init(|| boot(&rig, &wanted)), scenario.name)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A policy on a kernel on a machine.
#[derive(Clone)]
struct Rig {
    policy: &'static str,
    kernel: String,
    machine: Machine,
}

/// All that are asked for, each with room for what it will tell.
fn rigs() -> Vec<(Rig, Arc<OnceLock<Told>>)> {
    let policies = variable("POLICIES");
    let is_picked = |name: &str| policies.as_ref().is_none_or(|picked| picked.split(',').any(|p| p == name));
    let mut rigs = Vec::new();
    for policy in Policy::all().iter().map(|policy| policy.name).filter(|name| is_picked(name)) {
        let machines = match policy {
            "flsched" => "work,wall,odd",
            "smove" => "work,odd",
            _ => "work,nodes",
        };
        let kernels = if policy == "flsched" { KERNELS } else { KERNEL };
        let kernels = variable("KERNELS").unwrap_or_else(|| kernels.into());
        let machines = variable("MACHINES").unwrap_or_else(|| machines.into());
        for machine in machines.split(',').map(|name| name.parse().expect("FLSCHED_TEST_MACHINES")) {
            let kernels = if machine == Machine::Work { &kernels } else { KERNEL };
            let rig = |kernel: &str| Rig { policy, kernel: kernel.into(), machine };
            rigs.extend(kernels.split(',').map(|kernel| (rig(kernel), Arc::default())));
        }
    }
    rigs
}

fn judge(told: &Told, scenario: &str) -> Result<(), Failed> {
    match told.outcomes.get(scenario) {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => {
            Err(format!("{why}\nIt wrote:\n{}", guest::notes_of(scenario, &told.errors)).into())
        }
        None => {
            let Told { output, errors, .. } = told;
            Err(format!("the machine ended before this scenario did; it said:\n{output}{errors}").into())
        }
    }
}

fn boot(rig: &Rig, wanted: &str) -> Told {
    let me = std::env::current_exe().expect("this program has a path");
    let times = variable("TIMES").unwrap_or_else(|| "1".into());
    let limit = LIMIT_S * times.parse::<u32>().expect("FLSCHED_TEST_TIMES");
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args(["vm", "--verbose", "--kernel", &rig.kernel, "--timeout", &limit.to_string()])
        .args(rig.machine.arguments())
        .args(["--include", "/usr/bin/hackbench", "--"])
        .arg(me)
        .args(["--guest", &rig.machine.to_string(), rig.policy, wanted])
        .args([&variable("ROUNDS").unwrap_or_else(|| "1".into()), &times])
        .output()
        .expect("flsched runs");
    let [output, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let outcomes = output.lines().filter_map(guest::parse_outcome).collect();
    Told { outcomes, output, errors }
}
