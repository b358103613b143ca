//! Loads are recorded on a kernel under EEVDF and under FLSCHED, and the recordings under EEVDF are replayed in the
//! simulator under both. Under EEVDF the replays have as many switches, as much utilisation and the same p99 of the wake-up
//! latency as the recordings, or do not differ by more than in `results/recordings-6.18.json`; that counts between the
//! ranges of all recordings and all replays. Under FLSCHED they are a prediction, which is shown beside what FLSCHED did.
//!
//! Nothing is tested without `FLSCHED_TEST_RECORDINGS=all`, because it takes long and needs PostgreSQL;
//! `FLSCHED_TEST_RECORDINGS=record` writes that file. `FLSCHED_TEST_LOADS=hackbench,build` picks loads.
mod loads;

use flsched_base::files::replace;
use flsched_base::reports;
use flsched_recording::Figures;
use flsched_recording::replays::{Entry, Ratios, Replays};
use libtest_mimic::{Arguments, Failed, Trial};
use loads::Load;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

const FLSCHED: &str = env!("CARGO_BIN_EXE_flsched");
const KERNEL: &str = "6.18";
const CLOCK: &str = "parallel";
const CPUS: u32 = 4;
/// The scheduler whose recordings are replayed comes first.
const SCHEDULERS: [&str; 2] = ["eevdf", "flsched"];
const RECORDINGS: u32 = 5;
const SEEDS: u32 = 5;

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(format!("FLSCHED_TEST_{name}")).ok();
    let extent = variable("RECORDINGS").unwrap_or_default();
    let is_picked = |name: &str| match variable("LOADS") {
        Some(names) => names.split(',').any(|picked| picked == name),
        None => true,
    };
    let before = (extent != "record").then(|| Arc::new(recorded()));
    let measured = Arc::new(Mutex::new(Vec::new()));
    let loads = loads::ALL.iter().filter(|(name, _)| !extent.is_empty() && is_picked(name));
    let trials = loads.map(|&(name, load)| {
        let (before, measured) = (before.clone(), measured.clone());
        Trial::test(name, move || {
            let (entries, nearest) = measure(name, load)?;
            let worse = before.map_or(Vec::new(), |before: Arc<Replays>| {
                nearest.worse_than(before.find(name, SCHEDULERS[0]))
            });
            let ratios = nearest.ratios();
            measured.lock().expect("no test panics with it").extend(entries);
            match worse.is_empty() {
                true => Ok(()),
                false => {
                    Err(format!("{} differ, simulated over recorded: {ratios:?}", worse.join(", ")).into())
                }
            }
        })
    });
    let trials = trials.collect();
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    if extent == "record" && !conclusion.has_failed() {
        write(&measured.lock().expect("no test panics with it"));
    }
    conclusion.exit_code()
}

fn file() -> PathBuf {
    let results = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../results");
    results.join(format!("recordings-{KERNEL}.json"))
}

fn recorded() -> Replays {
    let bytes = std::fs::read(file()).unwrap_or_else(|e| panic!("{}: {e}", file().display()));
    reports::read(&bytes).unwrap_or_else(|e| panic!("{} {e}", file().display()))
}

/// Replaces what was measured, and keeps the other loads.
fn write(measured: &[Entry]) {
    let mut entries = if file().exists() { recorded().entries } else { Vec::new() };
    entries.retain(|entry| measured.iter().all(|new| new.load != entry.load));
    entries.extend_from_slice(measured);
    entries.sort_by_key(|entry| loads::ALL.iter().position(|(name, _)| *name == entry.load));
    let (kernel, clock) = (KERNEL.into(), CLOCK.into());
    let all = Replays { kernel, clock, cpus: CPUS, recordings: RECORDINGS, seeds: SEEDS, entries };
    let written = reports::bytes(&all).and_then(|bytes| replace(&file(), &bytes));
    written.unwrap_or_else(|e| panic!("{}: {e}", file().display()));
}

