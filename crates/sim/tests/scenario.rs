//! Scenarios: from files, by chance, and made smaller.
use flsched_sim::run::TaskCounts;
use flsched_sim::scenario::{Scenario, draw, fuzz, shrink};
use flsched_sim::workload::{Act, TaskPlan};
use flsched_sim::{Error, Violation};
use std::convert::Infallible;

fn failure(scenario: &Scenario) -> Violation {
    match scenario.run() {
        Err(Error::Violation(violation)) => violation,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it does not fail"),
    }
}

fn reader() -> TaskPlan {
    TaskPlan { start_us: 0, nice: 0, is_thread: false, cpus: vec![], times: 3, steps: vec![Act::Read(77)] }
}

#[test]
fn fuzzing_finds_nothing() {
    for jobs in [1, 2] {
        let mut seeds = Vec::new();
        let before = |seed: u64, scenario: &Scenario| {
            seeds.push((seed, scenario.summary()));
            Ok::<_, Infallible>(())
        };
        let failed = fuzz(0..300, &[], jobs, before, |finding| panic!("{finding:#?}")).unwrap();
        assert_eq!(failed, 0);
        let expected: Vec<_> = (0..300).map(|seed| (seed, draw(seed, &[]).summary())).collect();
        assert_eq!(seeds, expected);
    }
}

#[test]
fn all_that_is_not_needed_to_fail_is_left_out() {
    let mut scenario = draw(4, &["flsched".to_owned()]);
    assert!(scenario.tasks.len() > 3 && scenario.run().is_ok());
    scenario.tasks.insert(0, reader());
    for event in &mut scenario.events {
        if let flsched_sim::scenario::What::Affinity { task, .. } = &mut event.what {
            *task += 1;
        }
    }
    let violation = failure(&scenario);
    let small = shrink(&scenario, &violation);
    assert_eq!(small.tasks, [TaskPlan { times: 1, ..reader() }]);
    assert_eq!((small.events.len(), small.cpus, &*small.scheduler), (0, 1, "flsched"));
    let again = Scenario::parse(&small.to_toml().unwrap(), "small.toml").unwrap();
    assert_eq!(failure(&again).what, violation.what);
}

/// Found by fuzzing: FLSCHED once left it in the waiting room of a CPU that idled.
#[test]
fn who_yields_in_the_background_alone_goes_on() {
    let text = "seed = 1\nmachine = \"ryzen-3400g\"\ncpus = 6\nscheduler = \"flsched\"\nlimit_ms = 1000\n\
                [[task]]\nnice = 18\ncpus = [5]\nsteps = [\"yield\"]\n";
    Scenario::parse(text, "it").unwrap().run().unwrap();
}

/// Also played on the kernel: `conformance/`.
#[test]
fn who_yields_to_another_goes_to_a_cpu_that_becomes_idle() {
    let text = include_str!("../../../conformance/yielders-part.toml");
    for scheduler in ["flsched", "smove", "rr2", "eevdf", "rr"] {
        let scenario =
            Scenario { scheduler: scheduler.into(), ..Scenario::parse(text, "yielders-part").unwrap() };
        // 600 yields, most of them alone.
        let switches = scenario.run().unwrap().context_switches;
        assert!(switches < 200, "{scheduler}: {switches}");
    }
}

/// Also played on the kernel, with 113 to 123 switches.
#[test]
fn an_interrupted_tasks_overdue_slice_does_not_end_the_next_ones() {
    let text = include_str!("../../../conformance/hotplug-at-rest.toml");
    let scenario = Scenario::parse(text, "hotplug-at-rest").unwrap();
    let (_, tasks) = scenario.run_counted().unwrap();
    let switches: u64 = tasks[1..].iter().map(|task| task.switches_of_program).sum();
    assert!((110..125).contains(&switches), "{switches}");
}

/// Also played on the kernel, with 16 to 23 switches: two in the background have a slice of a tick, and at
/// the next tick it is not quite over, as their turns begin a little after one.
#[test]
fn a_slice_of_a_tick_lasts_for_two() {
    let text = include_str!("../../../conformance/nice-mix.toml");
    let scenario = Scenario { scheduler: "flsched".into(), ..Scenario::parse(text, "nice-mix").unwrap() };
    let (_, tasks) = scenario.run_counted().unwrap();
    let switches: u64 = tasks[1..].iter().map(|task| task.switches_of_program).sum();
    assert!((14..=22).contains(&switches), "{switches}");
}

