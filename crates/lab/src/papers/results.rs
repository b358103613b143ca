//! Result files, and the figures that rows take from them.
use crate::papers::paper::{Measurement, Paper, Source};
use crate::papers::reading::{OfFunction, OfLocks, OfRun, Reading, Taken};
use flsched_base::reports::{self, Kept, Unreadable};
use flsched_compare::report::words;
use flsched_compare::result::ArmResult;
use flsched_compare::stats::{Estimate, median_estimate, ratio_of_medians};
use flsched_compare::{Clock, Report, Scheduler};
use flsched_probes::costs::Cost;
use flsched_probes::{CostsReport, LocksReport, SourceLocks};
use glob::Pattern;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The folder of published reports, under the project's.
const PUBLISHED: &str = "results";

/// In place of a clock, where nothing runs.
pub const SOURCE: &str = "source";

/// What `flsched sim` found, with the command line that it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// With `flsched` before the words.
    pub command_line: String,
    /// The version of the program that ran it.
    pub flsched_version: String,
    /// All that `sim --json` prints.
    pub outcome: serde_json::Value,
}

/// What `flsched-lab locks --source --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountedInSource {
    /// With the program before the words: `flsched`, in results from before flsched-lab had the command.
    pub command_line: String,
    /// The places in each part.
    pub counted: SourceLocks,
}

impl Kept for Simulated {
    const KIND: &'static str = "simulation";
    const VERSION: u32 = 2;
}

impl Kept for CountedInSource {
    const KIND: &'static str = "source-locks";
    const VERSION: u32 = 2;
}

#[derive(Debug)]
pub enum Found {
    /// Of `flsched compare`.
    Compared(Box<Report>),
    /// Of `flsched sim`.
    Simulated(Box<Simulated>),
    /// Of `flsched-lab costs`.
    Costs(Box<CostsReport>),
    /// Of `flsched-lab locks`.
    Locks(Box<LocksReport>),
    /// Of `flsched-lab locks --source`.
    Source(Box<CountedInSource>),
}

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// There is no result, or the scheduler took no part in it.
    Missing(String),
    Failed(String),
    /// The row needs what such a result never has.
    Wrong(String),
}

/// Reads each file once.
#[derive(Debug)]
pub struct Results {
    root: PathBuf,
    read: RefCell<BTreeMap<PathBuf, Result<Rc<Found>, Gap>>>,
}

