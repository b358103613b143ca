//! `flsched record` on a small load in a virtual machine, and its replay in the simulator.
use flsched_recording::Recording;
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

/// A log without room for the load ends the recording early, loudly, and what is kept is sound.
pub fn full() -> Result<(), Failed> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("load.trace");
    let output = record("--max-size 1 -- hackbench -p -g 2 -l 3000", &path);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("CUT SHORT") && said.contains("--max-size"), "{said}");
    let recording = read(&path);
    assert!(recording.header.lost > 0 && recording.events.len() > 10_000);
    assert!(recording.events.iter().all(|event| event.at <= recording.header.length));
    Ok(())
}
