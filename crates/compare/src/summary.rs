//! From runs to figures: each arm's times, counts and failures, and its verdict.
use crate::digits::{seconds, significant};
use crate::execute::{Ending, Probe, RunOutcome};
use crate::plan::{Arm, Step};
use crate::residency::Residency;
use crate::result::{
    ArmResult, AttachedProof, Breakdown, Counts, Failure, FailureKind, Figure, RunProof, Values,
};
use crate::spec::CompareSpec;
use crate::stats::{Estimate, median, median_estimate, ratio_of_medians};
use crate::verdict::{Evidence, MIN_RUNS, Noise, Verdict, decide};
use std::collections::BTreeMap;

/// A run that was done.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The run's number in the order of all runs, from 1.
    pub(crate) run: usize,
    pub(crate) step: Step,
    pub(crate) outcome: RunOutcome,
}

/// The name under which an arm's results appear.
pub(crate) fn arm_name(spec: &CompareSpec, arm: &Arm) -> String {
    let again = if arm.again { " (again)" } else { "" };
    format!("{}{again}", spec.schedulers[arm.scheduler])
}

/// Figures of all records so far.
pub(crate) fn results(
    spec: &CompareSpec,
    arms: &[Arm],
    records: &[Record],
) -> (BTreeMap<String, Noise>, Vec<ArmResult>) {
    let mut noises = BTreeMap::new();
    let mut results = Vec::new();
    for (index, workload) in spec.workloads.iter().enumerate() {
        let of_arm = |arm: usize| -> Vec<&Record> {
            let here = |step: &Step| step.workload == index && step.arm == arm;
            let counts = |step: &Step| here(step) && !step.warm_up && step.probe.is_none();
            records.iter().filter(|record| counts(&record.step)).collect()
        };
        let first = times(&of_arm(0));
        let untimed_first = of_arm(0).len() - first.len();
        let again = times(&arms.iter().position(|arm| arm.again).map(of_arm).unwrap_or_default());
        // One that is left of many shows no noise.
        let enough = MIN_RUNS.min(spec.runs as usize);
        let noise = ratio(&first, &again).filter(|_| again.len() >= enough).map(Noise::new);
        noises.extend(noise.map(|noise| (workload.to_string(), noise)));
        for (number, arm) in arms.iter().enumerate() {
            let mut result = arm_result(&of_arm(number), (&first, untimed_first), noise, arm.scheduler == 0);
            result.workload = workload.to_string();
            result.time_is = workload.time_is().map(String::from);
            result.scheduler = arm_name(spec, arm);
            let watched_by = |probe: Probe| {
                let is_it = move |step: &Step| {
                    step.probe == Some(probe) && (step.workload, step.arm) == (index, number)
                };
                records.iter().find(move |record| is_it(&record.step))
            };
            if let Some(record) = watched_by(Probe::Timeline) {
                result.timeline.clone_from(&record.outcome.timeline);
                let trouble = || record.outcome.trouble().unwrap_or("the run was not recorded").to_owned();
                result.timeline_failed = result.timeline.is_none().then(trouble);
            }
            if let Some(record) = watched_by(Probe::Why) {
                match breakdown(&record.outcome, result.time_s) {
                    Ok(breakdown) => result.why = Some(breakdown),
                    Err(reason) => result.why_failed = Some(reason),
                }
            }
            results.push(result);
        }
    }
    (noises, results)
}

fn times(records: &[&Record]) -> Vec<f64> {
    records.iter().filter_map(|record| record.outcome.time_s()).map(seconds).collect()
}

/// With the digits that the report has: so its file and its verdict are the same.
fn ratio(first: &[f64], this: &[f64]) -> Option<Estimate> {
    ratio_of_medians(first, this).map(Estimate::rounded)
}

