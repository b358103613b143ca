//! The command that is measured, under the default scheduler and then under the policy.
use crate::Error;
use flsched_base::process::wait_or_terminate;
use flsched_host::{Running, Scope, start};
use flsched_spec::{PolicySpec, UsageError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub struct Request<'a> {
    /// The policy that is compared with the default scheduler.
    pub spec: PolicySpec,
    pub command: Vec<OsString>,
    /// Set to stop early.
    pub stop: &'a AtomicBool,
}

/// The default command: the one of the paper's table, but small enough for any machine.
const DEFAULT_COMMAND: [&str; 6] = ["hackbench", "-p", "-g", "4", "-l", "100"];

/// The command that is measured by default.
pub fn default_command() -> Result<Vec<OsString>, UsageError> {
    which::which(DEFAULT_COMMAND[0]).map_err(|_| {
        UsageError(
            "hackbench is not installed (package rt-tests): install it, or name a command after --".into(),
        )
    })?;
    Ok(DEFAULT_COMMAND.map(Into::into).into())
}

/// The name of the default scheduler in reports.
pub(crate) const DEFAULT: &str = "eevdf";

impl Request<'_> {
    /// The command as the user would type it.
    pub(crate) fn command_line(&self) -> String {
        self.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Measures under the default scheduler.
    pub(crate) fn by_default<T>(
        &self,
        measure: impl FnOnce(&Self, &str, Option<&Running>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        measure(self, DEFAULT, None)
    }

    /// Measures under the policy, which is detached again in any case.
    pub(crate) fn by_policy<T>(
        &self,
        measure: impl FnOnce(&Self, &str, Option<&Running>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let running = start(&self.spec, Scope::Machine)?;
        let measured = measure(self, &self.spec.to_string(), Some(&running));
        let ended = running.exited();
        running.stop()?;
        match ended {
            Some(report) => {
                Err(Error::Ejected { policy: self.spec.policy.name.into(), reason: report.reason })
            }
            None => measured,
        }
    }

    /// Runs the command to its end; returns its time in seconds. Its output goes to standard error,
    /// as standard output is for the report.
    pub(crate) fn run(&self, scheduler: &str) -> Result<f64, Error> {
        let (program, arguments) =
            self.command.split_first().ok_or_else(|| io::Error::other("no command to run"))?;
        let name = || program.to_string_lossy().into_owned();
        let began = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(io::stderr().as_fd().try_clone_to_owned()?)
            .spawn()
            .map_err(|cause| Error::Start { program: name(), cause })?;
        let status = wait_or_terminate(&mut child, self.stop)?;
        let elapsed = began.elapsed();
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if !status.success() {
            return Err(Error::Failed { program: name(), scheduler: scheduler.into(), status });
        }
        Ok(elapsed.as_secs_f64())
    }
}

/// The machine on which something was measured.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Machine {
    pub kernel: String,
    pub cpus: usize,
    /// The clock with its settings, as on the command line of `flsched vm`, if this is such a machine.
    pub clock: Option<String>,
}

impl Machine {
    pub(crate) fn here() -> Self {
        Self {
            kernel: flsched_host::kernel_release(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            clock: std::env::var(CLOCK_VARIABLE).ok(),
        }
    }
}

/// The environment variable in which `flsched vm` names the machine's clock.
pub const CLOCK_VARIABLE: &str = "FLSCHED_CLOCK";
