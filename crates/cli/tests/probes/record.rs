//! `flsched record` on a small load in a virtual machine, and its replay in the simulator.
use flsched_recording::timeline::WaitsFor;
use flsched_recording::{Recording, What};
use libtest_mimic::Failed;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FLSCHED: &str = env!("CARGO_BIN_EXE_flsched");

/// Six jobs on two CPUs, of short processes that compute, wait for each other and sleep; with an exit code of its own.
const LOAD: &str = "for i in 1 2 3 4 5 6; do for j in 1 2 3; do seq 1 3000 | sort -r | tail -n 1; sleep 0.002; done & \
                    done; wait; exit 7";

/// `flsched record` in the machine: the recording comes on standard output, all else on standard error.
fn record(arguments: &str, path: &Path) -> Output {
    let file = std::fs::File::create(path).expect("a file");
    let script = format!("{FLSCHED} record -o /tmp/x {arguments} >&2; code=$?; cat /tmp/x; exit $code");
    Command::new(FLSCHED)
        .args("vm --kernel 6.18 --cpus 2 --clock parallel --timeout 600 -- sh -c".split(' '))
        .arg(script)
        .stdout(file)
        .stderr(Stdio::piped())
        .output()
        .expect("it starts")
}

fn read(path: &Path) -> Recording {
    Recording::read(path.to_str().expect("UTF-8")).expect("it is whole")
}

pub fn replay() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("load.trace");
    let output = record(&format!("--anonymous -- sh -c '{LOAD}'"), &path);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "the command's code is passed on: {said}");
    assert!(said.contains(" on 2 CPUs under eevdf; ") && !said.contains("CUT SHORT"), "{said}");
    let recording = read(&path);
    let is_named = |name: &str| recording.tasks.iter().any(|task| task.name == name);
    assert!(
        !["sh", "seq", "sort"].into_iter().any(is_named) && recording.header.command.is_none(),
        "anonymous"
    );

    look(&recording, &path, folder.path());

    let trace = format!("trace:{}", path.display());
    let output = Command::new(FLSCHED)
        .args(["sim", "--scheduler", "eevdf", "--json", "--workload", &trace])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(outcome["cpus"], 2, "the recorded machine");
    let of = |side: &str, name: &str| outcome["replayed"][side][name].as_f64().expect("a figure");
    // 18 pipelines of three processes each; most of the time both CPUs are busy.
    assert!(of("recorded", "switches") > 100.0 && of("recorded", "utilisation") > 0.5, "{outcome:#}");
    for (name, most) in [("elapsed_s", 1.15), ("utilisation", 1.15)] {
        let ratio = of("simulated", name) / of("recorded", name);
        assert!((1.0 / most..most).contains(&ratio), "{name}: {ratio}: {outcome:#}");
    }
    Ok(())
}

/// `record --from FILE --perfetto FILE` holds what the recording does, in the words of the Trace Event Format.
fn look(recording: &Recording, path: &Path, folder: &Path) {
    let traces = ["trace.json", "trace.json.gz"].map(|name| folder.join(name));
    for trace in &traces {
        let output = Command::new(FLSCHED)
            .args(["record", "--from"])
            .arg(path)
            .arg("--perfetto")
            .arg(trace)
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let plain = std::fs::read(&traces[0]).expect("a file");
    let packed = Command::new("gzip").arg("-dc").arg(&traces[1]).output().expect("it starts").stdout;
    assert!(plain == packed, "compressed or not, it is the same trace");

    let trace: Value = serde_json::from_slice(&plain).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let with = |phase: &str, pid: u64| {
        let found = events.iter().filter(move |event| event["ph"] == phase && event["pid"] == pid);
        found.collect::<Vec<&Value>>()
    };
    let sum_us =
        |events: &[&Value]| events.iter().map(|event| event["dur"].as_f64().expect("a time")).sum::<f64>();
    // What ran on the CPUs is what the tasks' rows say that they ran.
    let (on_cpus, of_tasks) = (with("X", 1), with("X", 2));
    let (ran, waited): (Vec<&Value>, Vec<&Value>) =
        of_tasks.iter().partition(|event| event["name"].as_str().expect("a name").starts_with("CPU "));
    assert_eq!(on_cpus.len(), ran.len());
    let switches =
        recording.events.iter().filter(|event| matches!(event.what, What::Switch { next: Some(_), .. }));
    assert!(on_cpus.len() >= switches.count());
    let capacity = recording.header.length as f64 * recording.header.cpus.len() as f64 / 1e3;
    let busy = sum_us(&on_cpus) / capacity;
    assert!((busy - sum_us(&ran) / capacity).abs() < 1e-9 && (0.5..=1.0).contains(&busy), "{busy}");
    // A pipeline's processes wait for each other, and for a CPU.
    for what in ["waits for a CPU", "waits for a message", "sleeps"] {
        assert!(waited.iter().any(|event| event["name"] == what), "{what}");
    }
    // Each arrow has a begin and an end, at the same time, and none is without a wake-up.
    let (begins, ends, woken) = (with("s", 2), with("f", 2), with("i", 2));
    assert!(!begins.is_empty() && begins.len() == ends.len() && begins.len() <= woken.len());
    assert!(
        begins.iter().zip(&ends).all(|(begin, end)| begin["id"] == end["id"] && begin["ts"] == end["ts"])
    );
}

/// What a policy counts meanwhile is in the recording.
pub fn counters() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("load.trace");
    let output = record(&format!("-- {FLSCHED} run -- hackbench -T -p -g 2 -l 300"), &path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = read(&path);
    let queued = recording.header.counters.iter().find(|counter| counter.name == "queued_tail");
    let samples = &queued.expect("FLSCHED counts it").samples;
    assert!(samples.is_sorted() && samples.last() > samples.first(), "{samples:?}");
    let timeline = recording.timeline();
    // The main thread waits for the end of the others, in `futex`.
    assert!(timeline.waits.iter().any(|wait| wait.what == WaitsFor::Lock));
    assert!(
        timeline
            .counters
            .iter()
            .any(|(name, rates)| name == "queued_tail" && rates.iter().any(|it| it.1 > 0))
    );
    Ok(())
}

/// A log without room for the load ends the recording early, loudly, and what is kept is sound.
pub fn full() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("load.trace");
    let output = record("--max-size 1 -- hackbench -p -g 2 -l 400", &path);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("CUT SHORT") && said.contains("--max-size"), "{said}");
    let recording = read(&path);
    assert!(recording.header.lost > 0 && recording.events.len() > 10_000);
    assert!(recording.events.iter().all(|event| event.at <= recording.header.length));
    Ok(())
}
