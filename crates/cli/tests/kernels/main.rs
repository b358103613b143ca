//! Tests of the policies on stock kernels, with a virtual machine for each policy and kernel. This program has two
//! parts: cargo starts it to boot the machines, and with `--guest` it is the command inside that runs the scenarios.
//!
//! By default each policy runs nearly all scenarios on one kernel; FLSCHED alone also runs those that depend on the newest
//! kernel, on odd machines and on how CPUs interleave. With `FLSCHED_TEST_ALL=1`, which `./test.sh matrix` sets, everything
//! runs everywhere. `FLSCHED_TEST_POLICIES=smove`, `FLSCHED_TEST_KERNELS=6.18` and
//! `FLSCHED_TEST_MACHINES=odd` select policies, kernels and machines, and `FLSCHED_TEST_SCENARIOS=hotplug,delay`
//! selects scenarios by parts of their names. `FLSCHED_TEST_SEEDS=20` runs on twenty machines whose CPUs interleave at
//! random, from the seed `FLSCHED_TEST_SEED` on, which also repeats all other draws. `FLSCHED_TEST_ROUNDS=5` attaches
//! and detaches five times as often, and `FLSCHED_TEST_TIMES=20` runs each scenario twenty times. `FLSCHED_TEST_ARCH=aarch64`
//! boots machines of another processor, in which `FLSCHED_TEST_PROGRAM` plays: this program, compiled for that processor.
#[path = "../common/mod.rs"]
mod common;
mod guest;
mod load;
mod machine;
mod scenarios;
mod scheduler;

use common::variable;
use flsched_spec::Policy;
use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machine;
use scenarios::Scenario;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The kernel with long-term support.
const KERNEL: &str = "6.18";
/// The kernels for FLSCHED: that with long-term support, and the newest.
const KERNELS: &str = "6.18,7.3";
const NEWEST: &str = "7.3";
/// Limit of the real time of all scenarios on a machine, in seconds. A quiet host needs a fifth of it.
const LIMIT_S: u32 = 900;

/// Parts of the names of FLSCHED's default scenarios on each further kernel and machine. They show that a policy is
/// attached, schedules and is detached, and cover what depends on the kernel's version or on real parallelism.
const ON_EACH: &str = "attaches,sigkill,affinity_changes,hotplug_under_load,run_passes,second_attach";
/// The same for the other policies. They are attached as FLSCHED is, so they need fewer scenarios.
const ON_EACH_OTHER: &str =
    "attaches_schedules,affinity_changes,threads_of_a_core,search_step_any,large_teams,verifier_has";
/// Scenarios of FLSCHED on the odd machine: the shorter ones of those that run nowhere else.
const ON_ODD: &str = "attaches_schedules,run_passes,second_attach,are_named,waits_reach,without_the_kernels";
/// Further scenarios of FLSCHED on each kernel, which depend on the kernel's features.
const ON_EACH_KERNEL: &str = "doctor,lazy_rescheduling,verifier";
/// Scenarios that depend on sched_ext's deadline server, which only the newest kernel has.
const ON_NEWEST: &str = "partial_beside_hogs_on,partial_with";
/// Scenarios for machines whose CPUs interleave at random: CPU hotplug, and tasks that begin and end.
const RACES: &str =
    "attaches_schedules,affinity_changes,cpuset,hotplug_storm,five_thousand,hundreds_of,stopped_and";
/// Scenarios that take many seconds of all CPUs. They are played only if the user asks for more than CI does.
const LONG: &str = "a_hog_is_no_stall,a_stall_names_the_task,all_but_one_cpu,attached_and_detached_again,hotplug_storm,\
                    many_pinned_tasks,partial_beside_hogs_never,partial_gives_a_starved,a_task_whose_slice_has_ended,\
                    cothreads_share,no_cothreads,search_steps,teams_of,the_wakers_cpu";

