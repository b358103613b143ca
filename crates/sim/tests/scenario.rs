//! Scenarios: from files, at random, and shrunk.
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
    TaskPlan { rounds: 3, steps: vec![Act::Read(77)], ..TaskPlan::default() }
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

/// FLSCHED as published only pushes tasks, so it breaks the rule. This test checks that the rule is checked.
#[test]
fn a_cpu_that_idles_while_a_task_waits_is_found() {
    let found = (0..400).find(|&seed| {
        let scenario = draw(seed, &["flsched_paper".to_owned()]);
        let mut simulation = scenario.simulation().unwrap();
        simulation.must_keep_cpus_busy();
        matches!(simulation.run(), Err(Error::Violation(violation)) if violation.what.contains("idles"))
    });
    assert!(found.is_some());
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
    assert_eq!(small.tasks, [TaskPlan { rounds: 1, ..reader() }]);
    assert_eq!((small.events.len(), small.cpus, &*small.scheduler), (0, 1, "flsched"));
    let again = Scenario::parse(&small.to_toml().unwrap(), "small.toml").unwrap();
    assert_eq!(failure(&again).what, violation.what);
}

/// Also played on the kernel. A CPU on which all tasks wait borrows one that waits behind a computing one.
/// Without that FLSCHED switches 2,118 times and takes 0.085 s, and threads that wait behind others, as under RR, 0.139 s.
#[test]
fn waiters_behind_work_are_borrowed() {
    let text = include_str!("../../../conformance/pipeline.toml");
    let scenario = Scenario { scheduler: "flsched".into(), ..Scenario::parse(text, "pipeline").unwrap() };
    let report = scenario.run().unwrap();
    assert!(report.context_switches < 800, "{}", report.context_switches);
    assert!(report.time_s < 0.083, "{}", report.time_s);
}

