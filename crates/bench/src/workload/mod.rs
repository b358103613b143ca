//! What is run: built-in workloads by name, or any command.
pub mod command;
pub mod hackbench;
pub mod openmp;
mod parameters;
pub mod spin_barrier;

pub use command::CommandLine;
pub use hackbench::Hackbench;
pub use openmp::{BuildError, OpenMp, Runtime};
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
    /// A parallel program on a real OpenMP runtime.
    #[serde(rename = "openmp")]
    OpenMp(OpenMp),
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

/// What [`Workload::from_str`] understands: form, and what it is, for messages and help texts.
pub const FORMS: [(&str, &str); 4] = [
    (hackbench::FORM, "groups of 40 tasks that send each other messages (rt-tests)"),
    (spin_barrier::FORM, "threads that compute, then wait for each other with sched_yield"),
    ("libomp:KERNEL:THREADS:SIZE", "an OpenMP program on LLVM's runtime: sparse, stencil, ep"),
    ("libgomp:KERNEL:THREADS:SIZE", "the same on GCC's runtime"),
];

impl Workload {
    /// The workload that `-- CMD…` asks for.
    pub fn command(argv: Vec<OsString>) -> Result<Self, UsageError> {
        CommandLine::new(argv).map(Self::Command)
    }

    /// Makes the program that it needs, if it comes as source. Before anything else, and on the machine
    /// with the compiler.
    pub fn build(&mut self) -> Result<(), BuildError> {
        match self {
            Self::OpenMp(openmp) => openmp.build(),
            _ => Ok(()),
        }
    }

    /// Program and arguments. `helper` is how this build's own workloads are started.
    pub fn argv(&self, helper: &[OsString]) -> Vec<OsString> {
        match self {
            Self::Hackbench(hackbench) => hackbench.argv(),
            Self::SpinBarrier(spin) => {
                helper.iter().cloned().chain(spin.arguments().map(OsString::from)).collect()
            }
            Self::OpenMp(openmp) => openmp.argv(),
            Self::Command(command) => command.argv().to_vec(),
        }
    }

    /// The programs that it needs besides this one.
    pub fn programs(&self) -> Result<Vec<PathBuf>, UsageError> {
        match self {
            Self::Hackbench(_) => Ok(vec![hackbench::program()?]),
            Self::SpinBarrier(_) => Ok(Vec::new()),
            Self::OpenMp(openmp) => Ok(vec![openmp.program()]),
            Self::Command(command) => Ok(vec![command.program()?]),
        }
    }

    /// Its figures, from what it printed and how long it took.
    pub fn measured(&self, output: &str, elapsed_s: f64) -> Option<Measured> {
        let time_s = match self {
            Self::Command(_) => elapsed_s,
            _ => seconds(output)?,
        };
        Some(Measured { time_s, yields: spin_barrier::yields(output) })
    }
}

/// The seconds in its line `Time: 0.378`.
fn seconds(output: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix("Time:"))?;
    line.trim().parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0)
}

impl FromStr for Workload {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "hackbench" => Hackbench::parse(parameters).map(Self::Hackbench),
            "spin-barrier" => SpinBarrier::parse(parameters).map(Self::SpinBarrier),
            "libomp" => OpenMp::parse(Runtime::Libomp, parameters).map(Self::OpenMp),
            "libgomp" => OpenMp::parse(Runtime::Libgomp, parameters).map(Self::OpenMp),
            _ => {
                let forms = FORMS.map(|(form, _)| form);
                let names = forms.map(|form| form.split(':').next().unwrap_or(form).to_string());
                let UsageError(message) = UsageError::unknown("workload", name, &names);
                Err(UsageError(format!("{message}: {}, or any command after `--`", forms.join(", "))))
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hackbench(hackbench) => hackbench.fmt(out),
            Self::SpinBarrier(spin) => spin.fmt(out),
            Self::OpenMp(openmp) => openmp.fmt(out),
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
        for text in [
            "hackbench:process-pipe:4:100",
            "hackbench:thread-socket:1:7",
            "spin-barrier:32:50:20000",
            "libomp:sparse:32:6",
            "libgomp:ep:4:100",
        ] {
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
            "libomp:stencil".parse().unwrap(),
            Workload::command(vec!["true".into(), "a b".into()]).unwrap(),
        ] {
            let line = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&line).unwrap(), workload);
        }
    }

    #[test]
    fn every_form_is_understood() {
        for (form, _) in FORMS {
            let name = form.split(':').next().unwrap();
            assert!(name.parse::<Workload>().unwrap().to_string().starts_with(name), "{form}");
        }
    }

    #[test]
    fn finds_the_time() {
        let output = "Running in process mode with 4 groups using 40 file descriptors each \
                      (== 160 tasks)\nEach sender will pass 100 messages of 100 bytes\nTime: 0.378\n";
        assert_eq!(seconds(output), Some(0.378));
        assert_eq!(seconds("Time: nan"), None);
        assert_eq!(seconds("sender: no"), None);
    }
}
