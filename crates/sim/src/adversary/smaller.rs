//! Makes a scenario that breaks a rule smaller, as long as it breaks that rule.
use super::Finding;
use super::search::judge;
use crate::rules::{Held, Rule, Score};
use crate::scenario::{Scenario, thin_out};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs of one scenario at most: each takes up to seconds.
const RUNS: u32 = 60;
const MS: u64 = 1_000_000;

struct Smaller<'a> {
    best: Scenario,
    score: Score,
    rule: Rule,
    /// The lowest score with which a smaller one counts: else a wait of seconds would end as one of a tick too many, with
    /// another cause.
    least: f64,
    held: Held,
    stop: &'a Arc<AtomicBool>,
    runs: u32,
    tell: &'a mut dyn FnMut(u32),
}

/// The smallest that was found.
pub(super) fn smaller(
    finding: Finding,
    held: &Held,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(u32),
) -> Finding {
    let Finding { rule, score, generation, scenario } = finding;
    let (held, least) = (held.clone(), (score.value / 2.0).max(1.0));
    let mut smaller = Smaller { best: scenario, score, rule, least, held, stop, runs: 0, tell };
    loop {
        let before = smaller.best.clone();
        smaller.shorter();
        smaller.fewer();
        smaller.plainer();
        if smaller.best == before || smaller.is_over() {
            break;
        }
    }
    Finding { rule, score: smaller.score, generation, scenario: smaller.best }
}

impl Smaller<'_> {
    fn is_over(&self) -> bool {
        self.runs >= RUNS || self.stop.load(Ordering::Relaxed)
    }

    /// Keeps a change if the rule is still broken.
    fn attempt(&mut self, change: impl FnOnce(&mut Scenario)) -> bool {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        if candidate == self.best || candidate.check().is_err() || self.is_over() {
            return false;
        }
        self.runs += 1;
        (self.tell)(self.runs);
        let Ok(mut scores) = judge(&candidate, &self.held, self.stop) else { return false };
        match scores.remove(&self.rule).filter(|score| score.value >= self.least) {
            Some(score) => {
                (self.best, self.score) = (candidate, score);
                true
            }
            None => false,
        }
    }

    /// Ends soon after the rule is broken.
    fn shorter(&mut self) {
        let at_ms = self.score.at / MS + 1;
        let end =
            |scenario: &mut Scenario, end_ms: u64| (scenario.end_ms, scenario.limit_ms) = (end_ms, end_ms);
        if at_ms < self.best.end_ms {
            self.attempt(|scenario| end(scenario, at_ms));
        }
        while self.best.end_ms > 100 && self.attempt(|scenario| end(scenario, scenario.end_ms / 2)) {}
    }

    fn fewer(&mut self) {
        self.attempt(|scenario| scenario.events.clear());
        thin_out(self.best.events.len(), |range| self.attempt(|scenario| drop(scenario.events.drain(range))));
        thin_out(self.best.tasks.len(), |range| {
            self.attempt(|scenario| range.rev().for_each(|index| scenario.set_count(index, 0)))
        });
        for index in 0..self.best.tasks.len() {
            while self.best.tasks[index].count > 1
                && self.attempt(|scenario| scenario.set_count(index, scenario.tasks[index].count / 2))
            {
            }
            let count = self.best.tasks[index].count;
            for part in [count / 4, count / 8, count / 16] {
                if part > 0 {
                    self.attempt(|scenario| scenario.set_count(index, scenario.tasks[index].count - part));
                }
            }
        }
        for index in 0..self.best.events.len() {
            while self.best.events[index].times > 2
                && self.attempt(|scenario| {
                    scenario.events[index].times = scenario.events[index].times.div_ceil(2)
                })
            {}
        }
    }

    fn plainer(&mut self) {
        self.attempt(|scenario| scenario.attach_us = 0);
        for index in 0..self.best.tasks.len() {
            self.attempt(|scenario| scenario.tasks[index].policy = None);
            self.attempt(|scenario| scenario.tasks[index].nice = 0);
            self.attempt(|scenario| scenario.tasks[index].exit_us = 0);
            self.attempt(|scenario| scenario.tasks[index].cpuset = None);
            self.attempt(|scenario| scenario.tasks[index].cpus.clear());
            self.attempt(|scenario| {
                let earliest_us = index.checked_sub(1).map_or(0, |before| scenario.tasks[before].start_us);
                scenario.tasks[index].start_us = earliest_us;
            });
        }
        let unused = |scenario: &mut Scenario| {
            let Scenario { cpusets, tasks, .. } = scenario;
            cpusets.retain(|name, _| tasks.iter().any(|task| task.cpuset.as_ref() == Some(name)));
        };
        self.attempt(unused);
        // Numbers of CPUs that no other part of the scenario names.
        while self.best.cpus > 1 && self.attempt(|scenario| scenario.cpus -= 1) {}
    }
}
