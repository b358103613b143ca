//! Many seeds, several at a time, reported in their order.
use super::{Scenario, draw, shrink};
use crate::{Error, Violation};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// A seed that failed.
#[derive(Debug)]
pub struct Finding {
    pub seed: u64,
    pub violation: Violation,
    /// The shortest scenario that still does.
    pub scenario: Scenario,
}

/// Runs the scenarios of all `seeds`, `jobs` at a time. `before` is called for each one, in order,
/// before its result is waited for; `found` is called for those that fail. Returns how many failed.
pub fn fuzz<E>(
    seeds: Range<u64>,
    among: &[String],
    jobs: usize,
    mut before: impl FnMut(u64, &Scenario) -> Result<(), E>,
    mut found: impl FnMut(Finding) -> Result<(), E>,
) -> Result<u64, E> {
    let next = AtomicU64::new(seeds.start);
    let end = seeds.end;
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send((seed, try_seed(seed, among))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut failed = 0;
        for seed in seeds {
            let outcome = before(seed, &draw(seed, among)).and_then(|()| {
                let finding = loop {
                    if let Some(finding) = early.remove(&seed) {
                        break finding;
                    }
                    match results.recv() {
                        Ok((other, finding)) => drop(early.insert(other, finding)),
                        Err(_) => break None,
                    }
                };
                failed += u64::from(finding.is_some());
                finding.map_or(Ok(()), &mut found)
            });
            if let Err(error) = outcome {
                next.store(end, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(failed)
    })
}

fn try_seed(seed: u64, among: &[String]) -> Option<Finding> {
    let scenario = draw(seed, among);
    // A panic is a finding as well, and the others go on.
    let other = match std::panic::catch_unwind(|| scenario.run()) {
        Ok(Ok(_)) => return None,
        Ok(Err(Error::Violation(violation))) => {
            return Some(Finding { seed, scenario: shrink(&scenario, &violation), violation });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the simulator itself failed".to_owned(),
    };
    let violation = Violation { what: other, callback: "", task: None, at: 0 };
    Some(Finding { seed, violation, scenario })
}