impl Found {
    /// From a file's bytes. The error continues a sentence that begins with the name of the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        fn boxed<T: Kept>(bytes: &[u8]) -> Result<Box<T>, Unreadable> {
            reports::read(bytes).map(Box::new)
        }
        let kind = reports::kind_of(bytes).map_err(|what| what.to_string())?;
        let found = match kind.as_deref() {
            Some(Simulated::KIND) => boxed(bytes).map(Self::Simulated),
            Some(CostsReport::KIND) => boxed(bytes).map(Self::Costs),
            Some(CountedInSource::KIND) => boxed(bytes).map(Self::Source),
            Some(LocksReport::KIND) => boxed(bytes).map(Self::Locks),
            // Those of version 1 have no kind.
            Some(Report::KIND) | None => boxed(bytes).map(Self::Compared),
            Some(other) => {
                return Err(format!("is a report of kind `{other}`, of which no row takes figures"));
            }
        };
        match found {
            Ok(Self::Compared(report)) if !report.complete => Err("is not complete".into()),
            found => found.map_err(|what| what.to_string()),
        }
    }

    /// The clock, without its settings.
    pub fn clock(&self) -> String {
        match self {
            Self::Compared(report) => report.clock.to_string(),
            Self::Simulated(_) => Clock::Model.to_string(),
            Self::Costs(report) => plain_clock(report.machine.clock.as_deref()),
            Self::Locks(report) => plain_clock(report.machine.clock.as_deref()),
            Self::Source(_) => SOURCE.into(),
        }
    }

    /// The machine: what it models, or which kernel, and how many CPUs.
    pub fn machine(&self) -> String {
        let of = |kernel: &str, cpus: usize| format!("kernel {kernel}, {cpus} CPUs");
        let model = |name: &str, cpus: u64| format!("{name}, {cpus} CPUs");
        match self {
            Self::Compared(report) => match &report.environment.model {
                Some(name) => model(name, report.cpus.into()),
                None => of(&report.kernel, report.cpus as usize),
            },
            Self::Simulated(it) => {
                let name = it.outcome["machine"].as_str().unwrap_or_default();
                model(name, it.outcome["cpus"].as_u64().unwrap_or_default())
            }
            Self::Costs(report) => of(&report.machine.kernel, report.machine.cpus),
            Self::Locks(report) => of(&report.machine.kernel, report.machine.cpus),
            Self::Source(it) => format!("kernel {}", it.counted.source_of),
        }
    }

    /// The version of flsched that measured.
    pub fn version(&self) -> &str {
        match self {
            Self::Compared(report) => &report.flsched_version,
            Self::Simulated(it) => &it.flsched_version,
            Self::Costs(report) => &report.policy_version,
            Self::Locks(report) => &report.policy_version,
            Self::Source(it) => &it.counted.version,
        }
    }

    /// Whether that scheduler took part, as the one that was measured and not only for comparison.
    pub fn is_about(&self, scheduler: &str) -> bool {
        let wanted = normal(scheduler);
        let is_it = |name: &str| normal(name) == wanted;
        match self {
            Self::Compared(report) => report.results.iter().any(|it| is_it(&it.scheduler)),
            Self::Simulated(it) => it.outcome["scheduler"].as_str().is_some_and(is_it),
            Self::Costs(report) => is_it(&report.policy),
            Self::Locks(report) => is_it(&report.policy),
            Self::Source(_) => false,
        }
    }

    fn command_line(&self) -> Option<&str> {
        match self {
            Self::Compared(report) => Some(&report.command_line),
            Self::Simulated(it) => Some(&it.command_line),
            Self::Source(it) => Some(&it.command_line),
            Self::Costs(_) | Self::Locks(_) => None,
        }
    }

    /// Whether this measurement, as it is described now, has produced it.
    pub fn is_of(&self, measurement: &Measurement) -> bool {
        let words = |line: &str| shell_words::split(line).ok();
        let produced = self.command_line().and_then(words);
        // Whichever program had the command then.
        produced.is_some_and(|it| measurement.words().is_ok_and(|words| it.get(1..) == Some(&words[..])))
    }
}

fn plain_clock(clock: Option<&str>) -> String {
    clock.map_or("wall", |clock| clock.split(':').next().unwrap_or(clock)).to_string()
}

impl Results {
    /// Of the project in this folder.
    pub fn new(root: &Path) -> Self {
        Self { root: root.into(), read: RefCell::default() }
    }

    /// The result of a row's source.
    pub fn get(&self, paper: &Paper, source: &Source) -> Result<Rc<Found>, Gap> {
        match source {
            Source::Own(index) => self.own(&paper.measurements[*index]),
            Source::Published(name) => {
                let remedy = || format!("`flsched-lab measure --only {name}` makes it");
                self.read(&Path::new(PUBLISHED).join(name), &remedy)
            }
        }
    }

    /// The result of a measurement, unless a different command produced it.
    pub fn own(&self, measurement: &Measurement) -> Result<Rc<Found>, Gap> {
        let found = self.read(&measurement.file, &|| "not measured yet".into())?;
        match found.is_of(measurement) {
            true => Ok(found),
            false => Err(Gap::Missing(format!(
                "{} was produced by a different command",
                measurement.file.display()
            ))),
        }
    }

