//! `flsched run -- CMD`: attached while CMD runs; its exit code and its signals are passed through.
use crate::args::Run;
use crate::signals::Forwarder;
use anyhow::{Context, Result};
use flsched_base::process::wait_for;
use flsched_compare::exit;
use flsched_host::policy_file;
use flsched_host::{
    Change, Scope, Share, StarvationWatch, StarvedTask, Starving, Supervisor, check_partial, release,
    release_children, start_in_sched_ext,
};
use flsched_spec::UsageError;
use nix::sys::prctl::set_child_subreaper;
use nix::unistd::Pid;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// How often the scheduler is asked whether it is still attached.
const CHECK: Duration = Duration::from_millis(200);

pub fn run(args: &Run) -> Result<u8> {
    let spec = policy_file::read(&args.policy)?;
    let scope = if args.partial { Scope::Partial } else { Scope::Machine };
    let (program, words) =
        args.command.split_first().ok_or_else(|| UsageError("no command to run".into()))?;
    let waits = args.waits.map(|waits| (waits, waits.choose_here()));

    if args.partial && !args.force {
        check_partial()?;
    }
    let mut signals = Forwarder::new().context("cannot catch signals")?;
    let stop = AtomicBool::new(false);
    let mut supervisor = Supervisor::attach(&spec, scope, &stop)?;
    for warning in supervisor.warnings() {
        eprintln!("flsched: warning: {warning}");
    }
    if let Some(signal) = signals.end() {
        detach(&mut supervisor)?;
        return Ok(exit::of_signal(signal));
    }
    let share =
        args.share.map(|percent| Share::set(percent, keeper()?).map_err(anyhow::Error::from)).transpose()?;
    let mut command = Command::new(program);
    command.args(words);
    if let Some((waits, choice)) = &waits {
        eprintln!("flsched: waits {waits}: {choice}");
        command.envs(choice.environment());
    }
    if args.partial {
        start_in_sched_ext(&mut command);
        // What outlives the command is still found at the end, and leaves the class.
        set_child_subreaper(true).context("cannot keep the command's processes")?;
    }
    let mut watch = args.partial.then(StarvationWatch::of_command);
    // Neither the command nor the thread that starts it inherits the priority.
    let _raised = args.partial.then(|| supervisor.raise());
    let mut child = match spawn(command, &mut supervisor, &mut watch)? {
        Ok(child) => child,
        Err(error) => {
            detach(&mut supervisor)?;
            eprintln!("flsched: {}: {error}", program.to_string_lossy());
            return Ok(exit::of_start(&error));
        }
    };
    let status = loop {
        if let Some(status) = wait_for(&mut child, CHECK)? {
            break status;
        }
        signals.forward(Pid::from_raw(child.id() as i32));
        check(&mut supervisor, spec.policy.name);
        keep_going(&mut supervisor, &mut watch)?;
    };
    drop(share);
    if args.partial {
        release_children();
    }
    detach(&mut supervisor)?;
    Ok(exit::of_status(status))
}

/// The process that outlives this one, should it be killed.
fn keeper() -> Result<Command> {
    let mut keeper = Command::new(std::env::current_exe().context("cannot find this program's file")?);
    keeper.arg("keep-servers");
    Ok(keeper)
}

pub fn keep_servers() -> Result<u8> {
    flsched_host::keep_servers().context("cannot put back the settings of sched_ext's deadline servers")?;
    Ok(0)
}

/// Starts the command. In partial mode its first task can starve before the program is loaded, and this
/// process would wait for that. Then the scheduler is detached in the meantime.
fn spawn(
    mut command: Command,
    supervisor: &mut Supervisor<'_>,
    watch: &mut Option<StarvationWatch>,
) -> Result<io::Result<Child>> {
    if watch.is_none() {
        return Ok(command.spawn());
    }
    let spawning = thread::spawn(move || command.spawn());
    while !spawning.is_finished() {
        thread::sleep(Duration::from_millis(1));
        keep_going(supervisor, watch)?;
    }
    spawning.join().map_err(|_| anyhow::anyhow!("the thread that starts the command has panicked"))
}

/// Gives tasks that starve in partial mode to the default scheduler, and says so. If the kernel does not let it, why the
/// scheduler must be detached before the kernel ejects it.
pub fn set_free(tasks: &[StarvedTask]) -> Result<(), String> {
    let named: Vec<String> = tasks.iter().map(StarvedTask::to_string).collect();
    let named = named.join(", ");
    release(tasks).map_err(|error| format!("{named} and cannot leave SCHED_EXT ({error})"))?;
    eprintln!(
        "flsched: warning: {named}, as the kernel prefers other tasks to those of SCHED_EXT: given to the default scheduler"
    );
    Ok(())
}

/// Detaches the scheduler if the command starves under it.
fn keep_going(supervisor: &mut Supervisor<'_>, watch: &mut Option<StarvationWatch>) -> Result<()> {
    if supervisor.running().is_none() {
        return Ok(());
    }
    let why = match watch.as_mut().and_then(StarvationWatch::check) {
        None => return Ok(()),
        Some(Starving::Command) => "for 2 s no task of the command has run".to_owned(),
        Some(Starving::Tasks(tasks)) => match set_free(&tasks) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        },
    };
    *watch = None;
    eprintln!(
        "flsched: *** DETACHED *** {why}, as the kernel prefers other tasks to those of --partial: the rest of the \
         command runs under the default scheduler"
    );
    release_children();
    detach(supervisor)
}

/// Reports loudly if the kernel ejected the policy, and when it is attached again.
fn check(supervisor: &mut Supervisor<'_>, policy: &str) {
    const REST: &str = "the rest of the command runs under the default scheduler";
    let until = |wait: Duration| format!("the default scheduler takes over for {} s", wait.as_secs());
    match supervisor.check() {
        Ok(None | Some(Change::Hotplug)) => {}
        Ok(Some(Change::Attached)) => eprintln!("flsched: {policy} schedules this machine again"),
        Ok(Some(Change::Ejected(report, wait))) => {
            let waited = report.waiter.map(|waiter| format!("; {waiter} waited")).unwrap_or_default();
            let by = if report.by_guard {
                "DETACHED *** flsched detached"
            } else {
                "EJECTED *** the kernel ejected"
            };
            eprintln!("flsched: *** {by} {policy} ({}{waited}): {}", report.reason, until(wait));
        }
        Ok(Some(Change::Refused(error, wait))) => {
            eprintln!("flsched: {policy} cannot be attached again ({error}): {}", until(wait));
        }
        Ok(Some(Change::Ended(report))) => {
            eprintln!("flsched: *** DETACHED *** the kernel ended {policy} ({}): {REST}", report.reason);
        }
        Err(error) => eprintln!("flsched: *** DETACHED *** {error}: {REST}"),
    }
}

fn detach(supervisor: &mut Supervisor<'_>) -> Result<()> {
    let Some(name) = supervisor.running().map(|running| running.policy().name) else { return Ok(()) };
    if let Some(report) = supervisor.detach()?.filter(|report| report.ejected) {
        eprintln!("flsched: *** EJECTED *** the kernel ejected {name}: {}", report.reason);
    }
    Ok(())
}
