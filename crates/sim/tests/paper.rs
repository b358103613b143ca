//! FLSCHED as published: each decision of the paper and of its authors' code.
use flsched_recording::timeline::Slice;
use flsched_sim::scenario::Scenario;

const MS: f64 = 1e-3;
/// A fork, a wake-up or a switch takes less.
const AT_ONCE: f64 = 0.2 * MS;

/// A turn of a task, in seconds.
#[derive(Debug)]
struct Turn {
    task: String,
    from: f64,
    to: f64,
    cpu: usize,
}

/// The turns of a scenario's tasks, in the order of their beginnings.
struct Turns(Vec<Turn>);

impl Turns {
    fn of(cpus: usize, tasks: &str) -> Self {
        let text = format!(
            "seed = 1\nmachine = \"parallel-clock\"\ncpus = {cpus}\nscheduler = \"flsched_paper\"\nlimit_ms = 5000\n{tasks}"
        );
        let (outcome, recording) = Scenario::parse(&text, "it").unwrap().simulation().unwrap().run_recorded();
        outcome.unwrap();
        let turn = |slice: &Slice| {
            let (from, to) = (slice.from as f64 / 1e9, slice.to as f64 / 1e9);
            Turn { task: recording.tasks[slice.task].0.clone(), from, to, cpu: slice.cpu }
        };
        let mut turns: Vec<_> = recording.slices.iter().map(turn).collect();
        turns.sort_by(|a, b| a.from.total_cmp(&b.from));
        Self(turns)
    }

    /// A task's last turn.
    fn last(&self, name: &str) -> &Turn {
        self.0.iter().rev().find(|turn| turn.task == name).unwrap()
    }

    /// How many turns it had.
    fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|turn| turn.task == name).count()
    }
}

fn task(name: &str, cpus: &str, steps: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\ncpus = [{cpus}]\nsteps = [{steps}]\n")
}

/// Three tasks wait on CPU 0 while two others idle: those do not pull. When the running task blocks, the head of the queue
/// is next, and the others are pushed in the same switch.
#[test]
fn a_switch_pushes_all_that_wait_to_idle_cpus_and_nothing_pulls() {
    let busy = |cpu: &str| task(&format!("busy {cpu}"), cpu, "{ run_us = 20000 }");
    let waiting = ["a", "b", "c"].map(|name| task(name, "0, 1, 2", "{ run_us = 5000 }")).concat();
    let all = busy("1") + &busy("2") + &task("first", "0", "{ run_us = 40000 }") + &waiting;
    let turns = Turns::of(3, &all);
    let all = ["a", "b", "c"].map(|name| turns.last(name));
    for turn in all {
        assert!((0.0..AT_ONCE).contains(&(turn.from - turns.last("first").to)), "{:?}", turns.0);
    }
    assert_eq!(all.map(|turn| turn.cpu), [0, 1, 2]);
}

#[test]
fn a_woken_task_leaves_the_running_one_alone() {
    let turns = Turns::of(
        1,
        &(task("sleeper", "0", "{ sleep_us = 10000 }, { run_us = 1000 }")
            + &task("hog", "0", "{ run_us = 80000 }")),
    );
    let (hog, sleeper) = (turns.last("hog"), turns.last("sleeper"));
    assert_eq!((turns.count("hog"), turns.count("sleeper")), (1, 2));
    assert!(hog.to - hog.from > 80.0 * MS, "{:?}", turns.0);
    assert!((0.0..AT_ONCE).contains(&(sleeper.from - hog.to)), "{:?}", turns.0);
}

/// The slice is 100 ms, and a task waits all the time.
#[test]
fn the_end_of_a_slice_is_no_switch() {
    let turns =
        Turns::of(1, &(task("hog", "0", "{ run_us = 350000 }") + &task("waiting", "0", "{ run_us = 1000 }")));
    assert_eq!((turns.count("hog"), turns.count("waiting")), (1, 1), "{:?}", turns.0);
}

/// What the original does not do: a task that never blocks gives way in the end.
#[test]
fn a_hog_does_not_hold_its_queue_for_ever() {
    let turns = Turns::of(
        1,
        &(task("hog", "0", "{ run_us = 4000000 }") + &task("waiting", "0", "{ run_us = 1000 }")),
    );
    assert_eq!(turns.count("hog"), 1, "not within 4 s");
    let text = "seed = 1\nmachine = \"parallel-clock\"\ncpus = 1\nscheduler = \"flsched_paper\"\nlimit_ms = 50000\n\
                [[task]]\ncount = 2\nsteps = [{ run_us = 20000000 }]\n";
    let outcome = Scenario::parse(text, "it").unwrap().run().unwrap();
    assert!(outcome.stats["stalled"] >= 2, "{:?}", outcome.stats);
}

/// `would` can run on CPU 0 only, and is woken while the task that runs there could run on CPU 1, if that is idle.
#[test]
fn a_woken_task_that_would_preempt_goes_to_the_head() {
    let order = |busy_us: u32| {
        let turns = Turns::of(
            2,
            &(task("busy", "1", &format!("{{ run_us = {busy_us} }}"))
                + &task("would", "0", "{ sleep_us = 20000 }, { run_us = 1000 }")
                + &task("running", "0, 1", "{ run_us = 40000 }")
                + &task("waiting", "0", "{ run_us = 1000 }")),
        );
        assert_eq!(turns.last("running").cpu, 0, "{:?}", turns.0);
        assert_eq!(turns.count("running"), 1, "it is not preempted");
        turns.last("would").from < turns.last("waiting").from
    };
    assert!(order(10000), "CPU 1 idles then");
    assert!(!order(60000), "it does not");
}

#[test]
fn a_task_that_yields_goes_to_the_tail() {
    let turns = Turns::of(
        1,
        &(task("yields", "0", "{ run_us = 1000 }, { yields = 1 }, { run_us = 1000 }")
            + &task("a", "0", "{ run_us = 1000 }")
            + &task("b", "0", "{ run_us = 1000 }")),
    );
    let order = turns.0.iter().map(|turn| turn.task.as_str());
    let of_tasks: Vec<_> = order.filter(|name| ["yields", "a", "b"].contains(name)).collect();
    assert_eq!(of_tasks, ["yields", "a", "b", "yields"]);
}
