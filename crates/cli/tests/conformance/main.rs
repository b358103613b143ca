//! The simulator against the kernel: each scenario of `conformance/` is played by real threads on a stock
//! kernel and by the simulator's, under the same scheduler. Both must do all the work where it may be done,
//! in about the same time, with about as many context switches and migrations, and with about the same wake-up
//! latencies. Where these differ, they may not differ by more than in `results/conformance-6.18.json`.
//! This program is all sides: started by cargo it boots a machine for each scheduler and number of CPUs, with
//! `--guest` it is the command inside, with `--play` the first process of a scenario.
//!
//! Without `FLSCHED_TEST_CONFORMANCE=all` only a part is played; `FLSCHED_TEST_CONFORMANCE=record` plays all and writes
//! that file. It plays all in a second machine, too: how far the kernel is from itself. With `simulator` and
//! `record-simulator` the kernel's figures are those of the file, and no machine is booted: for changes of the simulator
//! alone, in seconds. `FLSCHED_TEST_POLICIES=eevdf` and `FLSCHED_TEST_SCENARIOS=chain,nice` pick schedulers, and scenarios by
//! parts of their names; the record keeps its other entries.
#[path = "../common/mod.rs"]
mod common;
mod guest;
mod judge;
mod player;

use common::variable;
use flsched_base::files::replace;
use flsched_base::reports;
use flsched_sim::conformance::{Entry, Figures, Record};
use flsched_sim::scenario::Scenario;
use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

const KERNEL: &str = "6.18";
const CLOCK: &str = "parallel";
/// Of the second machine: its rounds have other lengths, as otherwise it would repeat the first one to the nanosecond.
const CLOCK_AGAIN: &str = "parallel:jitter=1";
const SCHEDULERS: &[&str] = &["flsched", "smove", "rr2", "eevdf", "rr"];
/// The part that is played always.
const USUAL_SCHEDULERS: &[&str] = &["flsched"];
const USUAL_SCENARIOS: &[&str] =
    &["chain", "nice-mix", "pinned", "spin-barrier-16-cpus", "yield-ring", "yielders-part"];
/// The simulator has no groups of tasks, and nothing that watches how memory is used 200 times a second.
const QUIET: &str = "noautogroup damon_stat.enabled=0";
/// Real seconds that a machine may take; a quiet host needs an eighth of it.
const LIMIT: &str = "3000";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--guest", scheduler, files @ ..] => return guest::play_all(scheduler, files),
        ["--play", file] => return player::play(&read(file)),
        _ => {}
    }
    let extent = variable("CONFORMANCE").unwrap_or_default();
    let picked = |name: &str, by: &str, usual: &[&str]| match variable(by) {
        Some(parts) => parts.split(',').any(|part| name.contains(part)),
        None => !extent.is_empty() || usual.contains(&name),
    };
    let scenarios: Vec<(String, PathBuf)> =
        scenarios().into_iter().filter(|(name, _)| picked(name, "SCENARIOS", USUAL_SCENARIOS)).collect();
    let mut by_cpus: BTreeMap<usize, Vec<(String, PathBuf)>> = BTreeMap::new();
    for (name, file) in scenarios {
        by_cpus.entry(read(&file.to_string_lossy()).cpus).or_default().push((name, file));
    }
    let measured = Arc::new(Mutex::new(Vec::new()));
    let record = (!extent.starts_with("record")).then(|| Arc::new(recorded()));
    let kernel = extent.ends_with("simulator").then(|| Arc::new(recorded()));
    let is_twice = extent == "record";
    let mut trials = Vec::new();
    for &scheduler in SCHEDULERS.iter().filter(|name| picked(name, "POLICIES", USUAL_SCHEDULERS)) {
        for (&cpus, scenarios) in &by_cpus {
            let results = Arc::new(OnceLock::new());
            let files: Arc<Vec<PathBuf>> = Arc::new(scenarios.iter().map(|(_, file)| file.clone()).collect());
            for (turn, (name, file)) in scenarios.iter().cloned().enumerate() {
                let (files, results) = (files.clone(), results.clone());
                let (measured, record, kernel) = (measured.clone(), record.clone(), kernel.clone());
                let trial = Trial::test(format!("{scheduler}::{name}"), move || {
                    let results: &Machines = results.get_or_init(|| match kernel {
                        Some(record) => Machines::recorded(&record, scheduler),
                        None => Machines {
                            first: boot(scheduler, cpus, &files, CLOCK),
                            again: is_twice.then(|| boot(scheduler, cpus, &files, CLOCK_AGAIN)),
                        },
                    });
                    let pair = judge::measure(read(&file.to_string_lossy()), scheduler, &name, results)?;
                    let outcome = record.map_or(Ok(()), |record| judge::judge(&pair, &record));
                    measured.lock().expect("no test panics with it").push(pair.entry);
                    outcome
                });
                trials.push((turn, trial));
            }
        }
    }
    // The first scenario of every machine comes before the second of any, so that the test threads boot different machines.
    trials.sort_by_key(|(turn, _)| *turn);
    let trials = trials.into_iter().map(|(_, trial)| trial).collect();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    if record.is_none() && !conclusion.has_failed() {
        write(&measured.lock().expect("no test panics with it"));
    }
    conclusion.exit_code()
}

