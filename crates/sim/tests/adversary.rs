//! The adversary has to find for itself what breaks a rule.
mod common;

use flsched_sim::adversary::{Finding, Search};
use flsched_sim::rules::{Held, Rule};
use flsched_sim::scenario::Scenario;
use flsched_sim::{Error, Violation};
use flsched_spec::{Scheduler, Target};

fn search(scheduler: &str, jobs: usize) -> Vec<Finding> {
    common::add("rude");
    let search = Search { generations: 2, population: 6, jobs, ..Search::of(scheduler, 10).unwrap() };
    search.run(|_| {}).unwrap()
}

/// Its turns are equal whatever the nice value, so tasks in the background starve the others: the first row of what users
/// have reported.
#[test]
fn the_adversary_finds_that_nice_values_do_not_count() {
    let findings = search("rude", 2);
    let found = findings.iter().find(|finding| finding.rule == Rule::Share).unwrap();
    assert!(found.score.is_broken(), "{found:?}");
    assert!(found.scenario.tasks.len() <= 2 && found.scenario.events.is_empty(), "{found:?}");
    // What is written down shows it again.
    let again = Scenario::parse(&found.scenario.to_toml().unwrap(), "it").unwrap();
    assert!(
        matches!(again.run(), Err(Error::Violation(Violation { what, .. })) if what.contains("breaks the rule `share`"))
    );
    assert_eq!(search("rude", 1), findings, "the same with one run at a time");
}

#[test]
fn a_scheduler_that_promises_nothing_breaks_nothing() {
    assert_eq!(Held::of(&Scheduler::read("fifo", Target::Sim).unwrap()).rules.len(), 0);
    assert!(search("fifo", 2).is_empty());
}
