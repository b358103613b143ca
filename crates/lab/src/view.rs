//! What a block shows: workloads as rows, schedulers as columns, from one or more reports.
use crate::floor::floor_s;
use crate::sets::Sets;
use crate::store::{Store, clock_name};
use flsched_compare::report::words::{results_of, workloads};
use flsched_compare::result::ArmResult;
use flsched_compare::verdict::{Noise, Verdict};
use flsched_compare::{Report, Target, Workload};
use flsched_spec::UsageError;
use glob::Pattern;
use std::rc::Rc;

/// Which part of which reports.
#[derive(Debug, Default)]
pub(crate) struct Selection<'a> {
    pub(crate) files: Vec<&'a str>,
    /// Patterns, with `*`; none: all.
    pub(crate) workloads: Vec<&'a str>,
    /// None: all.
    pub(crate) schedulers: Vec<&'a str>,
    /// A file, `none`, or what the sets have.
    pub(crate) floor: Option<&'a str>,
    pub(crate) subject: &'a str,
}

/// Reports of the same clock, kernel and CPUs, side by side.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) reports: Vec<Rc<Report>>,
    /// Of the work on one CPU.
    pub(crate) floors: Vec<Rc<Report>>,
    /// Columns; the others are compared with the first.
    pub(crate) schedulers: Vec<String>,
    /// In the order of the files.
    pub(crate) rows: Vec<Row>,
    /// The column of the scheduler that it is about.
    pub(crate) subject: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) time_is: Option<String>,
    /// By column; `None`: that scheduler took no part.
    pub(crate) cells: Vec<Option<ArmResult>>,
    pub(crate) noise: Option<Noise>,
    pub(crate) floor_s: Option<f64>,
}

impl View {
    pub(crate) fn new(store: &Store, sets: &Sets, of: &Selection<'_>) -> Result<Self, String> {
        let reports = of.files.iter().map(|file| store.get(file)).collect::<Result<Vec<_>, _>>()?;
        let (Some(first), Some(first_file)) = (reports.first(), of.files.first()) else {
            return Err("file=… names no file".into());
        };
        for (report, file) in reports.iter().zip(&of.files).skip(1) {
            comparable(first, report).map_err(|what| {
                format!("{first_file} and {file} differ in {what}: they cannot be in one table")
            })?;
        }
        let schedulers = columns(&reports, &of.schedulers)?;
        let patterns = patterns(&of.workloads)?;
        let mut rows: Vec<Row> = Vec::new();
        let mut floors: Vec<Rc<Report>> = Vec::new();
        for (report, file) in reports.iter().zip(&of.files) {
            let floor = floor_report(store, sets, file, of.floor, report)?;
            for workload in workloads(report) {
                if !patterns.is_empty() && !patterns.iter().any(|it| it.matches(workload)) {
                    continue;
                }
                if rows.iter().any(|row| row.workload == workload) {
                    return Err(format!("`{workload}` is in two of the files: {}", of.files.join(", ")));
                }
                rows.push(row(report, workload, &schedulers, floor.as_deref()));
            }
            floors.extend(floor.filter(|it| !floors.iter().any(|other| Rc::ptr_eq(other, it))));
        }
        if let Some(pattern) = patterns.iter().find(|it| !rows.iter().any(|row| it.matches(&row.workload))) {
            return Err(format!("workloads: nothing in {} matches `{pattern}`", of.files.join(", ")));
        }
        let subject = schedulers.iter().position(|name| name == of.subject);
        Ok(Self { reports, floors, schedulers, rows, subject })
    }

    /// The scheduler that the others are compared with.
    pub(crate) fn first(&self) -> &str {
        &self.schedulers[0]
    }

    /// Rows that the subject loses come first.
    pub(crate) fn losses_first(&self) -> Vec<&Row> {
        let mut rows: Vec<usize> = (0..self.rows.len()).collect();
        rows.sort_by_key(|row| self.rank(*row));
        rows.into_iter().map(|row| &self.rows[row]).collect()
    }

    /// 0: the first scheduler beats the subject in this row, or a run of the subject failed; 1: another
    /// scheduler beats it.
    pub(crate) fn rank(&self, row: usize) -> u8 {
        self.subject.map_or(0, |subject| self.rows[row].rank(subject))
    }
}

