//! What is run: built-in workloads by name, or any command.
pub mod command;
pub mod hackbench;
pub mod spin_barrier;

pub use command::CommandLine;
pub use hackbench::Hackbench;
pub use spin_barrier::SpinBarrier;

use crate::usage::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Something to run under each scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Groups of tasks that send each other messages; the real program from rt-tests.
    Hackbench(Hackbench),
    /// Threads that compute, then wait for each other with `sched_yield`.
    SpinBarrier(SpinBarrier),
    /// Any command, timed from start to exit.
    Command(CommandLine),
}

/// What a finished workload says about itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Its own figure, or the elapsed time where it has none.
    pub time_s: f64,
    /// Calls of `sched_yield`, if it counted them.
    pub yields: Option<u64>,
}

/// Forms that [`Workload::from_str`] understands, for messages and help texts.
pub const FORMS: [&str; 2] =
    ["hackbench:{process,thread}-{pipe,socket}:GROUPS:LOOPS", "spin-barrier:THREADS:ITERATIONS:WORK"];

impl Workload {
    /// The workload that `-- CMD…` asks for.
    pub fn command(argv: Vec<OsString>) -> Result<Self, UsageError> {
        CommandLine::new(argv).map(Self::Command)
    }

    /// Program and arguments. `helper` is how this build's own workloads are started.
    pub fn argv(&self, helper: &[OsString]) -> Vec<OsString> {
        match self {
            Self::Hackbench(hackbench) => hackbench.argv(),
            Self::SpinBarrier(spin) => {
                helper.iter().cloned().chain(spin.arguments().map(OsString::from)).collect()
            }
            Self::Command(command) => command.argv().to_vec(),
        }
    }

    /// The program that must be found in PATH; `None`: it is part of this build.
    pub fn program(&self) -> Result<Option<PathBuf>, UsageError> {
        match self {
            Self::Hackbench(_) => hackbench::program().map(Some),
            Self::SpinBarrier(_) => Ok(None),
            Self::Command(command) => command.program().map(Some),
        }
    }

    /// Whether what it prints carries its figure. The output of others is not kept.
    pub fn reads_output(&self) -> bool {
        !matches!(self, Self::Command(_))
    }

    /// Its figure, from what it printed and how long it took.
    pub fn measured(&self, output: &str, elapsed_s: f64) -> Option<Measured> {
        match self {
            Self::Hackbench(_) => {
                let time_s = hackbench::time(output)?;
                Some(Measured { time_s, yields: None })
            }
            Self::SpinBarrier(_) => spin_barrier::measured(output),
            Self::Command(_) => Some(Measured { time_s: elapsed_s, yields: None }),
        }
    }
}

impl FromStr for Workload {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "hackbench" => Hackbench::parse(parameters).map(Self::Hackbench),
            "spin-barrier" => SpinBarrier::parse(parameters).map(Self::SpinBarrier),
            _ => {
                let names = ["hackbench", "spin-barrier"].map(String::from);
                let UsageError(message) = UsageError::unknown("workload", name, &names);
                Err(UsageError(format!("{message}: {}, or any command after `--`", FORMS.join(", "))))
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hackbench(hackbench) => hackbench.fmt(out),
            Self::SpinBarrier(spin) => spin.fmt(out),
            Self::Command(command) => command.fmt(out),
        }
    }
}

/// Runs a built-in workload in this process: `spin-barrier THREADS ITERATIONS WORK`. The result is
/// the process's exit code. Behind a hidden subcommand, because the workload must be a process of
/// its own: its scheduling class is set before it starts.
pub fn workload_main(arguments: &[String]) -> i32 {
    match arguments {
        [name, parameters @ ..] if name == "spin-barrier" => {
            match SpinBarrier::parse(&parameters.join(":")) {
                Ok(spin) => spin.run(),
                Err(error) => {
                    eprintln!("{error}");
                    2
                }
            }
        }
        _ => {
            eprintln!("workload: expected `spin-barrier THREADS ITERATIONS WORK`");
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_names_round_trip() {
        for text in
            ["hackbench:process-pipe:4:100", "hackbench:thread-socket:1:7", "spin-barrier:32:50:20000"]
        {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn unknown_names_the_nearest_and_the_forms() {
        let error = "hackbnch:process-pipe".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("`hackbnch`; did you mean `hackbench`?"), "{error}");
        assert!(error.contains("spin-barrier:THREADS:ITERATIONS:WORK"), "{error}");
    }

    #[test]
    fn survives_the_wire() {
        for workload in [
            "hackbench".parse().unwrap(),
            "spin-barrier".parse().unwrap(),
            Workload::command(vec!["true".into(), "a b".into()]).unwrap(),
        ] {
            let line = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&line).unwrap(), workload);
        }
    }
}