    fn read(&self, path: &Path, missing: &dyn Fn() -> String) -> Result<Rc<Found>, Gap> {
        let read = || match std::fs::read(self.root.join(path)) {
            Ok(bytes) => Found::parse(&bytes).map(Rc::new).map_err(|what| {
                Gap::Wrong(format!("{} {what}; delete it to measure it again", path.display()))
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Gap::Missing(missing())),
            Err(error) => Err(Gap::Wrong(format!("cannot read {}: {error}", path.display()))),
        };
        self.read.borrow_mut().entry(path.to_path_buf()).or_insert_with(read).clone()
    }
}

/// The figure that these words take from these results.
pub fn take(taken: &Taken, from: &[Rc<Found>]) -> Result<Estimate, Gap> {
    let figures = read(taken.reading(), from)?;
    let share = |count: usize| Estimate::exact(100.0 * count as f64 / figures.len() as f64);
    let none = || Gap::Missing(format!("no result has `{}`", taken.reading()));
    match taken {
        Taken::One(reading) => match figures[..] {
            [figure] => Ok(figure),
            [] => Err(none()),
            _ => Err(Gap::Wrong(format!("`{reading}` matches {} workloads", figures.len()))),
        },
        _ if figures.is_empty() => Err(none()),
        // By the near ends of the intervals: else the one that differs most between runs would be chosen.
        Taken::Largest(_) => figures.into_iter().max_by(|a, b| a.low.total_cmp(&b.low)).ok_or_else(none),
        Taken::Smallest(_) => figures.into_iter().min_by(|a, b| a.high.total_cmp(&b.high)).ok_or_else(none),
        Taken::CountAbove(limit, _) => {
            Ok(Estimate::exact(figures.iter().filter(|it| it.value > *limit).count() as f64))
        }
        Taken::ShareAbove(limit, _) => Ok(share(figures.iter().filter(|it| it.value > *limit).count())),
        Taken::ShareBelow(limit, _) => Ok(share(figures.iter().filter(|it| it.value < *limit).count())),
    }
}

/// All figures that match, of all results.
fn read(reading: &Reading, from: &[Rc<Found>]) -> Result<Vec<Estimate>, Gap> {
    match reading {
        Reading::Run { quantity, scheduler, over, workload, base } => {
            let pattern = |text: &str| {
                Pattern::new(text).map_err(|error| Gap::Wrong(format!("`{reading}`: {}", error.msg)))
            };
            let runs = matching(from, &pattern(workload)?);
            let Some(base) = base else {
                let figure = |(report, name)| of_run(report, name, quantity, scheduler, over.as_deref());
                return runs.into_iter().map(figure).collect();
            };
            let bases = matching(from, &pattern(base)?);
            let ([(report, name)], [(base_report, base_name)]) = (&runs[..], &bases[..]) else {
                let (runs, bases) = (runs.len(), bases.len());
                return Err(Gap::Wrong(format!("`{reading}` matches {runs} and {bases} workloads")));
            };
            let first = values(report, name, quantity, scheduler)?;
            let second = values(base_report, base_name, quantity, scheduler)?;
            let zero = || Gap::Failed(format!("{quantity} of {scheduler} on {base_name} is 0"));
            Ok(vec![ratio_of_medians(&first, &second).ok_or_else(zero)?])
        }
        Reading::Function { quantity, function, scheduler, over } => {
            let Some(over) = over else {
                return of_function(from, *quantity, function, scheduler).map(|it| vec![it]);
            };
            let same =
                from.iter().find(|it| of_costs(it, scheduler).is_some() && of_costs(it, over).is_some());
            let from = same.map_or(from, std::slice::from_ref);
            let first = of_function(from, *quantity, function, scheduler)?;
            let other = of_function(from, *quantity, function, over)?;
            let ratio = ratio_of_medians(&[first.value], &[other.value]);
            ratio
                .map(|it| vec![it])
                .ok_or_else(|| Gap::Failed(format!("{function} was not called under both")))
        }
        Reading::Locks { quantity, scheduler } => of_locks(from, *quantity, scheduler).map(|it| vec![it]),
        Reading::Places { part } => in_source(from, part).map(|it| vec![it]),
    }
}

/// The workloads of all comparisons that match.
fn matching<'a>(from: &'a [Rc<Found>], pattern: &Pattern) -> Vec<(&'a Report, &'a str)> {
    let names = |report: &'a Report| words::workloads(report).into_iter().map(move |name| (report, name));
    let all = from.iter().filter_map(compared).flat_map(names);
    all.filter(|(_, name)| pattern.matches(name)).collect()
}

fn compared(found: &Rc<Found>) -> Option<&Report> {
    match &**found {
        Found::Compared(report) => Some(report),
        _ => None,
    }
}

fn of_run(
    report: &Report,
    workload: &str,
    quantity: &OfRun,
    scheduler: &str,
    over: Option<&str>,
) -> Result<Estimate, Gap> {
    let quantity_here = if *quantity == OfRun::Gain { &OfRun::Time } else { quantity };
    let one = values(report, workload, quantity_here, scheduler)?;
    let estimate = match over {
        None => median_estimate(&one),
        Some(over) => {
            let other = values(report, workload, quantity_here, over)?;
            match quantity {
                // As much work in less time.
                OfRun::Gain => ratio_of_medians(&other, &one).map(percent),
                _ => ratio_of_medians(&one, &other),
            }
        }
    };
    estimate.ok_or_else(|| Gap::Failed(format!("{quantity} of {scheduler} on {workload} is 0")))
}