impl Row {
    /// Columns of the least time, and of all within the noise of it. A scheduler with a
    /// failed run is never among them.
    pub(crate) fn best(&self) -> Vec<usize> {
        let time = |cell: &Option<ArmResult>| {
            cell.as_ref().filter(|it| it.failed.is_empty())?.time_s.map(|time| time.median)
        };
        let Some(least) = self.cells.iter().filter_map(time).min_by(f64::total_cmp) else {
            return Vec::new();
        };
        let limit = least * self.noise.map_or(1.0, |noise| noise.threshold);
        let is_best = |cell: &Option<ArmResult>| time(cell).is_some_and(|time| time <= limit);
        (0..self.cells.len()).filter(|column| is_best(&self.cells[*column])).collect()
    }

    fn rank(&self, subject: usize) -> u8 {
        match &self.cells[subject] {
            Some(cell) if cell.verdict == Verdict::Worse || !cell.failed.is_empty() => 0,
            Some(_) if !self.best().contains(&subject) => 1,
            _ => 2,
        }
    }
}

/// The name with all its parameters, if it is one of the built-in workloads.
pub(crate) fn full_name(workload: &str) -> String {
    Workload::read(workload, Target::Vm).map_or_else(|_| workload.to_string(), |it| it.to_string())
}

/// What a marker that names one workload and one scheduler means.
pub(crate) fn arm<'a>(
    report: &'a Report,
    workload: &str,
    scheduler: &str,
) -> Result<&'a ArmResult, UsageError> {
    let names: Vec<String> = workloads(report).into_iter().map(String::from).collect();
    let workload = [workload.to_string(), full_name(workload)].into_iter().find(|it| names.contains(it));
    let Some(workload) = workload else {
        return Err(UsageError(format!("it has no such workload; it has: {}", names.join(", "))));
    };
    let results = results_of(report, &workload);
    let names: Vec<String> = results.iter().map(|it| it.scheduler.clone()).collect();
    let found = results.into_iter().find(|it| it.scheduler == scheduler);
    found.ok_or_else(|| UsageError::unknown("scheduler", scheduler, &names))
}

/// The second appearance of the first scheduler, which shows the noise.
fn is_again(result: &ArmResult) -> bool {
    result.scheduler.ends_with(" (again)")
}

fn columns(reports: &[Rc<Report>], wanted: &[&str]) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for result in reports.iter().flat_map(|it| &it.results).filter(|it| !is_again(it)) {
        if !all.contains(&result.scheduler) {
            all.push(result.scheduler.clone());
        }
    }
    if let Some(name) = wanted.iter().find(|name| !all.iter().any(|it| it == *name)) {
        return Err(UsageError::unknown("scheduler", name, &all).to_string());
    }
    let first = all.first().cloned().ok_or("the report has no results")?;
    // The first one stays: the others are compared with it.
    let kept = |name: &String| wanted.is_empty() || *name == first || wanted.contains(&name.as_str());
    Ok(all.into_iter().filter(kept).collect())
}

fn patterns(texts: &[&str]) -> Result<Vec<Pattern>, String> {
    let pattern = |text: &&str| {
        Pattern::new(&full_name(text)).map_err(|error| format!("workloads: `{text}`: {}", error.msg))
    };
    texts.iter().map(pattern).collect()
}

fn row(report: &Report, workload: &str, schedulers: &[String], floor: Option<&Report>) -> Row {
    let results = results_of(report, workload);
    let again = results.iter().find(|it| is_again(it));
    let cell = |name: &String| {
        let mut cell = (*results.iter().find(|it| it.scheduler == *name)?).clone();
        // A run that failed failed under this scheduler, in whichever of its columns.
        let again = again.filter(|again| cell.verdict == Verdict::Baseline && !again.failed.is_empty());
        if let Some(again) = again {
            cell.runs += again.runs;
            cell.ejected += again.ejected;
            cell.failed.extend(again.failed.iter().cloned());
        }
        Some(cell)
    };
    Row {
        workload: workload.to_string(),
        time_is: results.first().and_then(|it| it.time_is.clone()),
        cells: schedulers.iter().map(cell).collect(),
        noise: report.noise.get(workload).copied(),
        floor_s: floor.and_then(|floor| floor_s(workload, report.cpus, floor)),
    }
}

