//! What users do without privileges, or administrators with them, that once starved tasks or had a policy ejected.
use flsched_recording::timeline::Timeline;
use flsched_sim::Error;
use flsched_sim::output::Outcome;
use flsched_sim::scenario::Scenario;

const POLICIES: [&str; 3] = ["flsched", "smove", "rr2"];

fn play(policy: &str, cpus: usize, limit_ms: u64, tasks: &str) -> (Option<Outcome>, Timeline) {
    play_on("parallel-clock", policy, cpus, limit_ms, tasks)
}

/// Runs a scenario, to its end or to `limit_ms`. The policy must stay in force.
fn play_on(
    machine: &str,
    policy: &str,
    cpus: usize,
    limit_ms: u64,
    tasks: &str,
) -> (Option<Outcome>, Timeline) {
    let text = format!(
        "seed = 1\nmachine = \"{machine}\"\ncpus = {cpus}\nscheduler = \"{policy}\"\nlimit_ms = {limit_ms}\n{tasks}"
    );
    let (outcome, recording) = Scenario::parse(&text, "it").unwrap().simulation().unwrap().run_recorded();
    match outcome {
        Ok(outcome) => (Some(outcome), recording),
        Err(Error::Violation(violation)) => panic!("{policy}: {violation}"),
        Err(_) => (None, recording),
    }
}

/// The CPU time of each task of that name until `until_ms`, in ms.
fn cpu_times(recording: &Timeline, name: &str, until_ms: u64) -> Vec<f64> {
    let until = until_ms * 1_000_000;
    let named = |(index, (task, _)): (usize, &(String, i32))| (task == name).then_some(index);
    let tasks = recording.tasks.iter().enumerate().filter_map(named);
    let time = |task| {
        let slices = recording.slices.iter().filter(|slice| slice.task == task && slice.from < until);
        slices.map(|slice| (slice.to.min(until) - slice.from) as f64 / 1e6).sum()
    };
    tasks.map(time).collect()
}

fn task(name: &str, other: &str, steps: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\n{other}\nsteps = [{steps}]\n")
}

/// Each task of the background was due by itself, and due tasks came first: 25 took a whole CPU.
#[test]
fn the_background_leaves_a_cpu_to_others() {
    for count in [10, 26, 200, 1000] {
        let tasks = task("normal", "", "{ run_us = 4000000 }")
            + &task("background", &format!("nice = 19\ncount = {count}"), "{ run_us = 4000000 }");
        let (_, recording) = play("flsched", 1, 4000, &tasks);
        let had = cpu_times(&recording, "normal", 4000)[0];
        assert!(had > 0.9 * 3900.0, "beside {count} it had {had} ms of 4 s");
        let background: f64 = cpu_times(&recording, "background", 4000).iter().sum();
        assert!(background > 5.0, "{count} had {background} ms");
    }
}

/// A turn of the background went on until the tick: half of all wake-ups waited for 1.9 ms.
#[test]
fn wake_ups_take_cpus_from_the_background() {
    let tasks = task("background", "nice = 19\ncount = 8", "{ run_us = 400000 }")
        + &task("sleeps", "count = 16\nrounds = 100", "{ sleep_us = 2000 }, { run_us = 100 }")
        + &task("pinned", "cpus = [3]\nrounds = 100", "{ sleep_us = 2000 }, { run_us = 10 }");
    let (outcome, _) = play("flsched", 8, 2000, &tasks);
    let latency_us = outcome.expect("it ends").wakeup_latency_us;
    assert!(latency_us["p90"] < 20.0, "{latency_us:?}");
}

/// Turns had no limit where no other work waited: the last of 9,000 had its first turn after 36 s.
#[test]
fn thousands_in_the_background_have_turns_in_time() {
    play("flsched", 1, 35000, &task("background", "nice = 5\ncount = 9000", "{ run_us = 100000000 }"));
}

#[test]
fn the_background_is_balanced_over_cpus() {
    let tasks = task("background", "nice = 10\ncount = 8", "{ run_us = 1000000 }");
    let (_, recording) = play("flsched", 2, 2000, &tasks);
    let had = cpu_times(&recording, "background", 2000);
    let (least, most) =
        (had.iter().copied().fold(f64::MAX, f64::min), had.iter().copied().fold(0.0, f64::max));
    assert!(most < 1.5 * least, "{had:?}");
}