fn record_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../results").join(format!("conformance-{KERNEL}.json"))
}

/// How far apart they were when that was last recorded.
fn recorded() -> Record {
    let file = record_file();
    let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    reports::read(&bytes).unwrap_or_else(|e| panic!("{} {e}", file.display()))
}

/// Replaces what was measured, and keeps the other entries.
fn write(measured: &[Entry]) {
    let kept = if record_file().exists() { recorded().entries } else { Vec::new() };
    let is_kept = |entry: &Entry| {
        !measured.iter().any(|new| (&new.scenario, &new.scheduler) == (&entry.scenario, &entry.scheduler))
    };
    let mut entries: Vec<Entry> = kept.into_iter().filter(is_kept).chain(measured.iter().cloned()).collect();
    entries.sort_by_key(|entry| {
        let scheduler = SCHEDULERS.iter().position(|name| *name == entry.scheduler);
        (entry.cpus, entry.scenario.clone(), scheduler)
    });
    let (kernel, clock) = (KERNEL.into(), CLOCK.into());
    let record = Record { kernel, clock, entries };
    let written = reports::bytes(&record).and_then(|bytes| replace(&record_file(), &bytes));
    written.unwrap_or_else(|e| panic!("{}: {e}", record_file().display()));
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

/// The results of a machine, and of the same booted once more.
struct Machines {
    first: MachineResults,
    again: Option<MachineResults>,
}

impl Machines {
    fn recorded(record: &Record, scheduler: &str) -> Self {
        let entries = || record.entries.iter().filter(|entry| entry.scheduler == scheduler);
        let first = entries().map(|entry| (entry, entry.kernel));
        let again = entries().filter_map(|entry| Some((entry, entry.again?)));
        Self { first: MachineResults::recorded(first), again: Some(MachineResults::recorded(again)) }
    }
}

/// By scenario the numbers of its runs, and the whole output for failures.
struct MachineResults {
    plays: BTreeMap<String, Vec<Result<Figures, String>>>,
    transcript: String,
}

impl MachineResults {
    /// The medians stand for all runs.
    fn recorded<'a>(medians: impl Iterator<Item = (&'a Entry, Figures)>) -> Self {
        let plays = medians.map(|(entry, median)| (entry.scenario.clone(), vec![Ok(median); entry.plays]));
        Self { plays: plays.collect(), transcript: "it is not in the record".into() }
    }

    /// The runs of a scenario, of which there must be so many.
    fn of(&self, name: &str, count: usize) -> Result<Vec<Figures>, String> {
        let plays = self.plays.get(name).cloned().unwrap_or_default();
        let plays: Vec<Figures> =
            plays.into_iter().collect::<Result<_, _>>().map_err(|why| format!("on the kernel: {why}"))?;
        if plays.len() < count {
            return Err(format!("the machine ended before this scenario did; it said:\n{}", self.transcript));
        }
        Ok(plays)
    }
}

fn boot(scheduler: &str, cpus: usize, files: &[PathBuf], clock: &str) -> MachineResults {
    let me = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flsched"));
    command.args(["vm", "--verbose", "--kernel", KERNEL, "--timeout", LIMIT]);
    command.arg("--topology").arg(format!("1s{}c1t", cpus.max(2)));
    command.args(["--clock", clock, "--cgroup", "root", "--append", QUIET]);
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
