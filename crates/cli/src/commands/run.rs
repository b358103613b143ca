//! `flsched run -- CMD`: attached while CMD runs; its exit code and its signals are passed through.
use crate::args::Run;
use crate::exit::{self, Usage};
use crate::signals::Forwarder;
use anyhow::{Context, Result};
use flsched_policies::{Error, Options, Policy, Running, parse_spec};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// How often the scheduler is asked whether it is still attached, in milliseconds.
const CHECK_MS: u16 = 200;
/// Tries against CPUs that come and go while the scheduler attaches.
const ATTACH_TRIES: usize = 20;

pub fn run(args: &Run) -> Result<u8> {
    let (policy, mut options) = parse_spec(&args.policy)?;
    options.partial = args.partial;
    let (program, words) = args.command.split_first().ok_or_else(|| Usage("no command to run".into()))?;
    let waits = args.waits.map(|waits| (waits, waits.choose_here()));

    let mut signals = Forwarder::new().context("cannot catch signals")?;
    let mut running = Some(start(policy, &options)?);
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
    let mut child = match command.spawn() {
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
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        wait_a_moment(&child);
        signals.forward(Pid::from_raw(child.id() as i32));
        running = check(running, policy, &options);
    };
    detach(running)?;
    Ok(exit::of_status(status))
}

fn start(policy: &'static Policy, options: &Options) -> Result<Running, Error> {
    let mut tries = 1;
    loop {
        match policy.start(options) {
            Err(Error::HotplugRace) if tries < ATTACH_TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

/// Until the child ends, a signal arrives, or it is time to look after the scheduler.
fn wait_a_moment(child: &Child) {
    // SAFETY: pidfd_open() takes two integers; the descriptor it returns is ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let timeout = PollTimeout::from(CHECK_MS);
    match i32::try_from(fd) {
        Ok(fd) if fd >= 0 => {
            // SAFETY: just opened, owned by nobody else.
            let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
            let _ = poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout);
        }
        _ => {
            let _ = poll(&mut [], timeout);
        }
    }
}

/// Starts the policy again after CPU hotplug; says it loudly if the kernel threw it out.
fn check(running: Option<Running>, policy: &'static Policy, options: &Options) -> Option<Running> {
    let current = running?;
    let Some(report) = current.exited() else { return Some(current) };
    if let Err(error) = current.stop() {
        eprintln!("flsched: {error}");
    }
    if report.restart {
        match start(policy, options) {
            Ok(again) => return Some(again),
            Err(error) => eprintln!("flsched: after CPU hotplug: {error}"),
        }
    }
    eprintln!(
        "flsched: *** EJECTED *** the kernel threw {} out ({}): the rest of the command runs under the \
         default scheduler",
        policy.name, report.reason
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