/// The task went to the tail each time, and the kernel counted how long it had waited in all.
#[test]
fn a_waiting_task_whose_affinity_changes_keeps_its_place() {
    let mut tasks = task("hog", "cpus = [0]\ncount = 2", "{ run_us = 40000000 }")
        + &task("busy", "cpus = [1]\ncount = 3", "{ run_us = 40000000 }")
        + &task("changed", "cpus = [0]\nstart_us = 1000", "{ run_us = 50000 }");
    for (number, at_ms) in (10..35000).step_by(3).enumerate() {
        let cpus = if number % 2 == 0 { "0, 1" } else { "0" };
        tasks += &format!("[[event]]\nat_us = {at_ms}000\naffinity = {{ task = 6, cpus = [{cpus}] }}\n");
    }
    for policy in POLICIES {
        let (_, recording) = play(policy, 2, 35000, &tasks);
        assert!(cpu_times(&recording, "changed", 35000)[0] > 49.0, "{policy}: it did not get its turns");
    }
}

/// With a tick for each, the last of them had its first turn after 35 s, as this machine's ticks are of 10 ms.
#[test]
fn thousands_of_tasks_on_a_cpu_have_turns_in_time() {
    for policy in POLICIES {
        play_on(
            "knc-31s1p",
            policy,
            2,
            40000,
            &task("hog", "cpus = [1]\ncount = 3500", "{ run_us = 100000 }"),
        );
    }
}

/// Tasks that had yielded came first as soon as a tick was over: a wake-up waited for 96 ms.
#[test]
fn tasks_that_yield_do_not_delay_wake_ups() {
    let tasks = task("yields", "count = 1000\nrounds = 500", "{ yields = 1 }")
        + &task("sleeps", "rounds = 500", "{ sleep_us = 1000 }, { run_us = 10 }");
    let (outcome, _) = play("flsched", 2, 20000, &tasks);
    let longest_ms = outcome.expect("it ends").wakeup_latency_us["max"] / 1e3;
    assert!(longest_ms < 20.0, "{longest_ms} ms");
}

/// A CPU with a crowd of tasks that yield took no other work: tasks that became runnable elsewhere waited for 90 ms.
#[test]
fn tasks_that_yield_do_not_keep_a_cpu_from_other_work() {
    let tasks = task("yields", "count = 1000\nrounds = 100\ncpus = [0]", "{ yields = 1 }, { run_us = 10 }");
    let (outcome, _) = play("flsched", 2, 20000, &tasks);
    let longest_ms = outcome.expect("it ends").wakeup_latency_us["max"] / 1e3;
    assert!(longest_ms < 10.0, "{longest_ms} ms");
}

/// 128 caches share 64 bits: a cache was never looked at if another one of its bit had an idle CPU.
#[test]
fn an_idle_cpu_is_found_among_more_than_64_caches() {
    let settings =
        ["topology.caches_per_node=64", "topology.cores_per_cache=2"].map(|it| it.parse().unwrap());
    for policy in ["flsched", "flsched_paper", "smove"] {
        let text = format!(
            "seed = 1\nmachine = \"epyc-2s-768t\"\ncpus = 512\nscheduler = \"{policy}\"\nlimit_ms = 1000\n{}{}{}",
            task("waits", "cpus = [0]", "{ run_us = 1000 }, { sleep_us = 10000 }, { run_us = 1000 }"),
            task("hog", "start_us = 5000\ncpus = [0]", "{ run_us = 400000 }"),
            "[[event]]\nat_us = 6000\naffinity = { task = 1, cpus = [0, 400] }\n",
        );
        let scenario = Scenario::parse(&text, "it").unwrap();
        let (outcome, recording) = scenario.simulation_with(&settings).unwrap().run_recorded();
        outcome.unwrap();
        assert!(cpu_times(&recording, "waits", 30)[0] > 1.9, "{policy}: it did not run on CPU 400");
    }
}

/// Found by the adversary: a CPU in the background took such tasks from another CPU at each tick, as more of them waited there,
/// and so none of its own, the kernel's thread among them.
#[test]
fn balance_does_not_pass_over_those_who_wait() {
    let tasks =
        task("background", "count = 1051\nis_thread = true\npolicy = \"idle\"", "{ run_us = 100000000 }")
            + &task("normal", "is_thread = true", "{ run_us = 100000000 }");
    let (_, recording) = play("flsched", 2, 2000, &tasks);
    let kernels = cpu_times(&recording, "rcu_preempt", 2000);
    assert!(kernels[0] > 0.0, "the kernel's thread had no turn");
}

/// A turn that tasks interrupt now and then began anew each time, and queues were compared at its end only: the lone task had as
/// much as the three others together.
#[test]
fn balance_does_not_wait_for_turns_that_are_interrupted() {
    let mut tasks = task("pinned", "cpus = [0]", "{ run_us = 10000000 }")
        + &task("free", "cpus = [0]\ncount = 2", "{ run_us = 10000000 }")
        + &task("lone", "cpus = [1]", "{ run_us = 10000000 }")
        + &task("wakes", "cpus = [1]\nnice = -5\nrounds = 1000", "{ sleep_us = 30000 }, { run_us = 20 }");
    for number in [2, 3] {
        tasks += &format!("[[event]]\nat_us = 50000\naffinity = {{ task = {number}, cpus = [0, 1] }}\n");
    }
    for policy in POLICIES {
        let (_, recording) = play(policy, 2, 4000, &tasks);
        let had = cpu_times(&recording, "lone", 4000)[0];
        assert!(had < 2500.0, "{policy}: {had} ms");
    }
}

