//! Whole runs, under each scheduler, on machines whose CPUs are all equally fast.
use flsched_machine::Machine;
use flsched_sim::output::Outcome;
use flsched_sim::workload::load;
use flsched_sim::{Error, Setup, Simulation};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

fn run(machine: &str, cpus: Option<usize>, scheduler: &str, workload: &str) -> Result<Outcome, Error> {
    let machine = Machine::find(machine)?;
    let machine = match cpus {
        Some(count) => machine.with_cpus(count)?,
        None => machine,
    };
    Simulation::new(Setup {
        machine: Arc::new(machine.even()),
        scheduler: Scheduler::read(scheduler, Target::Sim)?,
        workload: load(&Model::read(workload)?)?,
        seed: 1,
        limit: 1000 * SECOND,
    })?
    .run()
}

#[test]
fn hogs_take_as_long_as_their_work() {
    for scheduler in ["fifo", "flsched"] {
        let outcome = run("ryzen-3400g", None, scheduler, "hogs:8:100").unwrap();
        assert!((0.1..0.102).contains(&outcome.time_s), "{scheduler}: {}", outcome.time_s);
        let outcome = run("ryzen-3400g", None, scheduler, "hogs:16:100").unwrap();
        // No policy can be faster; under FLSCHED the last slices do not fill all CPUs.
        assert!((0.2..0.25).contains(&outcome.time_s), "{scheduler}: {}", outcome.time_s);
    }
}

#[test]
fn hackbench_runs_to_its_end() {
    for scheduler in ["fifo", "flsched"] {
        for mode in ["process-pipe", "process-socket", "thread-pipe", "thread-socket"] {
            let outcome = run("ryzen-3400g", None, scheduler, &format!("hackbench:{mode}:2:20")).unwrap();
            assert_eq!(outcome.tasks, 81);
            // 16,000 messages are written and read at 400 ns each, or 1,150, by 8 CPUs.
            let each = if mode.ends_with("pipe") { 400e-9 } else { 1150e-9 };
            let least = 16_000.0 * 2.0 * each / 8.0;
            let times = outcome.time_s / least;
            assert!((1.0..2.5).contains(&times), "{scheduler}, {mode}: {times} times the work alone");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let once = || run("knc-31s1p", Some(16), "flsched", "hackbench:process-pipe:4:20").unwrap();
    assert_eq!(once(), once());
}

#[test]
fn runs_side_by_side_do_not_share_a_policys_globals() {
    let alone = run("knc-31s1p", None, "flsched", "hackbench:process-pipe:2:10").unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| run("knc-31s1p", None, "flsched", "hackbench:process-pipe:2:10")))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), alone);
    }
}

#[test]
fn knobs_reach_the_policy() {
    let turns = |scheduler: &str| {
        let outcome = run("ryzen-3400g", None, scheduler, "hogs:32:300").unwrap();
        outcome.stats["turn_ended"]
    };
    assert!(turns("flsched:max_delay_us=20000") > 2 * turns("flsched:max_delay_us=200000"));
}
