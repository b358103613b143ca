//! A workload as the user names it: `hackbench:process-pipe:4:300`. On a kernel it is a program, and in the
//! simulator a model of one. Nothing is run here: the crates `compare` and `sim` do that.
mod app;
mod chain;
mod co_threads;
mod command;
mod entry;
mod hackbench;
mod hogs;
mod make;
mod model;
mod npb;
mod npb_program;
mod openmp;
mod parameters;
mod perf_pipe;
mod phases;
mod program;
mod read;
mod requests;
mod script;
mod spin_barrier;

pub use app::App;
pub use chain::Chain;
pub use co_threads::{CoThreads, Published};
pub use command::CommandLine;
pub use hackbench::{Channel, Hackbench, Task};
pub use hogs::Hogs;
pub use make::Make;
pub use model::Model;
pub use npb::{Npb, NpbName};
pub use npb_program::NpbProgram;
pub use openmp::{OpenMp, OpenMpKernel, Runtime};
pub use perf_pipe::PerfPipe;
pub use phases::{Phases, WaitStyle};
pub use program::Program;
pub use requests::Requests;
pub use script::{Format, ScriptFile};
pub use spin_barrier::SpinBarrier;

use crate::{Target, UsageError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;

/// Something to run under each scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Workload {
    /// On this machine or a virtual one.
    Program(Program),
    /// A model, which runs in the simulator only.
    Model(Model),
}

/// The number of CPUs for default sizes where the machine's is not known.
const CPUS: u32 = 4;

impl Workload {
    /// Reads `NAME[:PARAMETER…]`; what is left out from the end has a default, which fits four CPUs.
    pub fn read(text: &str, target: Target) -> Result<Self, UsageError> {
        Self::sized(text, target, CPUS)
    }

    /// The same; the default sizes of programs fit a machine with `cpus` CPUs.
    pub fn sized(text: &str, target: Target, cpus: u32) -> Result<Self, UsageError> {
        match target {
            Target::Sim => Model::read(text).map(Self::Model),
            Target::Host | Target::Vm => Program::sized(text, cpus).map(Self::Program),
        }
    }

    /// Reads a name that may mean several workloads, as `co-threads:table1` does.
    pub fn read_all(text: &str, target: Target, cpus: u32) -> Result<Vec<Self>, UsageError> {
        match CoThreads::table(text) {
            Some(tests) => tests?.iter().map(|test| Self::read(&test.to_string(), target)).collect(),
            None => Ok(vec![Self::sized(text, target, cpus)?]),
        }
    }

    /// The workload of `-- CMD…`.
    pub fn command(argv: Vec<OsString>) -> Result<Self, UsageError> {
        CommandLine::new(argv).map(Program::Command).map(Self::Program)
    }

    /// The workloads of this target: form, and description.
    pub fn forms(target: Target) -> Vec<(&'static str, &'static str)> {
        match target {
            Target::Sim => model::ENTRIES.iter().map(|entry| (entry.form, entry.what)).collect(),
            Target::Host | Target::Vm => {
                program::ENTRIES.iter().map(|entry| (entry.form, entry.what)).collect()
            }
        }
    }

