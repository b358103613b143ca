//! The simulator against the kernel: each scenario of `conformance/` is played by real threads on a stock
//! kernel and by the simulator's, under the same scheduler. Both must do all the work where it may be done,
//! with about as many context switches and migrations; where these differ (`::work`) only the former counts.
//! This program is all sides: started by cargo it boots a machine for each scheduler, with `--guest` it is
//! the command inside, with `--play` the first process of a scenario.
//!
//! Without `FLSCHED_TEST_CONFORMANCE=all` only a part is played. `FLSCHED_TEST_POLICIES=eevdf` and
//! `FLSCHED_TEST_SCENARIOS=chain,nice` pick schedulers, and scenarios by parts of their names.
#[path = "../common/mod.rs"]
mod common;
mod guest;
mod judge;
mod player;

use common::variable;
use flsched_sim::scenario::Scenario;
use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};

const KERNEL: &str = "6.18";
const SCHEDULERS: &[&str] = &["flsched", "smove", "rr2", "eevdf", "rr"];
/// The part that is played always.
const USUAL_SCHEDULERS: &[&str] = &["flsched", "eevdf"];
const USUAL_SCENARIOS: &[&str] = &["chain", "nice-mix", "pinned", "yield-ring", "yielders-part"];
/// The simulator has no groups of tasks, and nothing that watches how memory is used 200 times a second.
const QUIET: &str = "noautogroup damon_stat.enabled=0";
/// Real seconds that a machine may take; a quiet host needs an eighth of it.
const LIMIT: &str = "900";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--guest", scheduler, files @ ..] => return guest::play_all(scheduler, files),
        ["--play", file] => return player::play(&read(file)),
        _ => {}
    }
    let is_all = variable("CONFORMANCE").as_deref() == Some("all");
    let picked = |name: &str, by: &str, usual: &[&str]| match variable(by) {
        Some(parts) => parts.split(',').any(|part| name.contains(part)),
        None => is_all || usual.contains(&name),
    };
    let scenarios: Vec<(String, PathBuf)> =
        scenarios().into_iter().filter(|(name, _)| picked(name, "SCENARIOS", USUAL_SCENARIOS)).collect();
    let files: Arc<Vec<PathBuf>> = Arc::new(scenarios.iter().map(|(_, file)| file.clone()).collect());
    let mut trials = Vec::new();
    for &scheduler in SCHEDULERS.iter().filter(|name| picked(name, "POLICIES", USUAL_SCHEDULERS)) {
        let results = Arc::new(OnceLock::new());
        for (name, file) in scenarios.clone() {
            let (files, results) = (files.clone(), results.clone());
            let extent = if judge::is_claimed(scheduler, &name) { "" } else { "::work" };
            trials.push(Trial::test(format!("{scheduler}::{name}{extent}"), move || {
                let results: &MachineResults = results.get_or_init(|| boot(scheduler, &files));
                let scenario = read(&file.to_string_lossy());
                judge::judge(scenario, scheduler, &name, results)
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// All there are, by name.
fn scenarios() -> Vec<(String, PathBuf)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let folder = folder.canonicalize().expect("the scenarios");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut all: Vec<(String, PathBuf)> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path))
        .collect();
    all.sort();
    all
}

fn read(file: &str) -> Scenario {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
    Scenario::parse(&text, file).unwrap_or_else(|e| panic!("{e}"))
}

/// The results of a machine: by scenario the numbers of its runs, and the whole output for
/// failures.
struct MachineResults {
    plays: BTreeMap<String, Vec<Result<judge::Tally, String>>>,
    transcript: String,
}

fn boot(scheduler: &str, files: &[PathBuf]) -> MachineResults {
    let me = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args(["vm", "--verbose", "--kernel", KERNEL, "--timeout", LIMIT, "--topology", "1s1c4t"]);
    command.args(["--clock", "work", "--cgroup", "root", "--append", QUIET]);
    command.args(["--include", "/usr/bin/hackbench"]);
    for file in files {
        command.arg("--include").arg(file);
    }
    command.arg("--").arg(me).args(["--guest", scheduler]).args(files);
    // If the input ends, process 1 polls it a hundred times a second.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut machine = command.spawn().expect("flsched runs");
    let input = machine.stdin.take();
    let output = machine.wait_with_output().expect("it ends");
    drop(input);
    let said = String::from_utf8_lossy(&output.stdout);
    let transcript = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    let mut plays: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (name, play) in said.lines().filter_map(guest::parse) {
        plays.entry(name).or_default().push(play);
    }
    MachineResults { plays, transcript }
}