fn percent(of: Estimate) -> Estimate {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    Estimate { value: percent(of.value), low: percent(of.low), high: percent(of.high) }
}

fn values(report: &Report, workload: &str, quantity: &OfRun, scheduler: &str) -> Result<Vec<f64>, Gap> {
    let name = normal(scheduler);
    let is_it = |it: &&ArmResult| it.workload == workload && normal(&it.scheduler) == name;
    let Some(arm) = report.results.iter().find(is_it) else {
        return Err(Gap::Missing(format!("{scheduler} took no part in it")));
    };
    if let Some(failure) = arm.failed.first() {
        let (failed, runs) = (arm.failed.len(), arm.runs);
        let reason = &failure.reason;
        return Err(Gap::Failed(format!(
            "{scheduler} on {workload}: {failed} of {runs} runs failed ({reason})"
        )));
    }
    let counts = |counts: &Option<flsched_compare::result::Counts>| {
        counts.as_ref().map(|it| it.values.iter().map(|value| *value as f64).collect::<Vec<_>>())
    };
    let found = match quantity {
        OfRun::Time | OfRun::Gain => Some(arm.times_s.clone()),
        OfRun::Switches => counts(&arm.context_switches),
        OfRun::Migrations => counts(&arm.migrations),
        OfRun::Yields => counts(&arm.yields),
        OfRun::SpinPercent => arm.why.as_ref().map(|it| vec![it.why.lock_waits]),
        OfRun::Own(name) => arm.figures.iter().find(|it| it.name == *name).map(|it| it.values.clone()),
    };
    found.ok_or_else(|| Gap::Wrong(format!("{scheduler} on {workload} has no `{quantity}`")))
}

/// As reports spell it.
fn normal(scheduler: &str) -> String {
    scheduler.parse::<Scheduler>().map_or_else(|_| scheduler.to_string(), |it| it.to_string())
}

fn of_function(
    from: &[Rc<Found>],
    quantity: OfFunction,
    function: &str,
    scheduler: &str,
) -> Result<Estimate, Gap> {
    let wanted = normal(scheduler);
    let mut known = false;
    for found in from {
        let (call, run_s) = match &**found {
            Found::Simulated(it)
                if it.outcome["scheduler"].as_str().map(normal).as_deref() == Some(&wanted) =>
            {
                (simulated_call(&it.outcome, function), it.outcome["time_s"].as_f64())
            }
            _ => match of_costs(found, &wanted) {
                Some((report, of_policy)) => {
                    (measured_call(report, function, of_policy), Some(report.run_s[usize::from(of_policy)]))
                }
                None => continue,
            },
        };
        known = true;
        let Some((calls, total_ns)) = call else { continue };
        let value = match quantity {
            OfFunction::Calls => calls,
            OfFunction::TotalMs => total_ns / 1e6,
            OfFunction::SharePercent => {
                let none = || Gap::Missing("the run's time was not measured".into());
                100.0 * total_ns / 1e9 / run_s.ok_or_else(none)?
            }
            OfFunction::MeanNs if calls == 0.0 => {
                return Err(Gap::Failed(format!("{function} was not called under {scheduler}")));
            }
            OfFunction::MeanNs => total_ns / calls,
        };
        return Ok(Estimate::exact(value));
    }
    match known {
        true => Err(Gap::Missing(format!("{function} was not measured under {scheduler}"))),
        false => Err(Gap::Missing(format!("{scheduler} took no part in it"))),
    }
}

/// Costs in which that scheduler took part, and whether as the policy.
fn of_costs<'a>(found: &'a Found, scheduler: &str) -> Option<(&'a CostsReport, bool)> {
    let Found::Costs(report) = found else { return None };
    let wanted = normal(scheduler);
    let of_policy = normal(&report.policy) == wanted;
    (of_policy || wanted == "eevdf").then_some((report, of_policy))
}

/// Calls, and their total time in ns.
fn simulated_call(outcome: &serde_json::Value, function: &str) -> Option<(f64, f64)> {
    let call = outcome["callbacks"].as_array()?.iter().find(|it| it["name"] == function)?;
    Some((call["calls"].as_f64()?, call["ns"].as_f64()?))
}