    /// What its time means, if it is not the duration of the run.
    pub fn time_is(&self) -> Option<&'static str> {
        match self {
            Self::Program(program) => program.time_is(),
            Self::Model(model) => model.time_is(),
        }
    }

    /// Published results for the same work.
    pub fn published(&self) -> Option<Published> {
        match self {
            Self::Program(Program::CoThreads(it)) | Self::Model(Model::CoThreads(it)) => it.published(),
            _ => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => program.fmt(out),
            Self::Model(model) => model.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, target: Target) -> String {
        Workload::read(text, target).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_it_prints() {
        let both = [
            "hackbench:process-pipe:4:100",
            "hackbench:thread-socket:1:7",
            "spin-barrier:32:50:20000",
            "requests:1:2:3:4",
            "requests:1:2:3:4:5",
            "co-threads:9:3:16384:10",
            "perf-pipe:100",
            "make:2:3",
        ];
        for text in both.iter().chain(&["libomp:sparse:32:1", "libgomp:ep:4:100"]) {
            assert_eq!(Workload::read(text, Target::Vm).unwrap().to_string(), *text);
        }
        let models = [
            "hogs:8:100",
            "hogs:8:100:64",
            "hogs:8:100:0:5000",
            "phases:32:50:125:10:futex",
            "npb:cg:228:15:libomp:275",
            "chain:8:100:50",
            "co-threads:11:5:16384:1:50",
            "tasks:some/file:1.toml",
            "scenario:some/file:1.toml",
        ];
        for text in both.iter().chain(&models) {
            assert_eq!(Workload::read(text, Target::Sim).unwrap().to_string(), *text);
        }
    }

    #[test]
    fn every_form_is_understood() {
        for target in Target::ALL {
            for (form, _) in Workload::forms(target)
                .into_iter()
                .filter(|(form, _)| !form.contains("FILE") && !form.contains("NAME"))
            {
                let name = form.split(':').next().unwrap();
                let workload = Workload::read(name, target).unwrap().to_string();
                assert!(workload.starts_with(name), "{form}");
                assert_eq!(Workload::read(&workload, target).unwrap().to_string(), workload);
            }
        }
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let read = |text, target| Workload::read(text, target).unwrap().to_string();
        assert_eq!(read("hackbench", Target::Vm), "hackbench:process-pipe:4:300");
        assert_eq!(read("hackbench", Target::Sim), "hackbench:process-pipe:4:100");
        assert_eq!(read("hackbench::2", Target::Sim), "hackbench:process-pipe:2:100");
        assert_eq!(read("perf-pipe:", Target::Sim), "perf-pipe:10000");
        let sized = |target| Workload::sized("spin-barrier", target, 64).unwrap().to_string();
        assert_eq!(sized(Target::Host), "spin-barrier:512:150:12500");
        assert_eq!(sized(Target::Sim), "spin-barrier:32:50:12500");
    }

    #[test]
    fn unknown_says_what_would_do() {
        let message = error("hackbnch:process-pipe", Target::Host);
        assert!(message.contains("`hackbnch`; did you mean `hackbench`?"), "{message}");
        assert!(message.contains("spin-barrier:THREADS:ITERATIONS:WORK"), "{message}");
        assert!(message.ends_with("or any command after `--`"), "{message}");
        let message = error("hogz", Target::Sim);
        assert!(message.contains("did you mean `hogs`?") && !message.contains("command"), "{message}");
    }

    #[test]
    fn some_are_for_one_target_only() {
        assert!(error("libomp:ep", Target::Sim).contains("the simulator has no model of it"));
        assert!(error("hogs:4", Target::Vm).contains("only the simulator has it (--on sim)"));
        assert!(error("scenario:x.toml", Target::Host).contains("only the simulator has it (--on sim)"));
    }

    #[test]
    fn says_what_is_wrong() {
        for (bad, why) in [
            ("hackbench:proces-pipe", "did you mean `process-pipe`"),
            ("hackbench:process-pipe:0", "hackbench GROUPS: `0` is not a whole number from 1 to 10000"),
            ("hackbench:process-pipe:4:x", "LOOPS: `x`"),
            (
                "hackbench:process-pipe:4:1:1",
                "too many (hackbench:{process,thread}-{pipe,socket}:GROUPS:LOOPS)",
            ),
            ("spin-barrier:5000", "from 1 to 4096"),
            ("requests:0", "MESSENGERS: `0`"),
            ("perf-pipe:0", "perf-pipe LOOPS: `0`"),
            ("make:0", "make JOBS: `0`"),
        ] {
            for target in Target::ALL {
                assert!(error(bad, target).contains(why), "{}", error(bad, target));
            }
        }
        for (bad, why) in [
            ("hogs:1:2:3:4:5", "`5` is one parameter too many (hogs:TASKS:MS[:KIB[:MB_PER_S]])"),
            ("hogs:x", "hogs TASKS: `x`"),
            ("npb:lu", "unknown NPB program `lu`"),
            ("npb:cg:4:16", "STEPS: `16` is not a whole number from 1 to 15"),
            ("phases:4:4:4:101", "IMBALANCE: `101`"),
            ("phases:4:4:4:1:wait", "unknown way to wait `wait`"),
            ("tasks", "tasks: FILE is missing"),
            ("scenario:", "scenario: FILE is missing"),
        ] {
            assert!(error(bad, Target::Sim).contains(why), "{}", error(bad, Target::Sim));
        }
    }

    #[test]
    fn survives_the_wire() {
        for workload in [
            Workload::read("hackbench", Target::Vm).unwrap(),
            Workload::read("co-threads", Target::Vm).unwrap(),
            Workload::read("libomp:stencil", Target::Vm).unwrap(),
            Workload::command(vec!["true".into(), "a b".into()]).unwrap(),
            Workload::read("npb:cg", Target::Sim).unwrap(),
        ] {
            let line = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&line).unwrap(), workload, "{line}");
        }
        let line =
            serde_json::to_string(&Workload::read("co-threads:1:2:64:3", Target::Vm).unwrap()).unwrap();
        assert_eq!(line, r#"{"co-threads":{"processes":1,"threads":2,"bytes":64,"seconds":3}}"#);
    }
}
