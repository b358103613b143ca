//! Is the parallel clock right? One boot a machine, all measurements inside it, judged out here.
//!
//! This program is all sides: started by cargo it boots the machines, in which it is process 1 and, with
//! `--guest`, the command. What boots is ignored by default, as it takes a minute. `FLSCHED_TEST_CLOCK=all`
//! adds a machine of 64 CPUs and, as a control, one on the work clock, where the checks must fail;
//! `--nocapture` prints all readings. `docs/explanation/parallel-clock.md` has the claims.
mod guest;
mod judge;
mod machine;

use judge::CHECKS;
use libtest_mimic::{Arguments, Failed, Trial};
use machine::{MACHINES, Machine, Output, WORK};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

fn main() -> ExitCode {
    if flsched_vm::guest::is_guest_init() {
        flsched_vm::guest::main();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["--guest", names @ ..] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return guest::measure(names);
    }
    let is_all = std::env::var("FLSCHED_TEST_CLOCK").is_ok_and(|value| value == "all");
    let rigs: Vec<Arc<Rig>> = MACHINES
        .iter()
        .filter(|machine| is_all || !machine.is_extra)
        .map(|machine| Arc::new(Rig { machine, output: OnceLock::new() }))
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials(&rigs)).exit_code()
}

/// A machine, and its output once it was booted.
struct Rig {
    machine: &'static Machine,
    output: OnceLock<Output>,
}

impl Rig {
    fn output(&self) -> Result<&str, Failed> {
        self.output.get_or_init(|| self.machine.boot()).as_deref().map_err(Failed::from)
    }
}

fn trials(rigs: &[Arc<Rig>]) -> Vec<Trial> {
    let mut trials = Vec::new();
    // By check first, so that the test threads boot different machines.
    for check in CHECKS {
        for rig in rigs.iter().filter(|rig| check.is_for(rig.machine)).cloned() {
            if rig.machine.name == WORK.name {
                let name = format!("{}::not_so::{}", WORK.name, check.name);
                trials.push(Trial::test(name, move || {
                    let outcome = (check.judge)(rig.machine, rig.output()?);
                    outcome.err().map(|why| eprintln!("work: {why}")).ok_or("the check cannot fail".into())
                }));
                continue;
            }
            let name = format!("{}::{}", rig.machine.name, check.name);
            trials.push(Trial::test(name, move || Ok((check.judge)(rig.machine, rig.output()?)?)));
        }
    }
    let pair = |name: &str, [one, other]: [&str; 2], judge: fn(&str, &str) -> Result<(), String>| {
        let rig =
            |name| rigs.iter().find(|rig| rig.machine.name == name).expect("it is in the table").clone();
        let (one, other) = (rig(one), rig(other));
        Trial::test(name, move || Ok(judge(one.output()?, other.output()?)?))
    };
    trials.push(pair("an_idle_cpu_wakes_up_within_two_turns_more", ["default", "short"], judge::wakes));
    trials.push(pair("the_same_seed_repeats_everything", ["seed1", "seed1-again"], judge::equal));
    trials.push(pair("another_seed_is_another_run", ["seed1", "seed2"], judge::different));
    if rigs.iter().any(|rig| rig.machine.name == "memory-again") {
        trials.push(pair("a_model_of_memory_repeats_everything", ["memory", "memory-again"], judge::equal));
    }
    let mut trials: Vec<Trial> = trials.into_iter().map(|trial| trial.with_ignored_flag(true)).collect();
    trials.push(Trial::test("wrong_readings_are_refused", || Ok(judge::wrong_readings()?)));
    trials
}
