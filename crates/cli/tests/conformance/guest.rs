//! Inside the machine: plays each scenario some times under the scheduler, one line of result each.
use crate::common::{enter_class, set_online};
use crate::player::{self, FIRST, TASK, wait_for_tick};
use crate::read;
use flsched_compare::workload::runnable;
use flsched_host::{Change, Error, Scope, Supervisor};
use flsched_probes::tally::{TaskFilter, counted};
use flsched_sim::conformance::{Figures, latencies};
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

/// The time between two ticks, on the kernel and in the simulator.
const TICK_NS: u64 = 4_000_000;

/// How often a scenario is played.
pub fn plays(scenario: &Scenario) -> usize {
    if is_unsteady(scenario) { 15 } else { 3 }
}

/// Whether the runs of a scenario differ much. A program depends on the moment at which it begins, and tasks that yield until
/// others have arrived depend on microseconds.
pub fn is_unsteady(scenario: &Scenario) -> bool {
    scenario.workload.is_some() || !scenario.barriers.is_empty()
}

/// How much later than the first of `count` runs this one begins. A program sets itself up for milliseconds, and the moment
/// between two ticks at which its work begins decides much of what follows. So its runs begin at that many such moments.
pub fn later_ns(scenario: &Scenario, index: u64, count: u64) -> u64 {
    if scenario.workload.is_some() { TICK_NS * index / count } else { 0 }
}

const PREFIX: &str = "play";
/// Pause between two checks of a policy.
const CHECK: Duration = Duration::from_millis(100);

pub fn play_all(scheduler: &str, files: &[&str]) -> ExitCode {
    // Real-time tasks are not throttled for other tasks: the scenarios have none.
    write("/proc/sys/kernel/sched_rt_runtime_us", "-1");
    for file in files {
        let scenario = read(file);
        if scenario.cpus == 1 {
            go_on_with_one_cpu();
        }
        let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
        let plays = under(scheduler, || {
            (0..plays(&scenario)).map(|index| play_one(&scenario, file, scheduler == "rr", index)).collect()
        });
        match plays {
            Ok(plays) => plays.iter().for_each(|play| {
                println!("{PREFIX} {name} {}", serde_json::to_string(play).expect("numbers"));
            }),
            Err(why) => println!("{PREFIX} {name} failed {}", why.replace('\n', " | ")),
        }
    }
    ExitCode::SUCCESS
}

/// The other way round, on the host.
pub fn parse(line: &str) -> Option<(String, Result<Figures, String>)> {
    let (name, result) = line.strip_prefix(PREFIX)?.trim_start().split_once(' ')?;
    let play = match result.strip_prefix("failed ") {
        Some(why) => Err(why.replace(" | ", "\n")),
        None => Ok(serde_json::from_str(result).ok()?),
    };
    Some((name.to_owned(), play))
}

/// A machine that has booted with one CPU has other costs than all others: its kernel leaves out the locks. So it boots
/// with two. With a CPU offline the kernel's slice would be that of two CPUs.
fn go_on_with_one_cpu() {
    set_online(1, false);
    mount("debugfs", "/sys/kernel/debug");
    write("/sys/kernel/debug/sched/base_slice_ns", "700000");
}

/// Unless it is.
fn mount(kind: &str, folder: &str) {
    if fs::read_dir(folder).expect("a folder").next().is_none() {
        let nothing = None::<&str>;
        nix::mount::mount(nothing, folder, Some(kind), MsFlags::empty(), nothing).expect("root may");
    }
}

fn write(file: &str, text: &str) {
    fs::write(file, text).unwrap_or_else(|e| panic!("{file}: {e}"));
}

/// While the policy is attached, if it is one; it must still be in the end.
fn under(
    scheduler: &str,
    play: impl FnOnce() -> Result<Vec<Figures>, String>,
) -> Result<Vec<Figures>, String> {
    let Ok(policy) = Policy::find(scheduler) else { return play() };
    let spec = PolicySpec::new(policy);
    let stop = AtomicBool::new(false);
    let (status, attached) = channel();
    scope(|threads| {
        let (spec, stop) = (&spec, &stop);
        let keeper = threads.spawn(move || -> Result<(), Error> {
            let mut supervisor = Supervisor::attach(spec, Scope::Machine, stop)?;
            drop(status.send(Ok(())));
            while !stop.load(Ordering::Relaxed) {
                match supervisor.check()? {
                    Some(Change::Ejected(report, _)) => {
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

fn play_one(scenario: &Scenario, file: &str, is_rr: bool, index: usize) -> Result<Figures, String> {
    let program = match &scenario.workload {
        Some(workload) => {
            Some(Program::sized(workload, scenario.cpus as u32).map_err(|error| error.to_string())?)
        }
        None => None,
    };
    let mut command = match &program {
        Some(program) => {
            let argv = runnable(program).argv(&["flsched".into(), "workload".into()], Path::new("/tmp"));
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
    let filter = match &program {
        Some(_) => TaskFilter { names: &["hackbench", "flsched"], except_children_of: None },
        None => TaskFilter { names: &[FIRST, TASK], except_children_of: Some(std::process::id()) },
    };
    let (counts, output) = counted(filter, || {
        wait_for_tick(later_ns(scenario, index as u64, plays(scenario) as u64));
        command.output()
    })
    .map_err(|e| e.to_string())?;
    let output = output.map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if !output.status.success() {
        return Err(format!("{}\n{said}", output.status));
    }
    let time_s = match &program {
        Some(program) => runnable(program).measured(&said, 0.0)?.time_s,
        None => player::time_s(&said).ok_or_else(|| format!("it did not print its time:\n{said}"))?,
    };
    let sorted = &counts.latencies_ns;
    let percentile = |share: f64| {
        let index = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
        sorted.get(index).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
    };
    let (wakeup_p50_us, wakeup_p99_us) = latencies(sorted.len(), percentile(0.5), percentile(0.99));
    Ok(Figures {
        time_us: time_s * 1e6,
        switches: counts.switches as f64,
        migrations: counts.migrations as f64,
        wakeup_p50_us,
        wakeup_p99_us,
    })
}