fn measured_call(report: &CostsReport, function: &str, of_policy: bool) -> Option<(f64, f64)> {
    let found = report.functions.iter().find(|it| it.role == function)?;
    match if of_policy { &found.scx } else { &found.fair } {
        Cost::Measured { calls, mean_ns, .. } => Some((*calls as f64, *calls as f64 * mean_ns)),
        Cost::Absent | Cost::NotTraceable { .. } => None,
    }
}

fn in_source(from: &[Rc<Found>], part: &str) -> Result<Estimate, Gap> {
    let counted = from.iter().find_map(|found| match &**found {
        Found::Source(it) => it.counted.part(part),
        _ => None,
    });
    let counted = counted.ok_or_else(|| Gap::Missing(format!("no count has a part `{part}`")))?;
    Ok(Estimate::exact(counted.total() as f64))
}

fn of_locks(from: &[Rc<Found>], quantity: OfLocks, scheduler: &str) -> Result<Estimate, Gap> {
    let wanted = normal(scheduler);
    for found in from {
        let Found::Locks(report) = &**found else { continue };
        let value = match quantity {
            OfLocks::Locks if normal(&report.policy) == wanted => {
                report.anatomy.callbacks.iter().map(|it| it.own_locks.len()).sum::<usize>() as f64
            }
            OfLocks::Locks => continue,
            OfLocks::SpinPercent => match report.schedulers.iter().find(|it| normal(&it.scheduler) == wanted)
            {
                Some(it) => it.waits.spin_cpu_percent,
                None => continue,
            },
        };
        return Ok(Estimate::exact(value));
    }
    Err(Gap::Missing(format!("{scheduler} took no part in it")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A comparison on the model clock: workload, scheduler, times.
    pub(crate) fn comparison(command: &str, of: &[(&str, &str, &[f64])]) -> serde_json::Value {
        let results: Vec<_> = of
            .iter()
            .map(|(workload, scheduler, times)| {
                let failed: &[serde_json::Value] = match times.is_empty() {
                    true => &[json!({"run": 1, "kind": "hung", "reason": "no end within 300 s of real time"})],
                    false => &[],
                };
                json!({
                    "workload": workload, "scheduler": scheduler, "scheduler_version": null, "runs": times.len().max(1),
                    "time_is": null, "time_s": null, "times_s": times,
                    "context_switches": { "median": 10.0, "values": vec![10; times.len()] },
                    "migrations": null, "yields": null,
                    "figures": [{ "name": "lock_wait_percent", "median": 2.5, "values": vec![2.5; times.len()] }],
                    "ratio_to_first": null, "ratio_to_first_low": null, "ratio_to_first_high": null,
                    "verdict": "can't tell", "verdict_reason": "", "ejected": 0, "failed": failed,
                    "attached_proof": { "verified": 0, "of": 0, "runs": [] }, "stats": {},
                })
            })
            .collect();
        let model = Some("knc-31s1p".into());
        let environment = flsched_compare::environment::Environment { model, ..Default::default() };
        json!({
            "kind": Report::KIND, "version": Report::VERSION, "flsched_version": "0.1.0", "clock": "model", "kernel": "6.18, modelled",
            "cpus": 228, "seed": 1, "runs": 3, "on": "sim", "complete": true, "started_at": "", "duration_s": 0.0,
            "command_line": format!("flsched {command}"), "limit_s": 300.0, "warnings": [],
            "environment": environment, "noise": {}, "published": {}, "results": results,
        })
    }

    /// What `enqueue_task` costs under EEVDF and under a policy.
    pub(crate) fn costs(policy: &str, fair_ns: f64, scx_ns: f64) -> serde_json::Value {
        let cost = |mean_ns: f64| json!({ "state": "measured", "symbol": "f", "calls": 10, "mean_ns": mean_ns, "median_ns": 1.0 });
        json!({
            "kernel": "6.18.15", "cpus": 4, "clock": "parallel", "command": "true", "policy": policy,
            "policy_version": "0.1.0", "kind": CostsReport::KIND, "version": CostsReport::VERSION, "probe": { "inside_ns": 1.0, "whole_ns": 2.0 },
            "run_s": [1.0, 2.0], "probed_run_s": [1.0, 2.0], "callbacks": [],
            "functions": [{ "role": "enqueue_task", "fair": cost(fair_ns), "scx": cost(scx_ns) }],
        })
    }

    fn found(value: &serde_json::Value) -> Rc<Found> {
        Rc::new(Found::parse(value.to_string().as_bytes()).unwrap())
    }

    fn taken(text: &str, from: &[Rc<Found>]) -> Result<f64, Gap> {
        take(&Taken::One(Reading::parse(text).unwrap()), from).map(|it| it.value)
    }

    #[test]
    fn takes_figures_of_comparisons() {
        let report = found(&comparison(
            "x",
            &[
                ("hogs:1:1", "cfs", &[2.0, 3.0, 4.0]),
                ("hogs:1:1", "flsched_paper", &[1.5]),
                ("hogs:2:1", "cfs", &[8.0]),
                ("hogs:2:1", "flsched_paper", &[2.0]),
                ("npb:ep:4", "fifo", &[]),
            ],
        ));
        let from = [report];
        assert_eq!(taken("time of cfs on hogs:1:1", &from), Ok(3.0));
        // Both spellings are the same scheduler.
        assert_eq!(taken("time of cfs over flsched_paper on hogs:1:*", &from), Ok(2.0));
        assert_eq!(taken("gain of flsched_paper over cfs on hogs:1:1", &from), Ok(100.0));
        assert_eq!(taken("switches of cfs on hogs:2:1", &from), Ok(10.0));
        assert_eq!(taken("time of cfs on hogs:2:* over hogs:1:*", &from), Ok(8.0 / 3.0));
        assert!(matches!(taken("time of cfs on hogs:2:* over hogs:*", &from), Err(Gap::Wrong(_))));
        assert_eq!(taken("lock_wait_percent of cfs on hogs:2:1", &from), Ok(2.5));
        assert_eq!(taken("time of rr on hogs:1:1", &from), Err(Gap::Missing("rr took no part in it".into())));
        assert!(matches!(taken("time of cfs on hogs:*", &from), Err(Gap::Wrong(_))));
        assert!(matches!(taken("p99 of cfs on hogs:2:1", &from), Err(Gap::Wrong(_))));
        assert!(matches!(taken("time of cfs on make", &from), Err(Gap::Missing(_))));
        let failed = taken("time of fifo on npb:ep:4", &from).unwrap_err();
        let words = "fifo on npb:ep:4: 1 of 1 runs failed (no end within 300 s of real time)";
        assert_eq!(failed, Gap::Failed(words.into()));
        let reading = Reading::parse("time of cfs over flsched_paper on hogs:*").unwrap();
        let of = |taken: Taken| take(&taken, &from).unwrap().value;
        assert_eq!(of(Taken::Largest(reading.clone())), 4.0);
        assert_eq!(of(Taken::Smallest(reading.clone())), 2.0);
        assert_eq!(of(Taken::CountAbove(2.0, reading.clone())), 1.0);
        assert_eq!(of(Taken::ShareAbove(2.0, reading.clone())), 50.0);
        assert_eq!(of(Taken::ShareBelow(5.0, reading)), 100.0);
    }

    #[test]
    fn chance_is_not_the_largest() {
        let report = found(&comparison(
            "x",
            &[
                ("hogs:1:1", "cfs", &[3.0, 3.1, 3.2]),
                ("hogs:2:1", "cfs", &[1.0, 9.0, 9.0]),
                ("hogs:3:1", "cfs", &[0.5, 0.5, 4.0]),
                ("hogs:4:1", "cfs", &[0.6, 0.6, 0.6]),
            ],
        ));
        let reading = Reading::parse("time of cfs on hogs:*").unwrap();
        let of = |taken: Taken| take(&taken, std::slice::from_ref(&report)).unwrap().value;
        assert_eq!(of(Taken::Largest(reading.clone())), 3.1);
        assert_eq!(of(Taken::Smallest(reading)), 0.6);
    }

    #[test]
    fn takes_figures_of_functions() {
        let of = |scheduler: &str, calls: u64| {
            found(&json!({
                "kind": Simulated::KIND, "version": Simulated::VERSION,
                "command_line": "flsched sim", "flsched_version": "0.1.0",
                "outcome": { "scheduler": scheduler, "machine": "knc-31s1p", "cpus": 228, "callbacks": [
                    { "name": "enqueue", "calls": calls, "ns": 4000 }, { "name": "yield", "calls": 0, "ns": 0 },
                ] },
            }))
        };
        let from = [of("cfs", 4), of("flsched_paper", 2)];
        assert_eq!(taken("calls of enqueue under flsched_paper", &from), Ok(2.0));
        assert_eq!(taken("mean_ns of enqueue under cfs", &from), Ok(1000.0));
        assert_eq!(taken("total_ms of enqueue under cfs", &from), Ok(0.004));
        assert_eq!(taken("calls of enqueue under cfs over flsched_paper", &from), Ok(2.0));
        assert!(matches!(taken("mean_ns of yield under cfs", &from), Err(Gap::Failed(_))));
        assert!(matches!(taken("calls of enqueue under rr", &from), Err(Gap::Missing(_))));
        assert_eq!((from[0].clock().as_str(), from[0].machine().as_str()), ("model", "knc-31s1p, 228 CPUs"));
    }

    #[test]
    fn a_ratio_of_costs_is_of_one_run() {
        let of = |policy: &str, fair_ns: f64, scx_ns: f64| found(&costs(policy, fair_ns, scx_ns));
        let from = [of("flsched", 100.0, 50.0), of("flsched_paper", 200.0, 50.0)];
        assert_eq!(taken("mean_ns of enqueue_task under flsched over eevdf", &from), Ok(0.5));
        assert_eq!(taken("mean_ns of enqueue_task under flsched_paper over eevdf", &from), Ok(0.25));
        assert_eq!(taken("mean_ns of enqueue_task under eevdf over flsched_paper", &from), Ok(4.0));
        assert_eq!(taken("mean_ns of enqueue_task under eevdf", &from), Ok(100.0));
        assert!(matches!(taken("mean_ns of enqueue_task under rr2 over eevdf", &from), Err(Gap::Missing(_))));
    }

    #[test]
    fn takes_waits_for_locks_from_a_breakdown() {
        let mut report = comparison("x", &[("hogs:1:1", "cfs", &[1.0]), ("hogs:1:1", "rr", &[1.0])]);
        let why = flsched_probes::why::Why { lock_waits: 1.25, ..Default::default() };
        let breakdown = flsched_compare::result::Breakdown { time_s: 1.0, longer_percent: None, why };
        report["results"][0]["why"] = serde_json::to_value(breakdown).unwrap();
        let from = [found(&report)];
        assert_eq!(taken("spin_percent of cfs on hogs:1:1", &from), Ok(1.25));
        let without = Gap::Wrong("rr on hogs:1:1 has no `spin_percent`".into());
        assert_eq!(taken("spin_percent of rr on hogs:1:1", &from), Err(without));
    }

    #[test]
    fn takes_places_from_a_count_in_a_source() {
        let part = |part: &str, places: &[(&str, usize)]| {
            let places: BTreeMap<_, _> = places.iter().copied().collect();
            json!({ "part": part, "files": [], "places": places })
        };
        let parts = [part("core", &[("mutex", 2), ("spin_lock", 3)]), part("rt", &[])];
        let counted = json!({ "source_of": "7.3.4", "version": "0.1.0", "parts": parts });
        let (kind, version) = (CountedInSource::KIND, CountedInSource::VERSION);
        let command_line = "flsched locks --source 7.3";
        let file =
            json!({ "kind": kind, "version": version, "command_line": command_line, "counted": counted });
        let from = [found(&file)];
        assert_eq!(taken("places of core", &from), Ok(5.0));
        assert_eq!(taken("places of rt", &from), Ok(0.0));
        assert_eq!(taken("places of fair", &from), Err(Gap::Missing("no count has a part `fair`".into())));
        assert_eq!((from[0].clock().as_str(), from[0].machine().as_str()), (SOURCE, "kernel 7.3.4"));
        assert_eq!(from[0].version(), "0.1.0");
    }

    #[test]
    fn only_whole_reports() {
        let mut report = comparison("x", &[("a", "cfs", &[1.0])]);
        report["complete"] = false.into();
        assert_eq!(Found::parse(report.to_string().as_bytes()).unwrap_err(), "is not complete");
        assert!(Found::parse(b"{").unwrap_err().starts_with("is not JSON"));
        assert!(Found::parse(b"{}").unwrap_err().starts_with("is not a report of kind `compare`"));
        let sweep = br#"{ "kind": "sweep", "version": 2 }"#;
        assert!(Found::parse(sweep).unwrap_err().starts_with("is a report of kind `sweep`, of which no row"));
        report["version"] = 99.into();
        assert!(Found::parse(report.to_string().as_bytes()).unwrap_err().starts_with("has version 99"));
    }
}
