//! `flsched compare --why` on a stock kernel with two CPUs, where what must come out is known.
use serde_json::Value;
use std::process::Command;

/// Two hogs that may run on CPU 0 alone, while CPU 1 has nothing to do.
const HOGS: &str = "hog='i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'
    taskset -c 0 sh -c \"$hog\" & taskset -c 0 sh -c \"$hog\"; wait";

#[test]
#[ignore = "boots a virtual machine; needs `flsched emulator build`"]
fn the_cpu_time_is_broken_down_as_it_was_spent() {
    let folder = std::env::temp_dir().join(format!("flsched-why-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_flsched"))
        .args(
            "compare --why --on vm --kernel 6.18 --cpus 2 --schedulers eevdf,flsched --runs 1 --seed 1"
                .split(' '),
        )
        .args("--workload spin-barrier:1:10:200000 --workload spin-barrier:2:1:2000000".split(' '))
        .arg("--json")
        .arg(&file)
        .args(["--", "sh", "-c", HOGS])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
    let _ = std::fs::remove_dir_all(folder);

    let of = |workload: &str, scheduler: &str| {
        let results = report["results"].as_array().expect("results");
        let is_it = |it: &&Value| {
            it["scheduler"] == scheduler
                && it["workload"].as_str().is_some_and(|name| name.starts_with(workload))
        };
        results.iter().find(is_it).map(|it| it["why"].clone()).expect("it was run")
    };
    for scheduler in ["eevdf", "flsched"] {
        let [alone, both, hogs] = ["spin-barrier:1", "spin-barrier:2", "sh"].map(|it| of(it, scheduler));
        for why in [&alone, &both, &hogs] {
            let wholes = [
                "user",
                "kernel",
                "wake_ups",
                "switching",
                "lock_waits",
                "interrupts",
                "probe",
                "idle_task_waits",
                "idle_nothing",
                "other",
            ];
            let sum: f64 = wholes.iter().map(|field| why[field].as_f64().expect("a number")).sum();
            assert!((sum - 100.0).abs() < 0.1 && why["other"].as_f64() < Some(1.0), "{scheduler}: {why:#}");
        }
        expect(scheduler, &alone, &[("user", 49.0), ("idle_nothing", 49.0), ("idle_task_waits", 0.0)]);
        expect(scheduler, &both, &[("user", 98.0), ("idle_nothing", 1.0), ("idle_task_waits", 0.0)]);
        // One of them waits as long as both are there, which is all the time but for how they begin and end.
        expect(scheduler, &hogs, &[("user", 47.0), ("idle_task_waits", 46.0), ("idle_nothing", 3.0)]);
    }
}

/// In percent, within three.
fn expect(scheduler: &str, why: &Value, fields: &[(&str, f64)]) {
    for (field, expected) in fields {
        let found = why[field].as_f64().expect("a number");
        assert!((found - expected).abs() <= 3.0, "{scheduler}: {field} is {found}: {why:#}");
    }
}