/// The results of a machine: the outcomes of scenarios by name, and its other output.
struct MachineResults {
    outcomes: BTreeMap<String, Result<(), String>>,
    output: String,
    errors: String,
    /// The first scenario without an outcome: the machine ended during it.
    last: Option<&'static str>,
    /// The kernel's log, if the machine did not end well.
    kernel_log: String,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--guest") {
        return guest::play();
    }
    let arguments = Arguments::from_args();
    let mut rigs = rigs();

    // The first scenario of every machine comes before the second of any, so that the test threads boot different
    // machines. The machine with the most scenarios boots first: booted last, it would run alone at the end.
    rigs.sort_by_key(|(rig, _)| Reverse(rig.played().count()));
    let mut trials = Vec::new();
    for (rig, results) in &rigs {
        for (turn, scenario) in rig.played().enumerate() {
            let (rig, results) = (rig.clone(), results.clone());
            let name = format!("{rig}::{}", scenario.name);
            let judge = move || judge(results.get_or_init(|| boot(&rig)), scenario.name);
            trials.push((turn, Trial::test(name, judge)));
        }
    }
    trials.sort_by_key(|(turn, _)| *turn);
    libtest_mimic::run(&arguments, trials.into_iter().map(|(_, trial)| trial).collect()).exit_code()
}

/// A policy on a kernel on a machine.
#[derive(Clone)]
struct Rig {
    policy: &'static str,
    kernel: String,
    machine: Machine,
    /// The seed of how CPUs interleave, on the machine where that is random.
    seed: Option<u64>,
}

impl Rig {
    fn played(&self) -> impl Iterator<Item = &'static Scenario> {
        scenarios::all().filter(|scenario| self.plays(scenario))
    }

    fn plays(&self, scenario: &Scenario) -> bool {
        if !scenario.is_for(self.machine, self.policy) {
            return false;
        }
        if let Some(wanted) = variable("SCENARIOS") {
            return scenario.is_wanted(&wanted);
        }
        if scenario.is_wanted(LONG) && !is_thorough() {
            return false;
        }
        match self.machine {
            Machine::Jitter => scenario.is_wanted(RACES),
            _ if variable("ALL").is_some() => true,
            // Each policy plays the scenarios about its own behaviour, and FLSCHED also those for all policies.
            Machine::Work if self.kernel == KERNEL && self.policy == "flsched" => true,
            Machine::Work if self.kernel == KERNEL && scenario.is_about_one() => true,
            Machine::Work if self.kernel == NEWEST && scenario.is_wanted(ON_NEWEST) => true,
            Machine::Work if self.policy == "flsched" && scenario.is_wanted(ON_EACH_KERNEL) => true,
            Machine::Odd if self.policy == "flsched" => scenario.is_wanted(ON_ODD),
            _ if self.policy == "flsched" => scenario.is_wanted(ON_EACH),
            _ => scenario.is_wanted(ON_EACH_OTHER),
        }
    }
}

impl fmt::Display for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}::{}", self.policy, self.kernel, self.machine)?;
        self.seed.map_or(Ok(()), |seed| write!(f, "-{seed}"))
    }
}

/// All machines of this run, each with a place for its results.
fn rigs() -> Vec<(Rig, Arc<OnceLock<MachineResults>>)> {
    let policies = variable("POLICIES");
    let is_picked = |name: &str| policies.as_ref().is_none_or(|picked| picked.split(',').any(|p| p == name));
    let is_all = variable("ALL").is_some();
    let mut rigs = Vec::new();
    for policy in Policy::all().iter().map(|policy| policy.name).filter(|name| is_picked(name)) {
        let machines = match policy {
            "flsched" if is_all => "work,jitter,wall,odd",
            "flsched" => "work,jitter,odd",
            "smove" if is_all => "work,odd",
            "rr2" if is_all => "work,nodes",
            _ => "work",
        };
        let kernels = if policy == "flsched" { KERNELS } else { KERNEL };
        let kernels = variable("KERNELS").unwrap_or_else(|| kernels.into());
        let machines = variable("MACHINES").unwrap_or_else(|| machines.into());
        for machine in machines.split(',').map(|name| name.parse().expect("FLSCHED_TEST_MACHINES")) {
            let kernels = if machine == Machine::Work { &kernels } else { KERNEL };
            let seeds: Vec<_> =
                if machine == Machine::Jitter { seeds().map(Some).collect() } else { vec![None] };
            for kernel in kernels.split(',') {
                let rig = |seed| Rig { policy, kernel: kernel.into(), machine, seed };
                rigs.extend(seeds.iter().map(|seed| (rig(*seed), Arc::default())));
            }
        }
    }
    rigs
}

