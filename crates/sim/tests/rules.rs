//! Each rule on tiny scenarios: one that breaks it and one that keeps it.
mod common;

use flsched_sim::rules::{Held, Rule, Scores};
use flsched_sim::scenario::Scenario;
use flsched_sim::{Error, Violation};

const HOG: &str = "steps = [{ run_us = 100000000 }]";
const EVENTS: u64 = 3_000_000;

fn scenario(scheduler: &str, cpus: usize, end_ms: u64, text: &str) -> Scenario {
    common::add("rude");
    let text = format!(
        "seed = 1\nmachine = \"parallel-clock\"\ncpus = {cpus}\nscheduler = \"{scheduler}\"\nlimit_ms = {end_ms}\n\
         end_ms = {end_ms}\n{text}"
    );
    Scenario::parse(&text, "it").unwrap()
}

/// Under all rules, whatever the scheduler promises.
fn judge(scenario: &Scenario) -> Scores {
    let held = Held::of(&scenario.scheduler().unwrap()).to(Rule::ALL);
    scenario.judge(&held, EVENTS, || false).unwrap()
}

/// The score of a rule; 0: nothing came near it.
fn score(rule: Rule, scheduler: &str, cpus: usize, end_ms: u64, text: &str) -> f64 {
    judge(&scenario(scheduler, cpus, end_ms, text)).get(&rule).map_or(0.0, |score| score.value)
}

#[test]
fn a_task_that_waits_for_30_s_ejects_the_scheduler() {
    let two = format!("[[task]]\ncount = 2\n{HOG}\n");
    assert!(score(Rule::Ejection, "rude:fault=endless", 1, 34_000, &two) >= 1.0);
    assert!(score(Rule::Ejection, "rude", 1, 34_000, &two) < 0.01);
    assert!(score(Rule::Ejection, "eevdf", 1, 34_000, &two) < 0.01);
    // No scheduler could have run it beside a real-time task.
    let above = format!("[[task]]\n{HOG}\n[[task]]\npolicy = {{ fifo = 1 }}\n{HOG}\n");
    assert!(score(Rule::Ejection, "rude", 1, 34_000, &above) < 0.1);
}

/// After the last event nothing is known of who waits.
#[test]
fn a_run_that_is_cut_short_accuses_nobody() {
    let text = "[[task]]\ncount = 3\nrounds = 10000000\nsteps = [{ run_us = 2 }, { sleep_us = 7 }]\n";
    let short = scenario("flsched", 1, 8_000, text);
    let held = Held::of(&short.scheduler().unwrap());
    let scores = short.judge(&held, 100_000, || false).unwrap();
    assert!(scores.values().all(|score| !score.is_broken()), "{scores:?}");
}

#[test]
fn background_gets_a_tenth() {
    let beside = |count: u32| format!("[[task]]\n{HOG}\n[[task]]\ncount = {count}\nnice = 19\n{HOG}\n");
    assert!(score(Rule::Share, "rude", 1, 5_000, &beside(2)) >= 1.0, "equal turns");
    assert!(score(Rule::Share, "eevdf", 1, 5_000, &beside(2)) < 1.0, "30 of 1054");
    assert!(score(Rule::Share, "eevdf", 1, 5_000, &beside(26)) >= 1.0, "390 of 1414");
    let alone = format!("[[task]]\ncount = 5\nnice = 19\n{HOG}\n");
    assert!(score(Rule::Share, "rude", 1, 5_000, &alone) == 0.0, "nobody wants more");
}

#[test]
fn tasks_that_yield_in_vain_get_half() {
    let beside = |count: u32| {
        format!(
            "[[task]]\ncount = 2\n{HOG}\n\
             [[task]]\ncount = {count}\nrounds = 10000000\nsteps = [{{ yields = 1 }}, {{ run_us = 10 }}]\n"
        )
    };
    assert!(score(Rule::Yield, "rude:fault=newest", 1, 5_000, &beside(3)) >= 1.0);
    assert!(score(Rule::Yield, "rude", 1, 5_000, &beside(100)) < 1.0);
}

#[test]
fn a_task_of_nice_0_waits_no_longer_than_promised() {
    let tasks = |count: u32, nice: i32| format!("[[task]]\ncount = {count}\nnice = {nice}\n{HOG}\n");
    assert!(score(Rule::Wait, "rude", 1, 3_000, &tasks(17, 0)) < 1.0, "64 ms");
    assert!(score(Rule::Wait, "rude", 1, 3_000, &tasks(64, 0)) < 1.0, "in proportion");
    assert!(score(Rule::Wait, "rude:fault=endless", 1, 3_000, &tasks(2, 0)) >= 1.0);
    assert!(score(Rule::Wait, "rude:fault=endless", 1, 3_000, &tasks(2, 1)) == 0.0, "it has nice 1");
}