/// The task waited where no policy has a tick, and no CPU was without work.
#[test]
fn a_task_does_not_wait_for_a_real_time_task_while_others_compute() {
    let tasks = task("hog", "count = 3", "{ run_us = 100000000 }")
        + &task("real-time", "start_us = 50000\npolicy = { fifo = 10 }", "{ run_us = 100000000 }");
    for policy in POLICIES {
        let (_, recording) = play(policy, 2, 2000, &tasks);
        let had = cpu_times(&recording, "hog", 2000);
        assert!(had.iter().all(|ms| *ms > 300.0), "{policy}: {had:?}");
    }
}

/// Tasks of the background that yield are taken by no CPU that has some of its own.
#[test]
fn the_background_does_not_wait_for_a_real_time_task() {
    let tasks = task("background", "nice = 19\ncount = 106", "{ run_us = 200 }, { yields = 3 }")
        .replace("steps", "rounds = 500001\nsteps")
        + &task(
            "real-time",
            "start_us = 16\ncpus = [1]\npolicy = { fifo = 59 }",
            "{ sleep_us = 41 }, { run_us = 100000000 }",
        );
    for policy in POLICIES {
        play(policy, 2, 34000, &tasks);
    }
}

/// As virtual CPUs do: one spins on a lock whose holder waits on another CPU, where its turn comes after those of others.
#[test]
fn a_cpu_that_is_given_to_a_task_runs_it() {
    let mut tasks = task("others", "cpus = [0]\ncount = 3", "{ run_us = 3000000 }")
        + &task("spins", "cpus = [1]\nrounds = 20000", "{ run_us = 50 }, { yield_to = \"holds\" }")
        + &task("holds", "cpus = [0]", "{ sleep_us = 20000 }, { run_us = 20000 }");
    tasks += "[[event]]\nat_us = 21000\naffinity = { task = 5, cpus = [0, 1] }\n";
    for policy in POLICIES {
        let (_, recording) = play(policy, 2, 60, &tasks);
        let had = cpu_times(&recording, "holds", 60);
        assert!(had[0] > 15.0, "{policy}: {had:?}");
    }
}

/// A turn lasted until the first task that waited was due. Then the others were due, too, and had a tick each: with a task that
/// wakes up between them it was the same task that had the long turn each time, ten times as long as the others'.
#[test]
fn tasks_that_compute_have_equal_turns() {
    for hogs in [2, 3, 6] {
        let tasks = task("hog", &format!("cpus = [1]\ncount = {hogs}"), "{ run_us = 20000000 }")
            + &task("sleeper", "cpus = [1]\nrounds = 2000", "{ sleep_us = 10000 }, { run_us = 1000 }");
        for policy in POLICIES {
            let (_, recording) = play(policy, 2, 3000, &tasks);
            let had = cpu_times(&recording, "hog", 3000);
            assert!(had.iter().all(|ms| *ms > 0.8 * 3000.0 / f64::from(hogs)), "{policy}: {had:?}");
        }
    }
}

/// A turn that was due a little after a tick came at the next one: with 1,800 tasks at every second tick, and the last of them
/// waited for 15 s.
#[test]
fn tasks_below_others_have_turns_in_time() {
    for count in [1000, 1300, 1800] {
        let tasks = task("hog", "", "{ run_us = 20000000 }")
            + &task("below", &format!("nice = 5\ncount = {count}"), "{ run_us = 20000000 }");
        let (_, recording) = play("rr2", 1, 10500, &tasks);
        let waiting = cpu_times(&recording, "below", 10500).iter().filter(|ms| **ms == 0.0).count();
        assert!(waiting == 0, "{waiting} of {count} had no turn");
    }
}

/// The search for a task that starves found one that had to stay on its CPU, and could not take it even there: neither that
/// task nor any other below the hog ever ran again.
#[test]
fn a_task_that_must_stay_keeps_nobody_from_turns() {
    let tasks = task("stays", "nice = 5", "\"stay\", { run_us = 200000 }, \"move\"")
        + &task("other", "cpus = [1]", "{ run_us = 9000000 }")
        + &task("below", "nice = 10\ncpus = [0]\nstart_us = 1000", "{ run_us = 200000 }")
        + &task("hog", "cpus = [0]\nstart_us = 5000", "{ run_us = 9000000 }");
    let (_, recording) = play("rr2", 2, 4000, &tasks);
    for name in ["stays", "below"] {
        let had = cpu_times(&recording, name, 4000)[0];
        assert!(had > 50.0, "{name} had {had} ms in 4 s");
    }
}