/// Also played on the kernel: `conformance/`.
#[test]
fn a_yielding_task_moves_to_a_cpu_that_becomes_idle() {
    let text = include_str!("../../../conformance/yielders-part.toml");
    for scheduler in ["flsched", "smove", "rr2", "eevdf", "rr"] {
        let scenario =
            Scenario { scheduler: scheduler.into(), ..Scenario::parse(text, "yielders-part").unwrap() };
        // 600 yields, most of them alone. Under EEVDF, here and on the kernel, none forks to the other CPU while a task runs there.
        let switches = scenario.run().unwrap().context_switches;
        let most = if scheduler == "eevdf" { 350 } else { 200 };
        assert!(switches < most, "{scheduler}: {switches}");
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
fn an_exiting_task_lets_its_equals_run_first() {
    let text = "seed = 1\nmachine = \"parallel-clock\"\ncpus = 1\nscheduler = \"fifo\"\nlimit_ms = 1000\n\
                [[task]]\nsteps = [{ run_us = 1000 }]\n[[task]]\nsteps = [{ run_us = 1000 }]\n";
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
    let text = "seed = 1\nmachine = \"parallel-clock\"\ncpus = 2\nscheduler = \"fifo\"\nlimit_ms = 1000\n\
                [[task]]\nrounds = 3\nsteps = [{ sleep_us = 1000 }, { pin = 0 }, { run_us = 10 }, { pin = 1 }]\n";
    let scenario = Scenario::parse(text, "it").unwrap();
    let (outcome, tasks) = scenario.run_counted().unwrap();
    // It sleeps three times, leaves a CPU five or six times for the other one, and ends.
    let TaskCounts { switches, switches_of_program, program_ended_at, migrations } = tasks[1];
    assert_eq!(switches, switches_of_program + 1);
    // Before the exit, and therefore before the end of the run.
    let ended_s = program_ended_at.unwrap() as f64 / 1e9;
    assert!((0.003..outcome.whole_s).contains(&ended_s), "{ended_s} of {}", outcome.whole_s);
    assert!((5..=6).contains(&migrations) && switches == 3 + migrations + 1, "{:?}", tasks[1]);
    assert_eq!(tasks.iter().map(|task| task.migrations).sum::<u64>(), outcome.migrations);
    let workload = text.split("[[").next().unwrap().to_owned() + "workload = \"hogs:3:1\"\n";
    let (outcome, tasks) = Scenario::parse(&workload, "it").unwrap().run_counted().unwrap();
    assert_eq!((outcome.workload.as_str(), tasks.len()), ("hogs:3:1", 4));
}

/// RCU's thread is woken for what the first task leaves, at the tick after its end and after each turn of its own until
/// three grace periods are over, and ends a turn at the next tick. It is none of the scenario's tasks, and only machines
/// with `[startup]` have it.
#[test]
fn the_kernel_frees_what_a_task_leaves() {
    let text = |machine: &str| {
        format!(
            "seed = 1\nmachine = \"{machine}\"\ncpus = 1\nscheduler = \"flsched\"\nlimit_ms = 1000\n\
             [[task]]\nsteps = [{{ run_us = 1000 }}]\n[[task]]\nsteps = [{{ run_us = 40000 }}]\n"
        )
    };
    let turns = |machine: &str| {
        let scenario = Scenario::parse(&text(machine), "it").unwrap();
        let (outcome, tasks) = scenario.run_counted().unwrap();
        assert_eq!((outcome.tasks, tasks.len()), (3, 3), "{machine}");
        let (_, recording) = scenario.simulation().unwrap().run_recorded();
        let thread = recording.tasks.iter().position(|(name, _)| name == "rcu_preempt");
        recording.slices.iter().filter(|slice| Some(slice.task) == thread).count()
    };
    assert_eq!(turns("ryzen-3400g"), 0);
    assert_eq!(turns("parallel-clock"), 4);
}

const ONE_CPU: &str =
    "seed = 1\nmachine = \"parallel-clock\"\ncpus = 1\nscheduler = \"flsched\"\nlimit_ms = 10000\n";
const POLICIES: [&str; 4] = ["flsched", "smove", "rr2", "flsched_paper"];

/// When each task's program ended, in ms.
fn ends_ms(text: &str, scheduler: &str) -> Vec<f64> {
    let scenario = Scenario { scheduler: scheduler.into(), ..Scenario::parse(text, "it").unwrap() };
    let (_, tasks) = scenario.run_counted().unwrap_or_else(|error| panic!("{scheduler}: {error}"));
    tasks[1..].iter().map(|task| task.program_ended_at.unwrap_or(0) as f64 / 1e6).collect()
}

#[test]
fn a_real_time_task_takes_the_cpu_from_others() {
    let text = format!(
        "{ONE_CPU}[[task]]\nsteps = [{{ run_us = 50000 }}]\n[[task]]\npolicy = {{ fifo = 50 }}\n\
         steps = [{{ sleep_us = 10000 }}, {{ run_us = 20000 }}]\n"
    );
    for scheduler in POLICIES.into_iter().chain(["eevdf", "cfs"]) {
        let ends = ends_ms(&text, scheduler);
        assert!((30.0..32.0).contains(&ends[1]) && (70.0..72.0).contains(&ends[0]), "{scheduler}: {ends:?}");
    }
}

/// 5 ms of each 20 ms, and what is left until the next tick: at most 8 ms.
#[test]
fn a_deadline_task_runs_as_long_as_its_budget_lasts() {
    let text = format!(
        "{ONE_CPU}[[task]]\nsteps = [{{ run_us = 60000 }}]\n[[task]]\n\
         policy = {{ deadline = {{ runtime_us = 5000, period_us = 20000 }} }}\nsteps = [{{ run_us = 80000 }}]\n"
    );
    for scheduler in POLICIES.into_iter().chain(["eevdf"]) {
        let ends = ends_ms(&text, scheduler);
        assert!(ends[0] < 120.0 && (180.0..320.0).contains(&ends[1]), "{scheduler}: {ends:?}");
    }
}

#[test]
fn nice_values_and_policies_change_while_tasks_wait() {
    let tasks = "[[task]]\ncount = 2\nsteps = [{ run_us = 200000 }]\n";
    for change in ["nice = { task = 1, to = 19 }", "policy = { task = 1, to = \"idle\" }"] {
        // One of the two waits at any time.
        for at_us in [50_000, 51_000, 53_000, 55_000, 57_000] {
            let text = format!("{ONE_CPU}{tasks}[[event]]\nat_us = {at_us}\n{change}\n");
            for scheduler in ["eevdf", "cfs", "flsched"] {
                let ends = ends_ms(&text, scheduler);
                assert!(ends[0] > 395.0 && ends[1] < 300.0, "{scheduler}, {change}: {ends:?}");
            }
        }
    }
    // To the real-time class and back.
    let text = format!(
        "{ONE_CPU}{tasks}[[event]]\nat_us = 50000\ntimes = 5\nevery_us = 20000\npolicy = {{ task = 1, to = {{ rr = 1 }} }}\n\
         [[event]]\nat_us = 60000\ntimes = 5\nevery_us = 20000\npolicy = {{ task = 1, to = \"other\" }}\n"
    );
    for scheduler in POLICIES.into_iter().chain(["eevdf", "cfs"]) {
        let ends = ends_ms(&text, scheduler);
        assert!((395.0..420.0).contains(&ends[0].max(ends[1])), "{scheduler}: {ends:?}");
    }
}

#[test]
fn a_policy_takes_over_tasks_that_run_and_wait() {
    let tasks = "[[task]]\ncount = 3\nsteps = [{ run_us = 50000 }, { sleep_us = 20000 }, { run_us = 50000 }]\n\
                 [[task]]\npolicy = { fifo = 3 }\nrounds = 5\nsteps = [{ sleep_us = 15000 }, { run_us = 2000 }]\n";
    let attached = |at_us: u64| format!("attach_us = {at_us}\n{ONE_CPU}{tasks}");
    for scheduler in POLICIES {
        for at_us in (0..300_000).step_by(7_321) {
            let ends = ends_ms(&attached(at_us), scheduler);
            assert!(ends.iter().all(|&ms| (80.0..500.0).contains(&ms)), "{scheduler} at {at_us}: {ends:?}");
        }
        let text = |at_us| Scenario::parse(&attached(at_us).replace("flsched", scheduler), "it").unwrap();
        let (early, late) = (text(1).run().unwrap(), text(9_000_000).run().unwrap());
        let eevdf = Scenario { scheduler: "eevdf".into(), ..text(1) }.run().unwrap();
        assert_eq!(late.context_switches, eevdf.context_switches, "before that EEVDF runs");
        assert_eq!(late.stats.values().sum::<u64>(), 0, "{scheduler}");
        assert!(
            early.stats.values().any(|&count| count > 0) || scheduler == "rr2",
            "{scheduler}: {:?}",
            early.stats
        );
    }
}

#[test]
fn tasks_follow_their_cpuset() {
    let text = "seed = 1\nmachine = \"parallel-clock\"\ncpus = 2\nscheduler = \"flsched\"\nlimit_ms = 1000\n\
                [cpusets]\na = [0]\n[[task]]\ncount = 2\ncpuset = \"a\"\ncpus = [0, 1]\nsteps = [{ run_us = 50000 }]\n\
                [[task]]\ncpus = [0]\nsteps = [{ run_us = 40000 }]\n\
                [[event]]\nat_us = 10000\ncpuset = { name = \"a\", cpus = [1] }\n";
    for scheduler in ["flsched", "smove", "rr2", "eevdf"] {
        let ends = ends_ms(text, scheduler);
        // They share CPU 0 with the third task for 10 ms, then CPU 1.
        assert!((45.0..52.0).contains(&ends[2]), "{scheduler}: {ends:?}");
        assert!((96.0..106.0).contains(&ends[0].max(ends[1])), "{scheduler}: {ends:?}");
    }
}

#[test]
fn a_task_may_take_long_to_exit() {
    let text = format!("{ONE_CPU}[[task]]\nexit_us = 30000\nsteps = [{{ run_us = 5000 }}]\n");
    for scheduler in POLICIES.into_iter().chain(["eevdf", "rr"]) {
        let scenario = Scenario { scheduler: scheduler.into(), ..Scenario::parse(&text, "it").unwrap() };
        let (outcome, tasks) = scenario.run_counted().unwrap();
        assert!(tasks[1].program_ended_at.unwrap() < 6_000_000, "{scheduler}");
        assert!((0.035..0.037).contains(&outcome.whole_s), "{scheduler}: {}", outcome.whole_s);
    }
}

#[test]
fn a_run_may_end_before_its_tasks() {
    let text = format!("end_ms = 30\n{ONE_CPU}[[task]]\nsteps = [{{ run_us = 5000000 }}]\n");
    let outcome = Scenario::parse(&text, "it").unwrap().run().unwrap();
    assert!((0.025..0.031).contains(&outcome.whole_s), "{}", outcome.whole_s);
}

#[test]
fn a_bad_file_is_refused_by_file_and_fault() {
    let good = "seed = 1\nmachine = \"ryzen-3400g\"\ncpus = 2\nscheduler = \"fifo\"\nlimit_ms = 10\n";
    assert!(Scenario::parse(good, "good.toml").is_ok());
    for (bad, what) in [
        ("seeds = 1\n".to_owned(), "unknown field"),
        (good.replace("limit_ms = 10", "limit_ms = 0"), "limit_ms"),
        (format!("{good}[[task]]\nsteps = [\"jump\"]\n"), "unknown variant `jump`, expected one of `run_us`"),
        (format!("{good}[[task]]\nsteps = []\ncpus = [2]\n"), "task 1: there is no CPU 2"),
        (format!("{good}[[task]]\nsteps = []\nnice = 20\n"), "nice: 20"),
        (
            format!("{good}[[task]]\nstart_us = 2\nsteps = []\n[[task]]\nsteps = []\n"),
            "task 2: starts before",
        ),
        (format!("{good}[[task]]\nsteps = [{{ pin = 2 }}]\n"), "task 1: there is no CPU 2"),
        (format!("workload = \"hogs\"\n{good}[[task]]\nsteps = []\n"), "both a workload and tasks"),
        (format!("{good}[[event]]\nat_us = 1\noffline = 9\n"), "event 1: there is no CPU 9"),
        (
            format!("{good}[[task]]\nsteps = []\npolicy = {{ fifo = 100 }}\n"),
            "priority 100 is not from 1 to 99",
        ),
        (
            format!(
                "{good}[[task]]\nsteps = []\npolicy = {{ deadline = {{ runtime_us = 3, period_us = 2 }} }}\n"
            ),
            "0 < runtime_us <= period_us",
        ),
        (format!("{good}[[task]]\nsteps = []\ncpuset = \"a\"\n"), "task 1: cpuset: there is no cpusets.a"),
        (format!("{good}[cpusets]\na = [2]\n"), "cpusets.a: there is no CPU 2"),
        (format!("{good}[cpusets]\na = []\n"), "cpusets.a: needs at least one CPU"),
        (
            format!("{good}[[event]]\nat_us = 1\ncpuset = {{ name = \"a\", cpus = [1] }}\n"),
            "event 1: there is no cpusets.a",
        ),
        (
            format!("{good}[[task]]\nsteps = []\n[[event]]\nat_us = 1\nnice = {{ task = 1, to = 20 }}\n"),
            "event 1: nice 20",
        ),
        (
            format!(
                "{good}[[task]]\nsteps = []\n[[event]]\nat_us = 1\nnice = {{ task = 1, count = 2, to = 2 }}\n"
            ),
            "event 1: needs some of the tasks, which are 1 to 1",
        ),
        (format!("{good}[[event]]\nat_us = 1\ntimes = 2\noffline = 1\n"), "event 1: times is at least 1"),
        (
            format!("{good}[[event]]\nat_us = 1\ntimes = 2000000\nevery_us = 1\noffline = 1\n"),
            "event 1: the events change more than 1000000 tasks",
        ),
        (good.replace("limit_ms = 10", "limit_ms = 10\nend_ms = 11"), "end_ms: 11 is more than limit_ms"),
        (format!("attach_us = 1000000000001\n{good}"), "attach_us"),
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
