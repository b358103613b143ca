//! The results of a sweep as data, from which its table and its picture are made.
use super::{Point, Sweep};
use flsched_base::reports::Kept;
use serde::{Deserialize, Serialize};

/// A sweep that is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub flsched_version: String,
    /// What was typed, without the files that were written.
    pub command_line: String,
    /// With the settings that all runs share.
    pub machine: String,
    /// As it was given, with the placeholder where it has one.
    pub workload: String,
    /// Which number was varied.
    pub setting: String,
    /// Its values were listed: their distances mean nothing.
    pub is_list: bool,
    pub values: Vec<String>,
    /// The first seed; a run has the next one.
    pub seed: u64,
    /// Seeds of each value and scheduler.
    pub runs: u64,
    /// One for each scheduler.
    pub curves: Vec<Curve>,
}

/// The results of one scheduler: for each value one number a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Its name, with its settings.
    pub scheduler: String,
    /// In seconds.
    pub times_s: Vec<Vec<f64>>,
    /// Of the measured part or the whole run, as in other reports.
    pub context_switches: Vec<Vec<u64>>,
    pub migrations: Vec<Vec<u64>>,
}

impl Kept for Report {
    const KIND: &'static str = "sweep";
    const VERSION: u32 = 2;
}

impl Report {
    /// From all points of the sweep. Those who call add the first fields.
    pub fn new(sweep: &Sweep, points: &[Point], seed: u64) -> Self {
        let runs = sweep.runs as usize;
        let per_value = sweep.schedulers.len() * runs;
        let curve = |(index, scheduler): (usize, &String)| {
            let own = |value: usize| &points[value * per_value + index * runs..][..runs];
            let of = |figure: fn(&Point) -> u64| {
                (0..sweep.range.values.len()).map(|at| own(at).iter().map(figure).collect()).collect()
            };
            Curve {
                scheduler: scheduler.clone(),
                times_s: (0..sweep.range.values.len())
                    .map(|at| own(at).iter().map(|point| point.outcome.time_s).collect())
                    .collect(),
                context_switches: of(|point| point.outcome.context_switches),
                migrations: of(|point| point.outcome.migrations),
            }
        };
        Self {
            flsched_version: String::new(),
            command_line: String::new(),
            machine: String::new(),
            workload: String::new(),
            setting: sweep.range.path.clone(),
            is_list: sweep.range.is_list,
            values: sweep.range.values.clone(),
            seed,
            runs: sweep.runs,
            curves: sweep.schedulers.iter().enumerate().map(curve).collect(),
        }
    }

    /// The curve of this scheduler.
    pub fn curve(&self, scheduler: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.scheduler == scheduler)
    }
}

impl Curve {
    /// The median over the runs with this value, the least and the most.
    pub fn at(&self, value: usize) -> (f64, f64, f64) {
        let mut times = self.times_s[value].clone();
        times.sort_by(f64::total_cmp);
        let middle = times.len() / 2;
        let median =
            if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2.0 };
        (median, times[0], times[times.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_median_of_its_runs() {
        let curve = |times: &[f64]| Curve {
            scheduler: "cfs".into(),
            times_s: vec![times.to_vec()],
            context_switches: vec![],
            migrations: vec![],
        };
        assert_eq!(curve(&[3.0, 1.0, 2.0]).at(0), (2.0, 1.0, 3.0));
        assert_eq!(curve(&[4.0, 1.0]).at(0), (2.5, 1.0, 4.0));
    }
}
