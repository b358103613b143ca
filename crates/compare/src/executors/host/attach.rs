//! Attaches a scheduler before a run and detaches it after the run.
use super::child::Captured;
use super::setting::Setting;
use crate::environment::first_line;
use crate::execute::{Attachment, ExecError};
use crate::{Scheduler, environment};
use flsched_base::process::end_with_parent;
use flsched_host::{Running, Scope, sched_ext, start};
use flsched_spec as spec;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a peer may take to load. The verifier can be slow, above all in an emulated guest.
const ENABLE_LIMIT: Duration = Duration::from_secs(120);
/// How long a scheduler may take to detach.
const DISABLE_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two checks of the kernel's state, outside of runs.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// An attached scheduler, or the settings for one of the kernel's own. Dropping it detaches and restores.
pub(super) enum Attached {
    Settings(Vec<Setting>),
    Policy(Running),
    Peer(Peer),
}

/// How a scheduler ended before it was detached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Premature {
    /// The kernel ejected it.
    Ejected(String),
    /// It ended in another way, for example because a CPU went offline.
    Ended(String),
}

/// The findings about a scheduler once it is detached.
pub(super) struct Detached {
    pub(super) premature: Option<Premature>,
    pub(super) stats: Vec<(String, u64)>,
    pub(super) state_after: Option<String>,
}

/// What the kernel reports as attached; `None`: it has no sched_ext.
pub(super) fn attachment() -> Option<Attachment> {
    sched_ext::status().map(|status| Attachment {
        state: status.state,
        ops: status.ops,
        enable_seq: status.enable_seq,
    })
}

fn state() -> Option<String> {
    attachment().map(|attachment| attachment.state)
}

/// Whether the attached scheduler has the name that this scheduler gives itself. Names of peers are unknown, so every
/// name matches: a peer is started only when nothing is attached.
pub(super) fn is_ops_of(ops: Option<&str>, scheduler: &Scheduler) -> bool {
    let Some(ops) = ops else { return false };
    match scheduler {
        Scheduler::Policy(spec) => ops == spec.policy.ops_name(),
        Scheduler::Peer(_) => true,
        Scheduler::Kernel(_) => false,
    }
}

/// The scheduler's version, as it prints it.
pub(super) fn version(scheduler: &Scheduler) -> Option<String> {
    match scheduler {
        Scheduler::Kernel(_) => Some(format!("kernel {}", environment::kernel_release())),
        Scheduler::Policy(spec) => Some(spec.policy.version.to_string()),
        Scheduler::Peer(peer) => first_line(&peer.program, "--version"),
    }
}

/// Attaches a scheduler. The inner error: this scheduler failed to start. The outer error: no scheduler can be tested
/// on this machine now.
pub(super) fn attach(
    scheduler: &Scheduler,
    cancel: &AtomicBool,
) -> Result<Result<Attached, String>, ExecError> {
    free(attachment())?;
    match scheduler {
        Scheduler::Kernel(spec) => {
            let set = |(name, value): (&&'static str, &u64)| {
                Setting::set(name, *value).map_err(|error| format!("cannot set {name} of {spec}: {error}"))
            };
            Ok(spec.settings().iter().map(set).collect::<Result<_, _>>().map(Attached::Settings))
        }
        Scheduler::Policy(spec) => {
            Ok(start(spec, Scope::Machine).map(Attached::Policy).map_err(|error| error.to_string()))
        }
        Scheduler::Peer(peer) => Peer::start(peer, cancel).map(|peer| peer.map(Attached::Peer)),
    }
}

/// An error if a sched_ext scheduler is attached.
pub(super) fn free(attachment: Option<Attachment>) -> Result<(), ExecError> {
    match attachment {
        Some(Attachment { state, ops, .. }) if state != "disabled" => Err(ExecError::Unable(format!(
            "the sched_ext scheduler `{}` is {state} on this machine: stop it first",
            ops.as_deref().unwrap_or("unknown")
        ))),
        _ => Ok(()),
    }
}