fn measure(
    name: &str,
    load: fn(&Path) -> Result<Load, Box<dyn Error>>,
) -> Result<([Entry; 2], Entry), Failed> {
    let folder = tempfile::tempdir()?;
    let load = load(folder.path())?;
    record(&load, folder.path())?;
    let trace = |scheduler: &str, number: u32| folder.path().join(format!("{scheduler}.{number}"));
    let (mut entries, mut nearest) = (Vec::new(), None);
    for scheduler in SCHEDULERS {
        let (mut recorded, mut simulated) = (Vec::new(), Vec::new());
        for number in 0..RECORDINGS {
            for seed in 0..SEEDS {
                let [there, here] =
                    replay(&trace(SCHEDULERS[0], number), scheduler, &trace(scheduler, number), seed)?;
                recorded.push(there);
                simulated.push(here);
            }
        }
        let entry = Entry {
            load: name.into(),
            command: load.command.clone(),
            scheduler: scheduler.into(),
            recorded: Figures::median(&recorded),
            simulated: Figures::median(&simulated),
            ratios: (scheduler == SCHEDULERS[0]).then(|| Ratios::median(&recorded, &simulated)),
        };
        eprintln!(
            "{name} under {scheduler}, recorded: {:?}\nsimulated: {:?}\n{:?}",
            entry.recorded, entry.simulated, entry.ratios
        );
        nearest.get_or_insert_with(|| entry.nearest(&recorded, &simulated));
        entries.push(entry);
    }
    Ok((entries.try_into().expect("one for each scheduler"), nearest.expect("that of the first one")))
}

/// Boots a machine, and records the load there under each scheduler; the files come back as an archive.
fn record(load: &Load, folder: &Path) -> Result<(), Failed> {
    let (cgroup, autogroup) = if load.is_in_session { ("login", 1) } else { ("root", 0) };
    let autogroup = format!("echo {autogroup} > /proc/sys/kernel/sched_autogroup_enabled");
    let mut script = format!("set -e\n{autogroup}\n{}\n", load.prepare);
    for scheduler in SCHEDULERS {
        let under = if scheduler == "eevdf" { "" } else { &format!("{FLSCHED} run --policy {scheduler} --") };
        for number in 0..RECORDINGS {
            let command = &load.command;
            script += &format!("{under} {FLSCHED} record -o /tmp/{scheduler}.{number} -- {command} >&2\n");
        }
    }
    script += &format!("cd /tmp\ntar -c {} {}\n", names(SCHEDULERS[0]), names(SCHEDULERS[1]));
    let archive = folder.join("recordings.tar");
    let mut machine = Command::new(FLSCHED);
    machine.args(["vm", "--kernel", KERNEL, "--clock", CLOCK, "--timeout", "1800", "--memory", "2G"]);
    machine.args(["--cpus", &CPUS.to_string(), "--cgroup", cgroup]);
    for path in &load.include {
        machine.arg("--include").arg(path);
    }
    machine.args(["--", "sh", "-c", &script]).stdin(Stdio::null()).stdout(std::fs::File::create(&archive)?);
    let output = machine.stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || said.contains("CUT SHORT") {
        return Err(format!("in the machine: {}\n{said}", output.status).into());
    }
    let status = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder).status()?;
    if status.success() { Ok(()) } else { Err("the machine sent no archive".into()) }
}

fn names(scheduler: &str) -> String {
    let all: Vec<String> = (0..RECORDINGS).map(|number| format!("{scheduler}.{number}")).collect();
    all.join(" ")
}

/// The figures of `against`, and those of the trace under this scheduler.
fn replay(trace: &Path, scheduler: &str, against: &Path, seed: u32) -> Result<[Figures; 2], Failed> {
    let workload = format!("trace:{}", trace.display());
    let output = Command::new(FLSCHED)
        .args(["sim", "--json", "--workload", &workload, "--scheduler", scheduler])
        .args(["--seed", &seed.to_string()])
        .arg("--against")
        .arg(against)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let of = |side: &str| serde_json::from_value(outcome["replayed"][side].clone());
    Ok([of("recorded")?, of("simulated")?])
}