/// As on the kernel, where leaving its autogroup costs a task its place among its equals.
#[test]
fn who_ends_lets_its_equals_go_first() {
    let text = "seed = 1\nmachine = \"instructions-clock\"\ncpus = 1\nscheduler = \"fifo\"\nlimit_ms = 1000\n\
                [[task]]\nsteps = [\"run 1000\"]\n[[task]]\nsteps = [\"run 1000\"]\n";
    let switches = |scheduler: &str| {
        let scenario = Scenario { scheduler: scheduler.into(), ..Scenario::parse(text, "it").unwrap() };
        let (_, tasks) = scenario.run_counted().unwrap();
        [&tasks[1], &tasks[2]].map(|task| (task.switches, task.switches_of_program))
    };
    assert_eq!(switches("fifo"), [(2, 0), (2, 0)]);
    // Its turn is not over.
    assert_eq!(switches("flsched"), [(1, 0), (1, 0)]);
}

#[test]
fn what_each_task_did_is_counted() {
    let text = "seed = 1\nmachine = \"instructions-clock\"\ncpus = 2\nscheduler = \"fifo\"\nlimit_ms = 1000\n\
                [[task]]\ntimes = 3\nsteps = [\"sleep 1000\", \"pin 0\", \"run 10\", \"pin 1\"]\n";
    let scenario = Scenario::parse(text, "it").unwrap();
    let (outcome, tasks) = scenario.run_counted().unwrap();
    // It sleeps three times, leaves a CPU five or six times for the other one, and ends.
    let TaskCounts { switches, switches_of_program, migrations } = tasks[1];
    assert_eq!(switches, switches_of_program + 1);
    assert!((5..=6).contains(&migrations) && switches == 3 + migrations + 1, "{:?}", tasks[1]);
    assert_eq!(tasks.iter().map(|task| task.migrations).sum::<u64>(), outcome.migrations);
    let workload = text.split("[[").next().unwrap().to_owned() + "workload = \"hogs:3:1\"\n";
    let (outcome, tasks) = Scenario::parse(&workload, "it").unwrap().run_counted().unwrap();
    assert_eq!((outcome.workload.as_str(), tasks.len()), ("hogs:3:1", 4));
}

#[test]
fn a_bad_file_is_refused_by_file_and_fault() {
    let good = "seed = 1\nmachine = \"ryzen-3400g\"\ncpus = 2\nscheduler = \"fifo\"\nlimit_ms = 10\n";
    assert!(Scenario::parse(good, "good.toml").is_ok());
    for (bad, what) in [
        ("seeds = 1\n".to_owned(), "unknown field"),
        (good.replace("limit_ms = 10", "limit_ms = 0"), "limit_ms"),
        (format!("{good}[[task]]\nsteps = [\"jump\"]\n"), "jump is not one of"),
        (format!("{good}[[task]]\nsteps = []\ncpus = [2]\n"), "task 1: CPU 2"),
        (format!("{good}[[task]]\nsteps = []\nnice = 20\n"), "nice 20"),
        (
            format!("{good}[[task]]\nstart_us = 2\nsteps = []\n[[task]]\nsteps = []\n"),
            "task 2: starts before",
        ),
        (format!("{good}[[task]]\nsteps = [\"pin 2\"]\n"), "task 1: CPU 2"),
        (format!("workload = \"hogs\"\n{good}[[task]]\nsteps = []\n"), "both a workload and tasks"),
        (format!("{good}[[event]]\nat_us = 1\noffline = 9\n"), "event 1: CPU 9"),
        (format!("{good}[[event]]\nat_us = 1\naffinity = {{ task = 1, cpus = [0] }}\n"), "event 1: needs"),
    ] {
        let error = Scenario::parse(&bad, "bad.toml").unwrap_err();
        assert!(error.is_usage(), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("bad.toml: ") && text.contains(what), "{text}");
    }
    let unknown = Scenario::parse(&good.replace("fifo", "ffio"), "it").unwrap().run().unwrap_err();
    assert!(unknown.is_usage() && unknown.to_string().contains("fifo"), "{unknown}");
}