/// More than by default is played: by `./test.sh matrix`, `newest`, `races` and `aarch64`.
fn is_thorough() -> bool {
    ["ALL", "SEEDS", "ARCH"].iter().any(|name| variable(name).is_some())
}

/// The seeds for the machines on which CPUs interleave at random.
fn seeds() -> impl Iterator<Item = u64> {
    let number = |name: &str, default| {
        variable(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("FLSCHED_TEST_{name}")))
    };
    let first = number("SEED", 1);
    first..first + number("SEEDS", 1)
}

fn judge(results: &MachineResults, scenario: &str) -> Result<(), Failed> {
    match results.outcomes.get(scenario) {
        Some(Ok(())) => Ok(()),
        Some(Err(why)) => {
            Err(format!("{why}\nIt wrote:\n{}", guest::notes_of(scenario, &results.errors)).into())
        }
        None if results.last == Some(scenario) => {
            let MachineResults { output, errors, kernel_log, .. } = results;
            Err(format!("the machine ended in this scenario; it said:\n{output}{errors}{kernel_log}").into())
        }
        None => Err(format!("the machine ended before, in {}", results.last.unwrap_or_default()).into()),
    }
}

fn boot(rig: &Rig) -> MachineResults {
    let began = Instant::now();
    let played: Vec<_> = rig.played().map(|it| it.name).collect();
    // A machine of another processor plays with a program of its own.
    let player = variable("PROGRAM").map_or_else(std::env::current_exe, |path| Ok(path.into()));
    let player = player.expect("this program has a path");
    let times = variable("TIMES").unwrap_or_else(|| "1".into());
    let limit = LIMIT_S * times.parse::<u32>().expect("FLSCHED_TEST_TIMES");
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args(["vm", "--verbose", "--kernel", &rig.kernel, "--timeout", &limit.to_string()])
        .args(variable("ARCH").map(|arch| format!("--arch={arch}")))
        .args(rig.machine.arguments())
        .args(rig.seed.map(|seed| format!("--clock=parallel:jitter={seed}")))
        .args(["--include", "/usr/bin/hackbench", "--"])
        .arg(player)
        .args(["--guest", &rig.machine.to_string(), rig.policy, &played.join(",")])
        .args([&variable("ROUNDS").unwrap_or_else(|| "1".into()), &times])
        .output()
        .expect("flsched runs");
    let [output, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // The times show which machines take longest, and why.
    let (count, seconds) = (played.len(), began.elapsed().as_secs_f64());
    eprintln!("{rig}: {count} scenarios in {seconds:.0} s; longest: {}", guest::longest(&errors));
    let outcomes: BTreeMap<_, _> = output.lines().filter_map(guest::parse_outcome).collect();
    let last = played.into_iter().find(|name| !outcomes.contains_key(*name));
    let kernel_log = kept_log(&errors).unwrap_or_default();
    MachineResults { outcomes, output, errors, last, kernel_log }
}

/// The log that `flsched vm` names when a machine fails. It becomes part of the test's output, because the host may not
/// exist any more when the log is needed.
fn kept_log(errors: &str) -> Option<String> {
    let path = errors.lines().find_map(|line| line.split_once("its log is kept in "))?.1;
    std::fs::read_to_string(path).ok()
}