impl Attached {
    /// Detaches and waits until the default scheduler is back.
    pub(super) fn detach(self) -> Result<Detached, ExecError> {
        let (premature, stats) = match self {
            Self::Settings(settings) => {
                let mut changed = None;
                for setting in settings {
                    changed = changed.or(setting.restore().map_err(|error| {
                        ExecError::Unable(format!("cannot set the kernel back to what it was: {error}"))
                    })?);
                }
                (changed.map(Premature::Ended), Vec::new())
            }
            Self::Policy(running) => {
                let stats = running.stats().unwrap_or_default();
                let before = running.exited();
                let after = running
                    .stop()
                    .map_err(|error| ExecError::Unable(format!("cannot detach the scheduler: {error}")))?;
                let report = before.or(after.ejected.then_some(after));
                let premature = report.map(|report| match report.ejected {
                    true => Premature::Ejected(report.reason),
                    false => Premature::Ended(report.reason),
                });
                (premature, stats)
            }
            Self::Peer(peer) => (peer.stop().map(Premature::Ejected), Vec::new()),
        };
        if !until(DISABLE_LIMIT, || state().is_none_or(|state| state == "disabled")) {
            return Err(ExecError::Unable(format!(
                "the scheduler is still {} {DISABLE_LIMIT:?} after it was asked to detach",
                state().unwrap_or_default()
            )));
        }
        Ok(Detached { premature, stats, state_after: state() })
    }
}

/// Another project's scheduler. It is attached while its process exists.
pub(super) struct Peer {
    process: Child,
    output: Captured,
}

impl Peer {
    /// Starts the program and waits until its scheduler is in force.
    fn start(
        spec::Peer { program, arguments }: &spec::Peer,
        cancel: &AtomicBool,
    ) -> Result<Result<Self, String>, ExecError> {
        let spawn = || -> std::io::Result<Self> {
            let output = Captured::new()?;
            let mut command = Command::new(program);
            command
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(output.writer()?)
                .stderr(output.writer()?)
                .process_group(0);
            // A killed `compare` leaves nothing attached: the kernel kills the peer with it, and then
            // restores the default scheduler.
            let process = end_with_parent(&mut command).spawn()?;
            Ok(Self { process, output })
        };
        let mut peer = match spawn() {
            Ok(peer) => peer,
            Err(error) => return Ok(Err(format!("cannot start `{program}`: {error}"))),
        };
        let mut ended = None;
        let settled = until(ENABLE_LIMIT, || {
            ended = peer.process.try_wait().ok().flatten();
            ended.is_some() || cancel.load(Ordering::Relaxed) || state().as_deref() == Some("enabled")
        });
        if cancel.load(Ordering::Relaxed) {
            return Err(ExecError::Interrupted);
        }
        Ok(match (settled, ended) {
            (true, None) => Ok(peer),
            (_, Some(status)) => {
                Err(format!("`{program}` ended without attaching: {status}: {}", peer.output.tail()))
            }
            (false, None) => Err(format!("`{program}` did not attach within {ENABLE_LIMIT:?}")),
        })
    }

    /// Interrupts the program as Ctrl-C does. Returns the reason if the scheduler had ended before.
    fn stop(mut self) -> Option<String> {
        let ended_before = self.process.try_wait().ok().flatten();
        let attached = state().as_deref() == Some("enabled");
        self.end();
        match ended_before {
            Some(status) => Some(format!("its program ended: {status}: {}", self.output.tail())),
            None if !attached => Some(format!("it was no longer attached: {}", self.output.tail())),
            None => None,
        }
    }

    fn end(&mut self) {
        let group = Pid::from_raw(self.process.id() as libc::pid_t);
        let _ = killpg(group, Signal::SIGINT);
        if !until(DISABLE_LIMIT, || !matches!(self.process.try_wait(), Ok(None))) {
            let _ = killpg(group, Signal::SIGKILL);
            let _ = self.process.wait();
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// Polls `so` until it is true; false: it was not within `limit`.
fn until(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if so() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ops() {
        let policy = "flsched".parse::<Scheduler>().unwrap();
        assert!(is_ops_of(Some(concat!("flsched_", env!("CARGO_PKG_VERSION"))), &policy));
        assert!(!is_ops_of(Some("flsched_mine_1e05ae29f6d1"), &policy));
        assert!(!is_ops_of(Some("flsched2"), &policy));
        assert!(!is_ops_of(None, &policy));
        let peer = "scx_bpfland".parse().unwrap();
        assert!(is_ops_of(Some("bpfland_1.0.19"), &peer));
        assert!(!is_ops_of(Some("flsched"), &"eevdf".parse().unwrap()));
    }

    #[test]
    fn another_scheduler_is_named() {
        let at =
            |state: &str| Some(Attachment { state: state.into(), ops: Some("lavd".into()), enable_seq: 1 });
        assert!(free(None).is_ok() && free(at("disabled")).is_ok());
        assert!(free(at("enabled")).unwrap_err().to_string().contains("`lavd` is enabled"));
    }
}
