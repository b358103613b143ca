//! What is run: built-in workloads by name, or any command.
pub mod co_threads;
pub mod command;
pub mod hackbench;
pub mod make;
pub mod npb;
pub mod openmp;
mod parameters;
pub mod perf_pipe;
pub mod requests;
pub mod spin_barrier;
mod team;
mod work;

pub use co_threads::{CoThreads, Published};
pub use command::CommandLine;
pub use hackbench::Hackbench;
pub use make::Make;
pub use npb::Npb;
pub use openmp::{BuildError, OpenMp, Runtime};
pub use perf_pipe::PerfPipe;
pub use requests::Requests;
pub use spin_barrier::SpinBarrier;

use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

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
    /// Workers that are woken for requests.
    Requests(Requests),
    /// Processes whose threads work on the same data.
    CoThreads(CoThreads),
    /// Two processes that wake each other; the real program from the kernel's tools.
    PerfPipe(PerfPipe),
    /// A parallel build by a real compiler.
    Make(Make),
    /// A program of the user's NAS Parallel Benchmarks.
    Npb(Npb),
    /// Any command, timed from start to exit.
    Command(CommandLine),
    /// One of the simulator's.
    Simulated {
        /// With its parameters, as the simulator reads and writes it.
        name: String,
        /// What its time is, if not how long it takes.
        time_is: Option<String>,
    },
}

/// What a finished workload says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Its own figure, or the elapsed time where it has none; [`Workload::time_is`] says of what.
    pub time_s: f64,
    /// When that time ended, on `CLOCK_MONOTONIC`, if that is not the workload's end.
    pub ended_at: Option<Duration>,
    /// Calls of `sched_yield`, if it counted them.
    pub yields: Option<u64>,
    /// Further figures, by name with the unit last.
    pub figures: Vec<(String, f64)>,
}

/// What [`Workload::from_str`] understands: form, and what it is, for messages and help texts.
pub const FORMS: [(&str, &str); 9] = [
    (hackbench::FORM, "groups of 40 tasks that send each other messages (rt-tests)"),
    (spin_barrier::FORM, "threads that compute, then wait for each other with sched_yield"),
    (openmp::LIBOMP_FORM, "an OpenMP program on LLVM's runtime; KERNEL is one of those below"),
    (openmp::LIBGOMP_FORM, "the same on GCC's runtime"),
    (
        requests::FORM,
        "workers woken for requests, as in schbench: the time is the 99th percentile of the wake-up latency",
    ),
    (
        co_threads::FORM,
        "processes whose threads work on shared data: the time is that of a million operations",
    ),
    (co_threads::TABLE_FORM, "the same as SCHED_RR2's paper has it in Table I: five tests"),
    (perf_pipe::FORM, "two processes that wake each other (perf bench sched pipe)"),
    (make::FORM, "a parallel build of generated C files by the real compiler"),
];

impl Workload {
    /// The workload that `-- CMD…` asks for.
    pub fn command(argv: Vec<OsString>) -> Result<Self, UsageError> {
        CommandLine::new(argv).map(Self::Command)
    }

    /// One of the simulator's, with its parameters. Files that it names are read.
    pub fn simulated(text: &str) -> Result<Self, UsageError> {
        let workload = flsched_sim::workload::parse_workload(text);
        let workload = workload.map_err(|error| UsageError(format!("in the simulator: {error}")))?;
        let time_is = workload.time_is().map(String::from);
        Ok(Self::Simulated { name: workload.to_string(), time_is })
    }

    /// Makes the program that it needs, if it comes as source. Before anything else, and on the machine
    /// with the compiler.
    pub fn build(&mut self) -> Result<(), BuildError> {
        match self {
            Self::OpenMp(openmp) => openmp.build(),
            _ => Ok(()),
        }
    }

    /// Program and arguments. `helper` is how this build's own workloads are started, `scratch` a folder
    /// for this run alone.
    pub fn argv(&self, helper: &[OsString], scratch: &Path) -> Vec<OsString> {
        let built_in = |arguments: Vec<String>| -> Vec<OsString> {
            helper.iter().cloned().chain(arguments.into_iter().map(OsString::from)).collect()
        };
        match self {
            Self::Hackbench(hackbench) => hackbench.argv(),
            Self::SpinBarrier(spin) => built_in(spin.arguments()),
            Self::OpenMp(openmp) => openmp.argv(),
            Self::Requests(requests) => built_in(requests.arguments()),
            Self::CoThreads(co_threads) => built_in(co_threads.arguments()),
            Self::PerfPipe(pipe) => pipe.argv(),
            Self::Make(make) => {
                let mut argv = built_in(make.arguments());
                argv.push(scratch.into());
                argv
            }
            Self::Npb(npb) => npb.argv(),
            Self::Command(command) => command.argv().to_vec(),
            Self::Simulated { name, .. } => vec![name.into()],
        }
    }

