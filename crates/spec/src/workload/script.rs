//! Tasks that are written down in a file. What is in it is read by the simulator.
use super::parameters::Parameters;
use crate::UsageError;
use std::fmt;

/// TOML of this project.
pub(super) const TASKS_FORM: &str = "tasks:FILE";
/// JSON of rt-app.
pub(super) const RT_APP_FORM: &str = "rt-app:FILE";
/// A whole run, also in TOML of this project.
pub(super) const SCENARIO_FORM: &str = "scenario:FILE";
/// Recorded on a real machine.
pub(super) const TRACE_FORM: &str = "trace:FILE";

/// What is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Tasks with their steps, in TOML.
    Tasks,
    /// A workload of rt-app, in JSON.
    RtApp,
    /// What `flsched record` or `perf sched script` saw, or CSV.
    Trace,
}

impl Format {
    /// With which the workload's name begins.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::RtApp => "rt-app",
            Self::Trace => "trace",
        }
    }
}

/// `tasks:FILE`, `rt-app:FILE` or `trace:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFile {
    /// What is in it.
    pub format: Format,
    /// As given.
    pub path: String,
}

impl ScriptFile {
    pub(super) fn read(format: Format, words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self { format, path: words.file()?.to_owned() })
    }
}

impl fmt::Display for ScriptFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.format.name(), self.path)
    }
}
