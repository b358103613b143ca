//! The same run with several values of one number of the machine, under several schedulers.
mod curves;

pub use curves::{csv, svg, table};

use crate::output::Outcome;
use crate::workload::Workload;
use crate::{Error, Setup, Simulation};
use flsched_machine::Setting;
use flsched_spec::{Scheduler, UsageError, number};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// Values from the first to the last one, both included, at equal distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Which entry of the machine's file has them.
    pub path: String,
    from: u64,
    to: u64,
    steps: u64,
}

impl Range {
    const STEPS: u64 = 10;
    const MOST_STEPS: u64 = 1000;

    /// `A..B` or `A..B:STEPS`; `None`: the setting is a value, not a range.
    pub fn of(setting: &Setting) -> Option<Result<Self, UsageError>> {
        let (from, rest) = setting.value.split_once("..")?;
        Some(Self::read(&setting.path, from, rest).map_err(|e| UsageError(format!("{setting}: {e}"))))
    }

    fn read(path: &str, from: &str, rest: &str) -> Result<Self, UsageError> {
        let (to, steps) = match rest.split_once(':') {
            Some((to, steps)) => (to, number("STEPS", steps, 2..=Self::MOST_STEPS)?),
            None => (rest, Self::STEPS),
        };
        let from = number("the first value", from, 0..=i64::MAX as u64)?;
        let to = number("the last value", to, 0..=i64::MAX as u64)?;
        if from >= to {
            return Err(UsageError(format!("the first value, {from}, is not less than the last one, {to}")));
        }
        Ok(Self { path: path.to_owned(), from, to, steps })
    }

    /// Whole numbers; fewer if there are not as many.
    pub fn values(&self) -> Vec<u64> {
        let width = u128::from(self.to - self.from);
        let gaps = u128::from(self.steps - 1);
        let at = |step: u64| self.from + ((width * u128::from(step) + gaps / 2) / gaps) as u64;
        let mut values: Vec<u64> = (0..self.steps).map(at).collect();
        values.dedup();
        values
    }
}

/// What is run: each value with each scheduler.
#[derive(Debug)]
pub struct Sweep {
    /// The values.
    pub range: Range,
    /// The schedulers.
    pub schedulers: Vec<Scheduler>,
    /// The first run; the others differ in the machine and the scheduler.
    setups: Vec<Setup>,
}

/// A run and its result.
#[derive(Debug)]
pub struct Point {
    /// Of the range.
    pub value: u64,
    /// By name, with its settings.
    pub scheduler: String,
    /// Its result.
    pub outcome: Outcome,
}

/// A run that failed.
#[derive(Debug, thiserror::Error)]
#[error("{which}")]
pub struct Failure {
    which: String,
    /// Why.
    pub source: Error,
}

impl Sweep {
    /// `machine` is called for each value before anything runs.
    ///
    /// # Errors
    /// A value is not valid for the machine.
    pub fn new(
        range: Range,
        schedulers: Vec<Scheduler>,
        workload: &Arc<dyn Workload>,
        (seed, limit): (u64, crate::engine::Ns),
        machine: impl Fn(Setting) -> Result<flsched_machine::Machine, flsched_machine::Error>,
    ) -> Result<Self, Error> {
        let mut setups = Vec::new();
        for value in range.values() {
            let machine = Arc::new(machine(setting(&range, value))?);
            workload.check(machine.nr_cpus())?;
            setups.extend(schedulers.iter().map(|scheduler| Setup {
                machine: Arc::clone(&machine),
                scheduler: scheduler.clone(),
                workload: Arc::clone(workload),
                seed,
                limit,
            }));
        }
        Ok(Self { range, schedulers, setups })
    }

    /// The number of runs.
    pub fn count(&self) -> usize {
        self.setups.len()
    }

    /// Runs all, `jobs` at a time, which does not change the result, or until `stop` is set. `done` is called after
    /// each run, in any order.
    ///
    /// # Errors
    /// The first run that fails ends all.
    pub fn run(
        &self,
        jobs: usize,
        stop: &Arc<AtomicBool>,
        mut done: impl FnMut(&Point),
    ) -> Result<Vec<Point>, Failure> {
        let values = self.range.values();
        let next = AtomicUsize::new(0);
        let failed = Arc::new(AtomicBool::new(false));
        let (sender, results) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                let (sender, next, failed) = (sender.clone(), &next, &failed);
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(setup) = self.setups.get(index) else { return };
                        let (stop, failed) = (Arc::clone(stop), Arc::clone(failed));
                        let ends = move || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
                        let result = Simulation::new(setup.clone()).and_then(|it| it.stop_if(ends).run());
                        if sender.send((index, result)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut points = BTreeMap::new();
            let mut failure = None;
            for (index, result) in results {
                let scheduler = self.setups[index].scheduler.to_string();
                let value = values[index / self.schedulers.len()];
                match result {
                    Ok(outcome) => {
                        let point = Point { value, scheduler, outcome };
                        done(&point);
                        points.insert(index, point);
                    }
                    Err(source) => {
                        failed.store(true, Ordering::Relaxed);
                        next.store(self.setups.len(), Ordering::Relaxed);
                        let which = format!("{}, under {scheduler}", setting(&self.range, value));
                        failure.get_or_insert(Failure { which, source });
                    }
                }
            }
            failure.map_or_else(|| Ok(points.into_values().collect()), Err)
        })
    }
}

fn setting(range: &Range, value: u64) -> Setting {
    Setting { path: range.path.clone(), value: value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Option<Result<Range, String>> {
        let setting: Setting = text.parse().unwrap();
        Range::of(&setting).map(|range| range.map_err(|error| error.to_string()))
    }

    #[test]
    fn ranges_have_both_ends_and_equal_distances() {
        let values = |text| range(text).unwrap().unwrap().values();
        assert_eq!(values("tick_hz=100..1000:4"), [100, 400, 700, 1000]);
        assert_eq!(values("costs.switch_ns=0..90"), [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert_eq!(values("costs.switch_ns=1..3:9"), [1, 2, 3]);
        let last = *values("costs.switch_ns=0..9223372036854775807:1000").last().unwrap();
        assert_eq!(last, i64::MAX as u64);
        assert!(range("costs.switch_ns=3000").is_none());
    }

    #[test]
    fn bad_ranges_are_refused_with_what_is_wrong() {
        for (text, words) in [
            ("a=5..5", "the first value, 5, is not less than the last one, 5"),
            ("a=..5", "the first value: `` is not a whole number"),
            ("a=1..", "the last value: `` is not a whole number"),
            ("a=1..x", "the last value: `x`"),
            ("a=1..5:1", "STEPS: `1` is not a whole number from 2 to 1000"),
            ("a=1..5:", "STEPS: ``"),
            ("a=-1..5", "the first value: `-1`"),
        ] {
            let error = range(text).unwrap().unwrap_err();
            assert!(error.starts_with(&format!("{text}: ")) && error.contains(words), "{error}");
        }
    }
}
