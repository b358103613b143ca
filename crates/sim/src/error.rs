//! What can go wrong: before the run (the user's input), and in it (a scheduler's fault).
use crate::engine::{Ns, display_ns};
use flsched_spec::UsageError;
use std::fmt;
use thiserror::Error;

/// Why there is no result.
#[derive(Debug, Error)]
pub enum Error {
    /// Something named or set by the user is not valid; the text has what, where, and what to do.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error("{path}: {cause}")]
    File { path: String, cause: std::io::Error },
    /// A policy's object cannot be loaded.
    #[error("policy {policy}: {what}")]
    Policy { policy: String, what: String },
    /// The workload was not done in time.
    #[error("the run has not ended within {} of simulated time", display_ns(*.0))]
    Limit(Ns),
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
    /// A scheduler did what the kernel would stop it for, or lost a task.
    #[error(transparent)]
    Violation(#[from] Violation),
}

impl Error {
    /// `name` is not one of `valid`.
    pub fn unknown(kind: &str, name: &str, valid: &[&str]) -> Self {
        UsageError::unknown(kind, name, valid).into()
    }

    /// The user can correct it by typing something else.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::File { .. })
    }
}

impl From<UsageError> for Error {
    fn from(UsageError(text): UsageError) -> Self {
        Self::Usage(text)
    }
}

impl From<flsched_machine::Error> for Error {
    fn from(error: flsched_machine::Error) -> Self {
        match error {
            flsched_machine::Error::Usage(error) => error.into(),
            flsched_machine::Error::File { path, cause } => Self::File { path, cause },
        }
    }
}

/// Where and why the simulation stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub what: String,
    /// In which callback; empty outside any.
    pub callback: &'static str,
    /// Name and pid of the task it was about.
    pub task: Option<String>,
    pub at: Ns,
}

/// The callback that [`Violation`]s of the watchdog name.
pub(crate) const WATCHDOG: &str = "watchdog";
/// What is wrong if no task will ever be woken.
pub(crate) const DEADLOCK: &str = "all tasks wait for each other";

impl Violation {
    /// A task has waited for too long.
    pub(crate) fn is_of_watchdog(&self) -> bool {
        self.callback == WATCHDOG
    }

    /// No scheduler could have gone on.
    pub(crate) fn is_of_workload(&self) -> bool {
        self.what == DEADLOCK
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at {}", display_ns(self.at))?;
        if !self.callback.is_empty() {
            write!(out, ", in {}", self.callback)?;
        }
        if let Some(task) = &self.task {
            write!(out, ", task {task}")?;
        }
        write!(out, ": {}", self.what)
    }
}

impl std::error::Error for Violation {}
