//! `flsched compare --why` with two CPUs, whose time is spent in a known way.
use libtest_mimic::Failed;
use serde_json::Value;
use std::ops::Range;
use std::process::Command;

/// A slice that is short beside the work: one of two hogs ends up to a slice before the other.
const SCHEDULER: &str = "flsched:slice_us=3000";

/// Two hogs that may run on CPU 0 alone, while CPU 1 has nothing to do.
const HOGS: &str = "hog='i=0; while [ $i -lt 15000 ]; do i=$((i+1)); done'
    taskset -c 0 sh -c \"$hog\" & taskset -c 0 sh -c \"$hog\"; wait";

/// A CPU may idle for up to a tick, 4 ms, beside a thread that was queued just then. That is little beside this
/// work, of 240 ms.
const ON_BOTH_CPUS: &str = "spin-barrier:2:1:24000000";

/// Add up to 100 %.
const WHOLES: &str =
    "user kernel wake_ups switching lock_waits interrupts probe idle_task_waits idle_nothing other";

pub fn breakdown() -> Result<(), Failed> {
    let file = std::env::temp_dir().join(format!("flsched-why-{}.json", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args("compare --why --on vm --kernel 6.18 --cpus 2 --runs 1 --seed 1 --schedulers".split(' '))
        .arg(SCHEDULER)
        .args(["--workload", "spin-barrier:1:10:200000", "--workload", ON_BOTH_CPUS])
        .arg("--json")
        .arg(&file)
        .args(["--", "sh", "-c", HOGS])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
    let _ = std::fs::remove_file(file);

    expect(
        &report,
        "spin-barrier:1",
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