fn first_scheduler(report: &Report) -> Option<&str> {
    report.results.first().map(|it| it.scheduler.as_str())
}

fn comparable(one: &Report, other: &Report) -> Result<(), &'static str> {
    match () {
        _ if one.clock != other.clock => Err("the clock"),
        _ if one.kernel != other.kernel => Err("the kernel"),
        _ if one.cpus != other.cpus => Err("the number of CPUs"),
        _ if first_scheduler(one) != first_scheduler(other) => Err("the first scheduler"),
        _ => Ok(()),
    }
}

/// The report with the work on one CPU. A set's floor that is not measured yet is left out; one that a
/// marker names must be there.
fn floor_report(
    store: &Store,
    sets: &Sets,
    file: &str,
    wanted: Option<&str>,
    report: &Report,
) -> Result<Option<Rc<Report>>, String> {
    let of_set = || sets.comparison(file)?.floor.as_deref().filter(|floor| store.has(floor));
    let Some(name) = wanted.or_else(of_set).filter(|name| *name != "none") else {
        return Ok(None);
    };
    let floor = store.get(name)?;
    match () {
        _ if floor.cpus != 1 => Err(format!("floor {name} was measured on {} CPUs, not on 1", floor.cpus)),
        _ if floor.clock != report.clock => {
            Err(format!("floor {name} has clock {}, {file} {}", clock_name(&floor), clock_name(report)))
        }
        _ if floor.kernel != report.kernel => {
            Err(format!("floor {name} has kernel {}, {file} {}", floor.kernel, report.kernel))
        }
        _ => Ok(Some(floor)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flsched_compare::result::{Failure, FailureKind};
    use flsched_compare::stats::{median_estimate, ratio_of_medians};
    use flsched_compare::verdict::{Evidence, decide};
    use serde_json::{Value, json};

    /// A report of made-up medians: 5 runs, each a little beside; the noise is 2 %.
    pub(crate) fn report(of: &[(&str, &[(&str, f64)])]) -> Report {
        let mut results: Vec<Value> = Vec::new();
        let mut noise = serde_json::Map::new();
        for (workload, schedulers) in of {
            let times = |seconds: f64| [0.99, 0.995, 1.0, 1.005, 1.01].map(|it| it * seconds).to_vec();
            let first = times(schedulers[0].1);
            let of_first = Noise { ratio: 1.0, low: 0.99, high: 1.02, threshold: 1.02 };
            noise.insert(workload.to_string(), serde_json::to_value(of_first).unwrap());
            let again = (format!("{} (again)", schedulers[0].0), schedulers[0].1);
            let mut arms: Vec<(String, f64)> = schedulers.iter().map(|it| (it.0.to_string(), it.1)).collect();
            arms.insert(1, again);
            for (index, (scheduler, seconds)) in arms.into_iter().enumerate() {
                let times = times(seconds);
                let time = median_estimate(&times).unwrap();
                let ratio = ratio_of_medians(&first, &times).unwrap();
                let evidence = Evidence {
                    ratio: Some(ratio),
                    noise: Some(of_first),
                    timed_runs: 5,
                    untimed_runs: 0,
                    untimed_first: 0,
                };
                let verdict = if index < 2 { Verdict::Baseline } else { decide(&evidence).0 };
                results.push(json!({
                    "workload": workload, "scheduler": scheduler, "scheduler_version": null, "runs": 5,
                    "time_is": null, "times_s": times,
                    "time_s": { "median": time.value, "low": time.low, "high": time.high },
                    "context_switches": { "median": 1234.0, "values": [1234] },
                    "migrations": null, "yields": null,
                    "figures": [{ "name": "wakeup_p99_us", "median": 88.1, "values": [88.1] }],
                    "ratio_to_first": ratio.value, "ratio_to_first_low": ratio.low,
                    "ratio_to_first_high": ratio.high, "verdict": verdict, "verdict_reason": "",
                    "ejected": 0, "failed": [],
                    "attached_proof": { "verified": 5, "of": 5, "runs": [] }, "stats": {},
                }));
            }
        }
        let environment = flsched_compare::environment::Environment::default();
        serde_json::from_value(json!({
            "version": 1, "flsched_version": "0.1.0", "clock": "instructions", "kernel": "6.18.15", "cpus": 4,
            "seed": 1, "runs": 5, "on": "vm", "complete": true, "started_at": "2026-11-22T21:07:15Z",
            "duration_s": 1.0, "command_line": "target/flsched compare --on vm --json x.json",
            "limit_s": 300.0, "warnings": [], "environment": environment, "noise": noise,
            "published": {}, "results": results,
        }))
        .unwrap()
    }

    pub(crate) fn on_clock(report: Report, clock: &str) -> Report {
        let mut value = serde_json::to_value(report).unwrap();
        value["clock"] = clock.into();
        serde_json::from_value(value).unwrap()
    }

    pub(crate) fn eject(report: &mut Report, scheduler: &str) {
        for result in report.results.iter_mut().filter(|it| it.scheduler == scheduler) {
            result.ejected = 1;
            result.failed = vec![Failure { run: 3, kind: FailureKind::Ejected, reason: "stall".into() }];
        }
    }

    /// A folder with `results/`.
    pub(crate) fn project(reports: &[(&str, &Report)]) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("results")).unwrap();
        for (file, report) in reports {
            let text = serde_json::to_string(report).unwrap();
            std::fs::write(folder.path().join("results").join(file), text).unwrap();
        }
        let store = Store::new(folder.path());
        (folder, store)
    }

    fn view(store: &Store, selection: Selection<'_>) -> Result<View, String> {
        View::new(store, &Sets::default(), &Selection { subject: "flsched", ..selection })
    }

    #[test]
    fn losses_come_first() {
        let measured = report(&[
            ("fast", &[("eevdf", 1.0), ("flsched", 0.5)]),
            ("beaten", &[("eevdf", 1.0), ("rr", 0.4), ("flsched", 0.5)]),
            ("slow", &[("eevdf", 1.0), ("flsched", 2.0)]),
        ]);
        let (_folder, store) = project(&[("a.json", &measured)]);
        let view = view(&store, Selection { files: vec!["a.json"], ..Selection::default() }).unwrap();
        let order: Vec<_> = view.losses_first().iter().map(|row| row.workload.as_str()).collect();
        assert_eq!(order, ["slow", "beaten", "fast"]);
        assert_eq!(view.schedulers, ["eevdf", "flsched", "rr"]);
    }

    #[test]
    fn ties_within_the_noise_share_the_first_place() {
        let mut measured = report(&[("a", &[("eevdf", 1.0), ("rr", 0.5), ("flsched", 0.505), ("x", 0.1)])]);
        eject(&mut measured, "x");
        let (_folder, store) = project(&[("a.json", &measured)]);
        let view = view(&store, Selection { files: vec!["a.json"], ..Selection::default() }).unwrap();
        assert_eq!(view.rows[0].best(), [1, 2]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let one = report(&[("a", &[("eevdf", 1.0), ("flsched", 0.5)])]);
        let wall = on_clock(report(&[("b", &[("eevdf", 1.0)])]), "wall");
        let (_folder, store) = project(&[("a.json", &one), ("same.json", &one), ("wall.json", &wall)]);
        let error = |selection| view(&store, selection).unwrap_err();
        let files = |files: &[&'static str]| Selection { files: files.to_vec(), ..Selection::default() };
        assert!(error(files(&["a.json", "wall.json"])).contains("differ in the clock"));
        assert!(error(files(&["a.json", "same.json"])).contains("`a` is in two"));
        assert!(error(Selection { workloads: vec!["z*"], ..files(&["a.json"]) }).contains("matches `z*`"));
        assert!(error(Selection { schedulers: vec!["flshed"], ..files(&["a.json"]) }).contains("`flsched`?"));
        assert!(error(Selection { floor: Some("same.json"), ..files(&["a.json"]) }).contains("on 4 CPUs"));
    }

    #[test]
    fn short_names_mean_the_workload_with_its_defaults() {
        let measured = report(&[("spin-barrier:32:150:12500", &[("eevdf", 1.0), ("flsched", 0.5)])]);
        assert_eq!(arm(&measured, "spin-barrier", "flsched").unwrap().scheduler, "flsched");
        assert!(
            arm(&measured, "spin-barrier:8", "flsched").unwrap_err().to_string().contains("no such workload")
        );
        assert!(arm(&measured, "spin-barrier", "flshed").unwrap_err().to_string().contains("`flsched`?"));
    }
}
