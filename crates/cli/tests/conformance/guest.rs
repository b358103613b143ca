//! Inside the machine: plays each scenario some times under the scheduler, one line of result each.
use crate::common::{enter_class, set_online};
use crate::judge::Tally;
use crate::player::{FIRST, TASK, wait_for_tick};
use crate::read;
use flsched_compare::workload::runnable;
use flsched_host::{Backoff, Change, Error, Scope, Supervisor};
use flsched_probes::tally::{TaskFilter, counted};
use flsched_sim::scenario::Scenario;
use flsched_spec::workload::Program;
use flsched_spec::{Policy, PolicySpec};
use nix::libc;
use nix::mount::MsFlags;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{scope, sleep};
use std::time::Duration;

pub const PLAYS: usize = 3;
const PREFIX: &str = "play";
/// Pause between two checks of a policy.
const CHECK: Duration = Duration::from_millis(100);

pub fn play_all(scheduler: &str, files: &[&str]) -> ExitCode {
    // Real-time tasks are not throttled for other tasks: the scenarios have none.
    write("/proc/sys/kernel/sched_rt_runtime_us", "-1");
    for file in files {
        let scenario = read(file);
        let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        for cpu in 1..4 {
            set_online(cpu, cpu < scenario.cpus);
        }
        set_base_slice(scenario.cpus);
        let plays =
            under(scheduler, || (0..PLAYS).map(|_| play_one(&scenario, file, scheduler == "rr")).collect());
        match plays {
            Ok(plays) => plays.iter().for_each(|play| {
                println!("{PREFIX} {name} {} {}", play.switches, play.migrations);
            }),
            Err(why) => println!("{PREFIX} {name} failed {}", why.replace('\n', " | ")),
        }
    }
    ExitCode::SUCCESS
}

/// The other way round, on the host.
pub fn parse(line: &str) -> Option<(String, Result<Tally, String>)> {
    let (name, result) = line.strip_prefix(PREFIX)?.trim_start().split_once(' ')?;
    let play = match result.strip_prefix("failed ") {
        Some(why) => Err(why.replace(" | ", "\n")),
        None => Ok(tally(result)?),
    };
    Some((name.to_owned(), play))
}

/// `SWITCHES MIGRATIONS`.
fn tally(line: &str) -> Option<Tally> {
    let (switches, migrations) = line.trim().split_once(' ')?;
    Some(Tally { switches: switches.parse().ok()?, migrations: migrations.parse().ok()? })
}

/// The kernel's value on a machine with this number of CPUs. When CPUs go offline it counts one
/// more.
fn set_base_slice(cpus: usize) {
    mount("debugfs", "/sys/kernel/debug");
    let ns = 700_000 * (1 + cpus.ilog2());
    write("/sys/kernel/debug/sched/base_slice_ns", &ns.to_string());
}

/// Unless it is.
pub fn mount(kind: &str, folder: &str) {
    if fs::read_dir(folder).expect("a folder").next().is_none() {
        let nothing = None::<&str>;
        nix::mount::mount(nothing, folder, Some(kind), MsFlags::empty(), nothing).expect("root may");
    }
}

pub fn write(file: &str, text: &str) {
    fs::write(file, text).unwrap_or_else(|e| panic!("{file}: {e}"));
}

/// While the policy is attached, if it is one; it must still be in the end.
fn under(scheduler: &str, play: impl FnOnce() -> Result<Vec<Tally>, String>) -> Result<Vec<Tally>, String> {
    let Ok(policy) = Policy::find(scheduler) else { return play() };
    let spec = PolicySpec::new(policy);
    let stop = AtomicBool::new(false);
    let (status, attached) = channel();
    scope(|threads| {
        let (spec, stop) = (&spec, &stop);
        let keeper = threads.spawn(move || -> Result<(), Error> {
            let mut supervisor = Supervisor::attach(spec, Scope::Machine, Backoff::default(), stop)?;
            drop(status.send(Ok(())));
            while !stop.load(Ordering::Relaxed) {
                match supervisor.check()? {
                    Some(Change::Ejected(report, _) | Change::GivenUp(report)) => {
                        drop(status.send(Err(report.reason)));
                    }
                    Some(_) => {}
                    None => sleep(CHECK),
                }
            }
            supervisor.detach().map(drop)
        });
        let outcome = match attached.recv() {
            Ok(Ok(())) => play(),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("it does not attach".into()),
        };
        stop.store(true, Ordering::Relaxed);
        match keeper.join().expect("it does not panic") {
            // CPUs come and go, and it is being attached again.
            Ok(()) | Err(Error::HotplugRace) => {}
            Err(error) => return Err(error.to_string()),
        }
        match attached.try_iter().find_map(Result::err) {
            Some(why) => Err(format!("it was ejected: {why}")),
            None => outcome,
        }
    })
}

fn play_one(scenario: &Scenario, file: &str, is_rr: bool) -> Result<Tally, String> {
    let mut command = match &scenario.workload {
        Some(workload) => {
            let program = Program::sized(workload, 4).map_err(|error| error.to_string())?;
            let argv = runnable(&program).argv(&["flsched".into(), "workload".into()], Path::new("/tmp"));
            let mut command = Command::new(&argv[0]);
            command.args(&argv[1..]);
            command
        }
        None => {
            let mut command = Command::new("/proc/self/exe");
            command.args(["--play", file]);
            command
        }
    };
    if is_rr {
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(|| enter_class(libc::SCHED_RR, 1)) };
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // The first process of a program takes part in its work; the player's only makes the others.
    let filter = match &scenario.workload {
        Some(_) => TaskFilter { names: &["hackbench", "flsched"], except_children_of: None },
        None => TaskFilter { names: &[FIRST, TASK], except_children_of: Some(std::process::id()) },
    };
    let (counts, output) = counted(filter, || {
        wait_for_tick();
        command.output()
    })
    .map_err(|e| e.to_string())?;
    let output = output.map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(Tally { switches: counts.switches, migrations: counts.migrations });
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&said)))
}