/// `first`: the times of the first scheduler, and how many of its runs have none.
fn arm_result(
    records: &[&Record],
    (first, untimed_first): (&[f64], usize),
    noise: Option<Noise>,
    is_first: bool,
) -> ArmResult {
    let times = times(records);
    let ratio = ratio(first, &times);
    let failed: Vec<Failure> = records.iter().filter_map(|record| failure(record)).collect();
    let (verdict, verdict_reason) = match is_first {
        true => (Verdict::Baseline, "the others are compared with it".to_string()),
        false => decide(&Evidence {
            ratio,
            noise,
            timed_runs: times.len().min(first.len()),
            untimed_runs: failed.len(),
            untimed_first,
        }),
    };
    let last = |of: &dyn Fn(&RunOutcome) -> bool| {
        records.iter().rev().map(|record| &record.outcome).find(|outcome| of(outcome))
    };
    ArmResult {
        workload: String::new(),
        scheduler: String::new(),
        scheduler_version: last(&|outcome| outcome.scheduler_version.is_some())
            .and_then(|outcome| outcome.scheduler_version.clone()),
        runs: records.len(),
        time_is: None,
        time_s: median_estimate(&times).map(|Estimate { value, low, high }| Figure {
            median: value,
            low,
            high,
        }),
        times_s: times,
        context_switches: counts(records, |outcome| outcome.context_switches),
        migrations: counts(records, |outcome| outcome.migrations),
        yields: counts(records, |outcome| outcome.yields),
        figures: figures(records),
        residency: Residency::sum(timed(records).filter_map(|outcome| outcome.residency.as_ref())),
        ratio_to_first: ratio.map(|ratio| ratio.value),
        ratio_to_first_low: ratio.map(|ratio| ratio.low),
        ratio_to_first_high: ratio.map(|ratio| ratio.high),
        verdict,
        verdict_reason,
        ejected: failed.iter().filter(|failure| failure.kind == FailureKind::Ejected).count(),
        failed,
        attached_proof: AttachedProof {
            verified: records.iter().filter(|record| record.outcome.proof.holds).count(),
            of: records.len(),
            runs: records
                .iter()
                .map(|record| RunProof { run: record.run, proof: record.outcome.proof.clone() })
                .collect(),
        },
        stats: last(&|outcome| !outcome.stats.is_empty())
            .map(|outcome| outcome.stats.iter().cloned().collect())
            .unwrap_or_default(),
        why: None,
        why_failed: None,
        timeline: None,
        timeline_failed: None,
    }
}

fn breakdown(outcome: &RunOutcome, usual: Option<Figure>) -> Result<Breakdown, String> {
    let nothing = || outcome.trouble().unwrap_or("the run gave none").to_string();
    let time_s = outcome.time_s().ok_or_else(nothing)?;
    let why = outcome.why.clone().ok_or_else(nothing)?;
    let usual = usual.map(|usual| usual.median).filter(|median| *median > 0.0);
    Ok(Breakdown { time_s, longer_percent: usual.map(|usual| 100.0 * (time_s / usual - 1.0)), why })
}

fn timed<'a>(records: &'a [&Record]) -> impl Iterator<Item = &'a RunOutcome> + Clone {
    records.iter().map(|it| &it.outcome).filter(|outcome| outcome.time_s().is_some())
}

/// Only of runs with a time: in other runs the scheduler was not in force, or the work is not
/// complete.
fn counts(records: &[&Record], of: impl Fn(&RunOutcome) -> Option<u64>) -> Option<Counts> {
    let values: Vec<u64> = records
        .iter()
        .filter(|record| record.outcome.time_s().is_some())
        .filter_map(|record| of(&record.outcome))
        .collect();
    let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    median(&floats).map(|median| Counts { median, values })
}

/// Only of runs with a time, like the counts; in the workload's order.
fn figures(records: &[&Record]) -> Vec<Values> {
    let names = timed(records).next().map_or(&[][..], |first| &first.figures);
    let figure = |name: &String| {
        let of_run =
            |outcome: &RunOutcome| outcome.figures.iter().find(|(other, _)| other == name).map(|it| it.1);
        let values: Vec<f64> = timed(records).filter_map(of_run).map(significant).collect();
        median(&values).map(|median| Values { name: name.clone(), median, values })
    };
    names.iter().filter_map(|(name, _)| figure(name)).collect()
}

fn failure(record: &Record) -> Option<Failure> {
    let (kind, reason) = match &record.outcome.ending {
        Ending::Timed { .. } => return None,
        Ending::Ejected { reason } => (FailureKind::Ejected, reason),
        Ending::Failed { reason } => (FailureKind::Failed, reason),
        Ending::Hung { reason } => (FailureKind::Hung, reason),
        Ending::NotTried { reason } => (FailureKind::NotTried, reason),
    };
    Some(Failure { run: record.run, kind, reason: reason.clone() })
}
