//! `flsched run -- CMD`: attached while CMD runs; its exit code and its signals are passed through.
use crate::args::Run;
use crate::exit::{self, Usage};
use crate::policy_file;
use crate::signals::Forwarder;
use anyhow::{Context, Result};
use flsched_host::{Pidfd, Running, Scope, Standstill, check_partial, release_children, start};
use flsched_spec::PolicySpec;
use nix::errno::Errno;
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// How often the scheduler is asked whether it is still attached.
const CHECK: Duration = Duration::from_millis(200);

pub fn run(args: &Run) -> Result<u8> {
    let spec = policy_file::read(&args.policy)?;
    let scope = if args.partial { Scope::Partial } else { Scope::Machine };
    let (program, words) = args.command.split_first().ok_or_else(|| Usage("no command to run".into()))?;
    let waits = args.waits.map(|waits| (waits, waits.choose_here()));

    if args.partial && !args.force {
        check_partial()?;
    }
    let mut signals = Forwarder::new().context("cannot catch signals")?;
    let mut running = Some(start(&spec, scope)?);
    for warning in running.iter().flat_map(Running::warnings) {
        eprintln!("flsched: warning: {warning}");
    }
    let mut command = Command::new(program);
    command.args(words);
    if let Some((waits, choice)) = &waits {
        eprintln!("flsched: waits {waits}: {choice}");
        command.envs(choice.environment());
    }
    if args.partial {
        // SAFETY: between fork and exec only a system call is made.
        unsafe { command.pre_exec(enter_sched_ext) };
    }
    let mut watch = args.partial.then(Standstill::default);
    let mut child = match spawn(command, &mut running, &mut watch)? {
        Ok(child) => child,
        Err(error) => {
            detach(running)?;
            eprintln!("flsched: {}: {error}", program.to_string_lossy());
            return Ok(match error.kind() {
                std::io::ErrorKind::NotFound => exit::NOT_FOUND,
                std::io::ErrorKind::PermissionDenied => exit::NOT_EXECUTABLE,
                _ => exit::FAILURE,
            });
        }
    };
    let end = Pidfd::of(&child).context("cannot wait for the command")?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        end.wait(CHECK);
        signals.forward(Pid::from_raw(child.id() as i32));
        running = check(running, &spec, scope);
        keep_going(&mut running, &mut watch)?;
    };
    detach(running)?;
    Ok(exit::of_status(status))
}

/// Starts the command. In partial mode its first task can stand still before the program is there, and this
/// process with it, which waits for that: then the scheduler is detached meanwhile.
fn spawn(
    mut command: Command,
    running: &mut Option<Running>,
    watch: &mut Option<Standstill>,
) -> Result<io::Result<Child>> {
    if watch.is_none() {
        return Ok(command.spawn());
    }
    let spawning = thread::spawn(move || command.spawn());
    while !spawning.is_finished() {
        thread::sleep(Duration::from_millis(1));
        keep_going(running, watch)?;
    }
    spawning.join().map_err(|_| anyhow::anyhow!("the thread that starts the command has panicked"))
}

/// Detaches the scheduler if the command stands still under it.
fn keep_going(running: &mut Option<Running>, watch: &mut Option<Standstill>) -> Result<()> {
    if running.is_none() || !watch.as_mut().is_some_and(Standstill::is_seen) {
        return Ok(());
    }
    *watch = None;
    eprintln!(
        "flsched: *** DETACHED *** for 2 s no task of the command has run, as the kernel prefers other tasks to \
         those of --partial: the rest of the command runs under the default scheduler"
    );
    release_children();
    detach(running.take())
}

/// Starts the policy again after CPU hotplug; says it loudly if the kernel threw it out.
fn check(running: Option<Running>, spec: &PolicySpec, scope: Scope) -> Option<Running> {
    let current = running?;
    let Some(report) = current.exited() else { return Some(current) };
    if let Err(error) = current.stop() {
        eprintln!("flsched: {error}");
    }
    if report.restart {
        match start(spec, scope) {
            Ok(again) => return Some(again),
            Err(error) => eprintln!("flsched: after CPU hotplug: {error}"),
        }
    }
    eprintln!(
        "flsched: *** EJECTED *** the kernel threw {} out ({}): the rest of the command runs under the \
         default scheduler",
        spec.policy.name, report.reason
    );
    None
}

fn detach(running: Option<Running>) -> Result<()> {
    if let Some(running) = running {
        let name = running.policy().name;
        let report = running.stop()?;
        if report.ejected {
            eprintln!("flsched: *** EJECTED *** the kernel threw {name} out: {}", report.reason);
        }
    }
    Ok(())
}

/// Puts the calling process into class SCHED_EXT, which its children inherit.
fn enter_sched_ext() -> std::io::Result<()> {
    const SCHED_EXT: i32 = 7; // include/uapi/linux/sched.h
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call.
    Errno::result(unsafe { libc::sched_setscheduler(0, SCHED_EXT, &none) }).map(drop).map_err(Into::into)
}
