//! The same run with several values of one number, of the machine or of the command line, under several schedulers.
mod curves;
mod report;

pub use curves::{csv, svg, table};
pub use report::{Curve, Report};

use crate::output::Outcome;
use crate::workload::Workload;
use crate::{Error, Setup, Simulation};
use flsched_machine::{Machine, Setting};
use flsched_spec::{Scheduler, UsageError, number};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// The values of the number that a sweep varies: whole numbers at equal distances, the first and the last one included, or a
/// list of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Which entry of the machine's file has them, or the `{path}` of the command line in whose place they are put.
    pub path: String,
    /// In the order in which they are run.
    pub values: Vec<String>,
    /// They were listed: their distances mean nothing.
    pub is_list: bool,
}

impl Range {
    const STEPS: u64 = 10;
    const MOST_STEPS: u64 = 1000;

    /// `A..B`, `A..B:STEPS` or `V,V,…`; `None`: the setting is a value, not a range.
    pub fn of(setting: &Setting) -> Option<Result<Self, UsageError>> {
        let read = match setting.value.split_once("..") {
            Some((from, rest)) => Self::read(&setting.path, from, rest),
            None if setting.value.contains(',') => Self::list(&setting.path, &setting.value),
            None => return None,
        };
        Some(read.map_err(|e| UsageError(format!("{setting}: {e}"))))
    }

    fn list(path: &str, text: &str) -> Result<Self, UsageError> {
        let values: Vec<String> = text.split(',').map(str::to_owned).collect();
        if values.iter().any(String::is_empty) {
            return Err(UsageError("a value of the list is empty".into()));
        }
        if let Some(value) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(UsageError(format!("`{}` is listed twice", value.1)));
        }
        Ok(Self { path: path.to_owned(), values, is_list: true })
    }

    /// Whole numbers; fewer if there are not as many.
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
        let width = u128::from(to - from);
        let gaps = u128::from(steps - 1);
        let at = |step: u64| from + ((width * u128::from(step) + gaps / 2) / gaps) as u64;
        let mut values: Vec<String> = (0..steps).map(|step| at(step).to_string()).collect();
        values.dedup();
        Ok(Self { path: path.to_owned(), values, is_list: false })
    }

    /// As it stands in a text in whose place the values are put.
    pub fn placeholder(&self) -> String {
        format!("{{{}}}", self.path)
    }
}

/// What one value makes of the machine, the schedulers and the workload.
#[derive(Clone)]
pub struct Variant {
    pub machine: Arc<Machine>,
    /// In the order of the curves.
    pub schedulers: Vec<Scheduler>,
    pub workload: Arc<dyn Workload>,
}

/// A run for each value, scheduler and seed.
#[derive(Debug)]
pub struct Sweep {
    pub range: Range,
    /// Names of the schedulers, with the placeholder where the value is a setting of theirs.
    pub schedulers: Vec<String>,
    /// How many seeds, from the first one on.
    pub runs: u64,
    setups: Vec<Setup>,
}

/// A run and its result.
#[derive(Debug)]
pub struct Point {
    pub value: String,
    /// By name, with its settings.
    pub scheduler: String,
    pub outcome: Outcome,
}

/// A run that failed.
#[derive(Debug, thiserror::Error)]
#[error("{which}")]
pub struct Failure {
    which: String,
    pub source: Error,
}

impl Sweep {
    /// `variant` is called for each value before anything runs.
    ///
    /// # Errors
    /// A value is not valid.
    pub fn new<E: From<Error>>(
        range: Range,
        (seed, runs, limit): (u64, u64, crate::engine::Ns),
        variant: impl Fn(&str) -> Result<Variant, E>,
    ) -> Result<Self, E> {
        let mut setups = Vec::new();
        let mut names: Vec<Vec<String>> = Vec::new();
        for value in &range.values {
            let Variant { machine, schedulers, workload } = variant(value)?;
            workload.check(machine.nr_cpus())?;
            names.push(schedulers.iter().map(ToString::to_string).collect());
            for scheduler in schedulers {
                setups.extend((0..runs).map(|run| Setup {
                    machine: Arc::clone(&machine),
                    scheduler: scheduler.clone(),
                    workload: Arc::clone(&workload),
                    seed: seed + run,
                    limit,
                }));
            }
        }
        let schedulers = common_names(&range, &names);
        Ok(Self { range, schedulers, runs, setups })
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
        let runs = self.runs as usize;
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
                let value = &self.range.values[index / (self.schedulers.len() * runs)];
                match result {
                    Ok(outcome) => {
                        let scheduler = self.schedulers[index / runs % self.schedulers.len()].clone();
                        let point = Point { value: value.clone(), scheduler, outcome };
                        done(&point);
                        points.insert(index, point);
                    }
                    Err(source) => {
                        failed.store(true, Ordering::Relaxed);
                        next.store(self.setups.len(), Ordering::Relaxed);
                        let scheduler = &self.setups[index].scheduler;
                        let which = format!("{}={value}, under {scheduler}", self.range.path);
                        failure.get_or_insert(Failure { which, source });
                    }
                }
            }
            failure.map_or_else(|| Ok(points.into_values().collect()), Err)
        })
    }
}

/// A name for each curve: that of the scheduler, with the placeholder where its names differ by the value.
fn common_names(range: &Range, names: &[Vec<String>]) -> Vec<String> {
    let (first, last) = (&names[0], &names[names.len() - 1]);
    let value = &range.values[0];
    let common = |(first, last): (&String, &String)| match first == last {
        true => first.clone(),
        false => first.replacen(&format!("={value}"), &format!("={}", range.placeholder()), 1),
    };
    first.iter().zip(last).map(common).collect()
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
        let values = |text| range(text).unwrap().unwrap().values;
        assert_eq!(values("tick_hz=100..1000:4"), ["100", "400", "700", "1000"]);
        let ten: Vec<String> = (0..10).map(|step| (step * 10).to_string()).collect();
        assert_eq!(values("costs.switch_ns=0..90"), ten);
        assert_eq!(values("costs.switch_ns=1..3:9"), ["1", "2", "3"]);
        let last = values("costs.switch_ns=0..9223372036854775807:1000").pop().unwrap();
        assert_eq!(last, i64::MAX.to_string());
        assert!(range("costs.switch_ns=3000").is_none());
    }

    #[test]
    fn a_list_is_taken_as_it_is() {
        let list = range("kernel=2.6.38,6.18").unwrap().unwrap();
        assert_eq!(
            (list.values.as_slice(), list.is_list),
            (["2.6.38".into(), "6.18".into()].as_slice(), true)
        );
        assert!(!range("a=1..2").unwrap().unwrap().is_list);
    }

    #[test]
    fn a_setting_that_is_varied_stands_in_the_name() {
        let range = range("n=8,16").unwrap().unwrap();
        let names = |value: u32| vec!["cfs".to_owned(), format!("p:pushes={value},slice_us=8")];
        assert_eq!(common_names(&range, &[names(8), names(16)]), ["cfs", "p:pushes={n},slice_us=8"]);
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
            ("a=1,,2", "a value of the list is empty"),
            ("a=1,2,1", "`1` is listed twice"),
        ] {
            let error = range(text).unwrap().unwrap_err();
            assert!(error.starts_with(&format!("{text}: ")) && error.contains(words), "{error}");
        }
    }
}
