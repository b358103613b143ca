//! `flsched compare --why --timeline` with two CPUs, whose time is spent in a known way.
use libtest_mimic::Failed;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// A slice that is short beside the work: one of two hogs ends up to a slice before the other.
const SCHEDULER: &str = "flsched:slice_us=3000";

/// Two hogs that may run on CPU 0 alone, while CPU 1 has nothing to do.
const HOGS: &str = "hog='i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done'
    taskset -c 0 sh -c \"$hog\" & taskset -c 0 sh -c \"$hog\"; wait";

/// 60 ms of work: what it takes to start, 1.5 ms, is little beside that.
const ON_ONE_CPU: &str = "spin-barrier:1:30:200000";

/// A CPU may idle for up to a tick, 4 ms, beside a thread that was queued just then. That is little beside this
/// work, of 240 ms.
const ON_BOTH_CPUS: &str = "spin-barrier:2:1:24000000";

/// Add up to 100 %.
const WHOLES: &str =
    "user kernel wake_ups switching lock_waits interrupts probe idle_task_waits idle_nothing other";

pub fn breakdown() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args("compare --why --on vm --kernel 6.18 --cpus 2 --runs 1 --seed 1 --schedulers".split(' '))
        .arg(SCHEDULER)
        .args(["--workload", ON_ONE_CPU, "--workload", ON_BOTH_CPUS])
        .arg("--json")
        .arg(&file)
        .arg("--timeline")
        .arg("--html")
        .arg(folder.path().join("page.html"))
        .args(["--", "sh", "-c", HOGS])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
    timelines(folder.path());

    expect(
        &report,
        ON_ONE_CPU,
        &[("user", 46.0..50.0), ("idle_nothing", 47.0..51.0), ("idle_task_waits", 0.0..2.0)],
    );
    expect(
        &report,
        ON_BOTH_CPUS,
        &[("user", 95.0..100.0), ("idle_nothing", 0.0..2.0), ("idle_task_waits", 0.0..2.0)],
    );
    // One of them waits as long as both exist: all the time except for their start and a slice at the end.
    expect(
        &report,
        "sh",
        &[("user", 46.0..50.0), ("idle_task_waits", 44.0..51.0), ("idle_nothing", 0.0..6.0)],
    );
    Ok(())
}

/// The pictures of the same runs: on the page, and beside it.
fn timelines(folder: &Path) {
    let page = std::fs::read_to_string(folder.join("page.html")).expect("a page");
    assert_eq!(page.matches("What ran where").count(), 3);
    // The one computes for all the time on one of two CPUs, the other one on both.
    for (workload, busy) in [("spin-barrier-1-30-200000", 50.0), ("spin-barrier-2-1-24000000", 100.0)] {
        let name = format!("page-{workload}-{}.json.gz", SCHEDULER.replace([':', '='], "-"));
        assert!(folder.join(&name).is_file() && page.contains(&format!("href=\"{name}\"")), "{name}");
        let figure = page.split("<figure").find(|figure| figure.contains(&name)).expect("a picture");
        let told =
            figure.split_once("CPUs ").and_then(|(_, rest)| rest.split_once(" % busy")).expect("how busy").0;
        let told: f64 = told.parse().expect("a number");
        assert!((told - busy).abs() <= 4.0, "{workload}: {told}");
    }
}

/// In percent.
fn expect(report: &Value, workload: &str, fields: &[(&str, Range<f64>)]) {
    let results = report["results"].as_array().expect("results");
    let is_it = |it: &&Value| it["workload"].as_str().is_some_and(|name| name.starts_with(workload));
    let why = &results.iter().find(is_it).expect("it was run")["why"];
    let percent = |field: &str| why[field].as_f64().unwrap_or_else(|| panic!("no {field}: {results:#?}"));
    let sum: f64 = WHOLES.split(' ').map(percent).sum();
    assert!((sum - 100.0).abs() < 0.1 && percent("other") < 1.0, "{workload}: {sum} %: {why:#}");
    for (field, expected) in fields {
        let found = percent(field);
        assert!(expected.contains(&found), "{workload}: {field} is {found}: {why:#}");
    }
}