    /// What is set for it besides the user's environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        match self {
            Self::Npb(npb) => npb.environment(),
            _ => Vec::new(),
        }
    }

    /// The programs that it needs besides this one.
    pub fn programs(&self) -> Result<Vec<PathBuf>, UsageError> {
        match self {
            Self::Hackbench(_) => Ok(vec![hackbench::program()?]),
            Self::SpinBarrier(_) | Self::Requests(_) | Self::CoThreads(_) | Self::Simulated { .. } => {
                Ok(Vec::new())
            }
            Self::OpenMp(openmp) => Ok(vec![openmp.program()]),
            Self::PerfPipe(_) => Ok(vec![perf_pipe::program()?]),
            Self::Make(_) => make::programs(),
            Self::Npb(npb) => Ok(vec![npb.program()]),
            Self::Command(command) => Ok(vec![command.program()?]),
        }
    }

    /// What its time is, where it is not how long it takes.
    pub fn time_is(&self) -> Option<&str> {
        match self {
            Self::Requests(_) => Some(requests::TIME_IS),
            Self::CoThreads(_) => Some(co_threads::TIME_IS),
            Self::Simulated { time_is, .. } => time_is.as_deref(),
            _ => None,
        }
    }

    /// What others have published for the same work.
    pub fn published(&self) -> Option<Published> {
        match self {
            Self::CoThreads(co_threads) => co_threads.published(),
            // Where a model has the name of the real one it is for the same work.
            Self::Simulated { name, .. } => name.parse::<Self>().ok()?.published(),
            _ => None,
        }
    }

    /// Reads a name that may stand for several workloads, each by `read`.
    pub fn parse_all(
        text: &str,
        read: impl Fn(&str) -> Result<Self, UsageError>,
    ) -> Result<Vec<Self>, UsageError> {
        let table = text.strip_prefix("co-threads:").and_then(CoThreads::parse_table);
        match table {
            Some(tests) => tests?.iter().map(|test| read(&test.to_string())).collect(),
            None => Ok(vec![read(text)?]),
        }
    }

    /// Its figures, from what it printed and how long it took; or why there are none.
    pub fn measured(&self, output: &str, elapsed_s: f64) -> Result<Measured, String> {
        let time_s = match self {
            Self::Command(_) => elapsed_s,
            Self::Npb(_) => npb::time(output)?,
            Self::PerfPipe(_) => perf_pipe::time(output).ok_or(NO_TIME)?,
            _ => seconds(output).ok_or(NO_TIME)?,
        };
        let (yields, figures) = match self {
            Self::SpinBarrier(_) => (spin_barrier::yields(output), Vec::new()),
            Self::Requests(_) | Self::CoThreads(_) => (None, figures(output)),
            _ => (None, Vec::new()),
        };
        let ended_at = match self {
            Self::OpenMp(_) => ended_at(output),
            _ => None,
        };
        Ok(Measured { time_s, ended_at, yields, figures })
    }
}

const NO_TIME: &str = "it ended well but did not print its time";

/// The seconds in its line `Time: 0.378`.
fn seconds(output: &str) -> Option<f64> {
    let line = output.lines().find_map(|line| line.strip_prefix("Time:"))?;
    line.trim().parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0)
}

/// The moment in its line `Ended: 5000000000`, in nanoseconds.
fn ended_at(output: &str) -> Option<Duration> {
    let line = output.lines().find_map(|line| line.strip_prefix("Ended:"))?;
    line.trim().parse().ok().map(Duration::from_nanos)
}