/// The kernel no longer finds a task that exits by its number. The search for a task that starves found it again and again,
/// and it could never be taken: nobody below the hog ran any more.
#[test]
fn a_task_that_exits_keeps_nobody_from_turns() {
    let tasks = task("exits", "is_thread = true\nexit_us = 500000", "{ run_us = 1500 }")
        + &task("others", "count = 3", "{ run_us = 60000000 }")
        + &task("hog", "nice = -20\nstart_us = 3000", "{ run_us = 60000000 }");
    let (_, recording) = play("rr2", 1, 4000, &tasks);
    let had = cpu_times(&recording, "others", 4000);
    assert!(had.iter().all(|ms| *ms > 120.0), "{had:?}");
}

/// A task of the background that found a CPU idle kept work from it until the tick: half of the wake-ups waited for more
/// than 1 ms.
#[test]
fn work_takes_a_cpu_from_the_background_that_has_just_come() {
    let tasks = task("hog", "cpus = [0]", "{ run_us = 1200000 }")
        + &task("background", "nice = 10\nrounds = 100", "{ sleep_us = 5000 }, { run_us = 3000 }")
        + &task("work", "rounds = 400", "{ sleep_us = 1300 }, { run_us = 20 }");
    for policy in ["flsched", "smove"] {
        let (outcome, _) = play(policy, 2, 5000, &tasks);
        let latency_us = outcome.expect("it ends").wakeup_latency_us;
        assert!(latency_us["p90"] < 20.0, "{policy}: {latency_us:?}");
    }
}

/// With a bound below a tick the background was due at each: it had half of the CPU.
#[test]
fn a_short_bound_gives_the_background_no_more() {
    let tasks =
        task("work", "", "{ run_us = 9000000 }") + &task("background", "nice = 10", "{ run_us = 9000000 }");
    for policy in ["flsched:max_delay_us=1000", "flsched:max_delay_us=40000", "smove:max_delay_us=4000"] {
        let (_, recording) = play(policy, 1, 4000, &tasks);
        let had = cpu_times(&recording, "background", 4000)[0];
        assert!((100.0..400.0).contains(&had), "{policy}: {had} ms of 4 s");
    }
}

/// A task that may run only where a real-time task does had all other CPUs end their turns at each tick.
#[test]
fn a_task_that_only_a_held_cpu_may_run_disturbs_no_other() {
    let tasks = task("pinned", "cpus = [0]", "{ run_us = 9000000 }")
        + &task("real-time", "policy = { fifo = 10 }\ncpus = [0]\nstart_us = 20000", "{ run_us = 9000000 }")
        + &task("hog", "cpus = [1, 2, 3]\ncount = 6\nstart_us = 20000", "{ run_us = 9000000 }");
    for policy in ["flsched", "rr2"] {
        let (_, recording) = play(policy, 4, 3000, &tasks);
        assert!(recording.slices.len() < 250, "{policy}: {} turns in 3 s", recording.slices.len());
    }
}

/// A turn that a real-time task cut off when its slice was used up counted as a yield.
#[test]
fn no_task_yields_that_does_not() {
    let tasks = task("hog", "count = 2", "{ run_us = 4000000 }")
        + &task(
            "real-time",
            "policy = { fifo = 10 }\nrounds = 70\nstart_us = 1500",
            "{ sleep_us = 101700 }, { run_us = 50 }",
        );
    let (outcome, _) = play("flsched:slice_us=1000", 1, 20000, &tasks);
    assert_eq!(outcome.expect("it ends").stats["yielded"], 0);
}

/// A new task that takes a CPU from another one made a second CPU give way, too: fork does not say that the policy has
/// chosen a CPU.
#[test]
fn a_new_task_makes_one_cpu_give_way() {
    let mut tasks = task("hog", "count = 4", "{ run_us = 500000 }");
    for start_ms in (11..200).step_by(10) {
        tasks += &task(
            &format!("new-{start_ms}"),
            &format!("nice = -5\nstart_us = {start_ms}700"),
            "{ run_us = 300 }",
        );
    }
    let (outcome, _) = play("rr2:load_threads=1000", 4, 5000, &tasks);
    let switches = outcome.expect("it ends").context_switches;
    assert!(switches < 70, "{switches} switches");
}

/// Scenarios that the adversary found, each of which broke the rule that it names.
#[test]
fn what_the_adversary_found_breaks_no_rule_any_more() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/found");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("\nrules = [\""), "{} names no rule", file.display());
        let scenario = Scenario::parse(&text, &file.display().to_string()).unwrap();
        if let Err(error @ Error::Violation(_)) = scenario.simulation().unwrap().run() {
            panic!("{}: {error}", file.display());
        }
    }
}
