//! Of the simulator's published reports the details are left out, as their command line gives them again. Here a few of their
//! runs are done again: the simulator must come to the published figures.
use flsched_base::reports;
use flsched_compare::Report;
use flsched_compare::result::ArmResult;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Report, workload, schedulers. The first one's second copy has other seeds than in the whole comparison.
const SAMPLES: [(&str, &str, &str); 4] = [
    ("sim-smove-ryzen", "make:1:20", "smove:strategy=off,smove"),
    ("sim-smove-xeon", "make:1:20", "smove:strategy=off,smove"),
    ("spinning-model", "phases:8:50:400:0:spin", "eevdf,flsched"),
    ("pushes-model", "hackbench:process-pipe:32:20", "eevdf,flsched_paper"),
];

fn read(path: &Path) -> Report {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    reports::read(&bytes).unwrap_or_else(|what| panic!("{} {what}", path.display()))
}

/// The value of an option in the command line.
fn option(report: &Report, name: &str) -> Option<String> {
    let words = shell_words::split(&report.command_line).unwrap();
    words.iter().position(|word| word == name).map(|at| words[at + 1].clone())
}

/// One run of each.
fn measured(published: &Report, workload: &str, schedulers: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.json");
    let seed = published.seed.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args(["compare", "--on", "sim", "--runs", "1", "--seed", &seed, "--workload", workload]);
    command.args(["--schedulers", schedulers]).arg("--json").arg(&path);
    for name in ["--machine", "--cpus"] {
        command.args(option(published, name).iter().flat_map(|value| [name, value]));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read(&path)
}

/// What pages show of the first run. The latencies of other wake-ups than the workload's are no figures of theirs.
fn first_run(arm: &ArmResult) -> (f64, u64, u64) {
    let first = |counts: &Option<flsched_compare::result::Counts>| counts.as_ref().unwrap().values[0];
    (arm.times_s[0], first(&arm.context_switches), first(&arm.migrations))
}

#[test]
fn published_simulations_are_what_their_seeds_give() {
    let results = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../results");
    for (name, workload, schedulers) in SAMPLES {
        let published = read(&results.join(format!("{name}.json")));
        let again = measured(&published, workload, schedulers);
        for scheduler in schedulers.split(',') {
            let of = |report: &Report| {
                let is_it = |it: &&ArmResult| it.workload == workload && it.scheduler == scheduler;
                report.results.iter().find(is_it).map(first_run)
            };
            let published = of(&published);
            assert!(published.is_some(), "{name}: {scheduler} on {workload}");
            assert_eq!(
                of(&again),
                published,
                "{scheduler} on {workload}: if that is meant to change, run `flsched-lab measure --only {name}.json`"
            );
        }
    }
}