/// All its lines `Figure: NAME VALUE`.
fn figures(output: &str) -> Vec<(String, f64)> {
    let figure = |line: &str| {
        let (name, value) = line.strip_prefix("Figure: ")?.split_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    output.lines().filter_map(figure).collect()
}

impl FromStr for Workload {
    type Err = UsageError;

    /// [`Workload::sized`] for four CPUs.
    fn from_str(text: &str) -> Result<Self, UsageError> {
        Self::sized(text, 4)
    }
}

impl Workload {
    /// Reads a workload; sizes that are left out fit a machine with so many CPUs.
    pub fn sized(text: &str, cpus: u32) -> Result<Self, UsageError> {
        let cpus = u64::from(cpus);
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        match name {
            "hackbench" => Hackbench::parse(parameters, cpus).map(Self::Hackbench),
            "spin-barrier" => SpinBarrier::parse(parameters, cpus).map(Self::SpinBarrier),
            "libomp" => OpenMp::parse(Runtime::Libomp, parameters, cpus).map(Self::OpenMp),
            "requests" => Requests::parse(parameters).map(Self::Requests),
            "co-threads" => CoThreads::parse(parameters).map(Self::CoThreads),
            "perf-pipe" => PerfPipe::parse(parameters).map(Self::PerfPipe),
            "make" => Make::parse(parameters, cpus).map(Self::Make),
            "libgomp" => OpenMp::parse(Runtime::Libgomp, parameters, cpus).map(Self::OpenMp),
            _ => {
                let forms = FORMS.map(|(form, _)| form);
                let mut names = forms.map(|form| form.split(':').next().unwrap_or(form).to_string()).to_vec();
                names.dedup();
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
            Self::Requests(requests) => requests.fmt(out),
            Self::CoThreads(co_threads) => co_threads.fmt(out),
            Self::PerfPipe(pipe) => pipe.fmt(out),
            Self::Make(make) => make.fmt(out),
            Self::Npb(npb) => npb.fmt(out),
            Self::Command(command) => command.fmt(out),
            Self::Simulated { name, .. } => out.write_str(name),
        }
    }
}

/// Runs a built-in workload in this process: its name, its parameters, and for `make` a folder. The result
/// is the process's exit code. Behind a hidden subcommand, because the workload must be a process of its
/// own: its scheduling class is set before it starts.
pub fn workload_main(arguments: &[String]) -> i32 {
    let run = || {
        let (name, parameters) = arguments.split_first().ok_or(UsageError("no name".into()))?;
        match (name.as_str(), parameters) {
            ("spin-barrier", _) => Ok(SpinBarrier::parse(&parameters.join(":"), 1)?.run()),
            ("requests", _) => Ok(Requests::parse(&parameters.join(":"))?.run()),
            ("co-threads", _) => Ok(CoThreads::parse(&parameters.join(":"))?.run()),
            (co_threads::PROCESS, _) => co_threads::run_process(parameters),
            ("make", [parameters @ .., folder]) => {
                Ok(Make::parse(&parameters.join(":"), 1)?.run(Path::new(folder)))
            }
            _ => Err(UsageError(format!("`{name}` with {} parameters is none", parameters.len()))),
        }
    };
    run().unwrap_or_else(|error| {
        eprintln!("workload: {error}");
        2
    })
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
            "libomp:sparse:32:1",
            "libgomp:ep:4:100",
            "requests:1:2:3:4",
            "co-threads:9:3:16384:10",
            "perf-pipe:100",
            "make:2:3",
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
    fn the_table_is_published_for_the_model_too() {
        let tests = Workload::parse_all("co-threads:table1:1", Workload::simulated).unwrap();
        assert_eq!(tests.len(), 5);
        assert_eq!(tests[4].published().unwrap().gain_percent, 9.93);
        assert_eq!(Workload::simulated("co-threads:9:3:16384:1:50").unwrap().published(), None);
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
    fn finds_figures() {
        let output = "Time: 0.5\nFigure: wakeup_p50_us 1.250\nFigure: x\n";
        assert_eq!(figures(output), [("wakeup_p50_us".to_string(), 1.25)]);
        let requests: Workload = "requests".parse().unwrap();
        assert_eq!(requests.measured(output, 9.0).unwrap().time_s, 0.5);
        assert_eq!(requests.measured("", 9.0), Err(NO_TIME.to_string()));
    }

    #[test]
    fn a_time_may_end_before_the_workload() {
        let openmp: Workload = "libomp:stencil:2:3".parse().unwrap();
        let ended_at = |output: &str| openmp.measured(output, 9.0).unwrap().ended_at;
        assert_eq!(ended_at("Time: 0.5\nEnded: 7000000001\n"), Some(Duration::from_nanos(7_000_000_001)));
        assert_eq!(ended_at("Time: 0.5\n"), None);
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
