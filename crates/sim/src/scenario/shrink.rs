//! The shortest scenario that still fails in the same way.
use super::Scenario;
use crate::{Error, Violation};

/// How many runs it may take.
const RUNS: u32 = 1000;

/// Two failures are the same if the place and the text are, whatever the numbers in it.
fn kind(violation: &Violation) -> (&'static str, String) {
    let letters = |c: &char| !c.is_ascii_digit();
    (violation.callback, violation.what.chars().filter(letters).collect())
}

pub(super) fn violation(scenario: &Scenario) -> Option<Violation> {
    match scenario.run() {
        Err(Error::Violation(violation)) => Some(violation),
        _ => None,
    }
}

/// Leaves out and halves whatever can be, as long as the failure stays the same.
pub fn shrink(scenario: &Scenario, violation: &Violation) -> Scenario {
    let wanted = kind(violation);
    let mut best = scenario.clone();
    let mut runs = 0;
    loop {
        let before = best.clone();
        for simplify in [fewer_tasks, fewer_events, fewer_steps, shorter, plainer] {
            simplify(&mut best, &mut |candidate| {
                runs += 1;
                runs <= RUNS && self::violation(candidate).is_some_and(|found| kind(&found) == wanted)
            });
        }
        if best == before || runs > RUNS {
            return best;
        }
    }
}

type Fails<'a> = &'a mut dyn FnMut(&Scenario) -> bool;

/// Tries to leave out parts of a list: first large ones, then each alone.
pub(crate) fn thin_out(length: usize, mut without: impl FnMut(std::ops::Range<usize>) -> bool) {
    let mut left = length;
    let mut size = length.div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < left {
            let to = (from + size).min(left);
            if without(from..to) {
                left -= to - from;
            } else {
                from = to;
            }
        }
        size /= 2;
    }
}

fn attempt(best: &mut Scenario, fails: Fails<'_>, change: impl FnOnce(&mut Scenario)) -> bool {
    let mut candidate = best.clone();
    change(&mut candidate);
    let better = candidate != *best && fails(&candidate);
    if better {
        *best = candidate;
    }
    better
}

fn fewer_tasks(best: &mut Scenario, fails: Fails<'_>) {
    thin_out(best.tasks.len(), |range| {
        attempt(best, fails, |scenario| range.rev().for_each(|index| scenario.set_count(index, 0)))
    });
}

fn fewer_events(best: &mut Scenario, fails: Fails<'_>) {
    thin_out(best.events.len(), |range| attempt(best, fails, |scenario| drop(scenario.events.drain(range))));
}

fn fewer_steps(best: &mut Scenario, fails: Fails<'_>) {
    for task in 0..best.tasks.len() {
        thin_out(best.tasks[task].steps.len(), |range| {
            attempt(best, fails, |scenario| drop(scenario.tasks[task].steps.drain(range)))
        });
    }
}

fn shorter(best: &mut Scenario, fails: Fails<'_>) {
    while attempt(best, fails, |scenario| {
        scenario.tasks.iter_mut().for_each(|task| task.rounds = task.rounds.div_ceil(2))
    }) {}
    for task in 0..best.tasks.len() {
        while attempt(best, fails, |scenario| {
            scenario.tasks[task].rounds = scenario.tasks[task].rounds.div_ceil(2)
        }) {}
    }
}

fn plainer(best: &mut Scenario, fails: Fails<'_>) {
    let name = best.scheduler.split(':').next().unwrap_or_default().to_owned();
    attempt(best, fails, |scenario| scenario.scheduler = name);
    if let Some((name, knobs)) = best.scheduler.clone().split_once(':') {
        let mut knobs: Vec<&str> = knobs.split(',').collect();
        thin_out(knobs.len(), |range| {
            let mut fewer = knobs.clone();
            fewer.drain(range);
            let text = if fewer.is_empty() { name.to_owned() } else { format!("{name}:{}", fewer.join(",")) };
            let better = attempt(best, fails, |scenario| scenario.scheduler = text);
            if better {
                knobs = fewer;
            }
            better
        });
    }
    for task in 0..best.tasks.len() {
        attempt(best, fails, |scenario| scenario.tasks[task].nice = 0);
        attempt(best, fails, |scenario| scenario.tasks[task].is_thread = false);
        attempt(best, fails, |scenario| scenario.tasks[task].cpus.clear());
        attempt(best, fails, |scenario| {
            let earliest = task.checked_sub(1).map_or(0, |before| scenario.tasks[before].start_us);
            scenario.tasks[task].start_us = earliest;
        });
    }
    // Numbers of CPUs that no other part of the scenario names.
    while attempt(best, fails, |scenario| scenario.cpus = (scenario.cpus / 2).max(1)) {}
    while best.cpus > 1 && attempt(best, fails, |scenario| scenario.cpus -= 1) {}
}