/// RCU's thread frees what the first task leaves, and waits like others.
#[test]
fn threads_of_the_kernel_wait_no_longer() {
    let text = format!("[[task]]\nsteps = [{{ run_us = 1000 }}]\n[[task]]\ncount = 6\n{HOG}\n");
    let near = score(Rule::Progress, "rude", 1, 3_000, &text);
    assert!(near > 0.0 && near < 1.0, "{near}");
    assert!(score(Rule::Progress, "rude:fault=endless", 1, 3_000, &text) >= 1.0);
}

#[test]
fn no_cpu_idles_or_runs_background_beside_a_waiting_task() {
    let two = format!("[[task]]\ncount = 2\n{HOG}\n");
    assert!(score(Rule::Work, "rude:fault=apart", 2, 1_000, &two) >= 1.0);
    assert!(score(Rule::Work, "rude", 2, 1_000, &two) < 1.0);
    let pinned = format!("[[task]]\ncount = 2\ncpus = [0]\n{HOG}\n");
    assert!(score(Rule::Work, "rude:fault=apart", 2, 1_000, &pinned) == 0.0, "they may not run elsewhere");
    let background = format!("[[task]]\nnice = 9\ncpus = [1]\n{HOG}\n{two}");
    assert!(score(Rule::Background, "rude:fault=apart", 2, 1_000, &background) >= 1.0);
    let alike = background.replace("nice = 9", "nice = 0");
    assert!(
        score(Rule::Work, "rude:fault=apart", 2, 1_000, &alike) == 0.0,
        "it is busy with a task of nice 0"
    );
}

/// Where a task may run counts while it may run there only.
#[test]
fn a_task_that_could_not_run_where_it_might_has_not_waited() {
    let text = format!(
        "[[task]]\ncpus = [0]\npolicy = {{ fifo = 1 }}\n{HOG}\n[[task]]\nstart_us = 1000\ncpus = [0]\n{HOG}\n\
         [[event]]\nat_us = 2000000\naffinity = {{ task = 2, cpus = [0, 1] }}\n"
    );
    assert!(score(Rule::Wait, "flsched", 2, 3_000, &text) < 1.0);
}

/// What a running task counts as follows its attributes at once.
#[test]
fn a_task_whose_nice_value_changes_while_it_runs_is_of_its_new_group() {
    let changed = |from: i32, to: i32| {
        format!(
            "[[task]]\nnice = {from}\n{HOG}\n[[task]]\nstart_us = 200000\n{HOG}\n\
             [[event]]\nat_us = 100000\nnice = {{ task = 1, to = {to} }}\n"
        )
    };
    let under = |rule, text: &str| score(rule, "rude:fault=endless", 1, 3_000, text);
    assert!(under(Rule::Background, &changed(5, 0)) == 0.0 && under(Rule::Share, &changed(5, 0)) == 0.0);
    assert!(under(Rule::Background, &changed(0, 5)) >= 1.0 && under(Rule::Share, &changed(0, 5)) >= 1.0);
}

#[test]
fn tasks_that_are_alike_get_alike() {
    let eight = format!("[[task]]\ncount = 8\nnice = 10\n{HOG}\n");
    assert!(score(Rule::Balance, "rude", 2, 8_000, &eight) < 1.0);
    assert!(score(Rule::Balance, "eevdf", 2, 8_000, &eight) < 1.0);
    assert!(score(Rule::Balance, "rude:fault=endless", 2, 8_000, &eight) >= 1.0);
}

#[test]
fn a_broken_rule_is_an_error_of_a_replay() {
    let text = format!("rules = [\"wait\"]\n[[task]]\ncount = 2\n{HOG}\n");
    match scenario("rude:fault=endless", 1, 3_000, &text).run() {
        Err(Error::Violation(Violation { what, task, .. })) => {
            assert!(what.contains("breaks the rule `wait`") && task.is_some(), "{what}");
        }
        other => panic!("{other:?}"),
    }
    assert!(scenario("rude", 1, 3_000, &text).run().is_ok());
    let text = text.replace("wait", "haste");
    let error = Scenario::parse(&format!("seed = 1\n{text}"), "it").unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("unknown variant `haste`"), "{error}");
}
