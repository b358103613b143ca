//! How programs are run and their output is read: [`Runnable`]. Their names and parameters are in
//! [`flsched_spec::workload`].
pub mod app;
mod co_threads;
mod command;
mod hackbench;
mod make;
mod npb;
mod openmp;
mod perf_pipe;
mod requests;
mod spin_barrier;
mod team;
mod work;

pub use openmp::BuildError as ProgramError;

use app::InputError;
use flsched_spec::workload::Program;
use flsched_spec::{Target, UsageError, Workload};
use flsched_vm::Arch;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the input of an application may take, unless the caller decides.
pub const INPUT_LIMIT: Duration = Duration::from_secs(600);

/// A workload that runs as a program: the user's own, or one of this build.
pub trait Runnable {
    /// Program and arguments. `helper`: the command that starts this build's own workloads. `scratch`: a folder for
    /// this run alone.
    fn argv(&self, helper: &[OsString], scratch: &Path) -> Vec<OsString>;

    /// Variables that are set in addition to the user's environment.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// The programs that it needs besides this one.
    fn programs(&self) -> Result<Vec<PathBuf>, UsageError> {
        Ok(Vec::new())
    }

    /// Further files and folders that it reads.
    fn files(&self) -> Result<Vec<PathBuf>, UsageError> {
        Ok(Vec::new())
    }

    /// Memory that it needs in a virtual machine beside the usual, in MiB.
    fn memory_mib(&self) -> u32 {
        0
    }

    /// Its figures, from its output and its duration in seconds; or why there are none.
    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Measured::printed(output)
    }
}

/// The implementation of this program.
pub fn runnable(program: &Program) -> &dyn Runnable {
    match program {
        Program::Hackbench(hackbench) => hackbench,
        Program::SpinBarrier(spin) => spin,
        Program::OpenMp(openmp) => openmp,
        Program::Requests(requests) => requests,
        Program::CoThreads(co_threads) => co_threads,
        Program::PerfPipe(pipe) => pipe,
        Program::Make(make) => make,
        Program::App(app) => app,
        Program::Npb(npb) => npb,
        Program::Command(command) => command,
    }
}

/// Why a workload cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Its program cannot be compiled.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// There is no input for it.
    #[error(transparent)]
    Input(#[from] app::InputError),
    /// It is of this machine's processor.
    #[error("{0} is a program of this machine, which does not run on {arch}; compare without --arch", arch = .1.name())]
    Foreign(Program, Arch),
}

impl BuildError {
    /// Only this workload cannot be run, and others can: its program is not installed, or there is no input for it.
    pub fn is_of_one(&self) -> bool {
        matches!(
            self,
            Self::Input(InputError::Missing(_) | InputError::Refused { .. } | InputError::Late { .. })
        )
    }

    /// The user asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Input(InputError::Interrupted))
    }
}

/// While what workloads need is made, which can take minutes.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// Gets a line about what begins.
    pub tell: &'a dyn Fn(&str),
    /// Once it is set, nothing more is made.
    pub cancel: &'a AtomicBool,
    /// How long one input may take.
    pub limit: Duration,
}

impl Making<'_> {
    /// Nobody is told, and nobody stops it.
    pub fn quietly() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { tell: &|_| (), cancel: &NEVER, limit: INPUT_LIMIT }
    }
}

/// Compiles the workload's program, if it is in this build as source, and makes its input, if it needs one. Call this
/// first, on the machine that has the tools, with the processor that the workload runs on.
pub fn build(workload: &mut Workload, arch: Arch, making: &Making<'_>) -> Result<(), BuildError> {
    match workload {
        Workload::Program(Program::OpenMp(openmp)) => openmp::build(openmp, arch)?,
        Workload::Program(program @ Program::App(_)) if arch != Arch::HOST => {
            return Err(BuildError::Foreign(program.clone(), arch));
        }
        Workload::Program(Program::App(app)) => app::build(app, making)?,
        _ => {}
    }
    Ok(())
}

/// The programs that a workload needs besides this one; a model needs none.
pub fn programs(workload: &Workload) -> Result<Vec<PathBuf>, UsageError> {
    match workload {
        Workload::Program(program) => runnable(program).programs(),
        Workload::Model(_) => Ok(Vec::new()),
    }
}

/// The files and folders that a workload needs besides its programs.
pub fn files(workload: &Workload) -> Result<Vec<PathBuf>, UsageError> {
    match workload {
        Workload::Program(program) => runnable(program).files(),
        Workload::Model(_) => Ok(Vec::new()),
    }
}

/// Memory that a workload needs in a virtual machine beside the usual, in MiB.
pub fn memory_mib(workload: &Workload) -> u32 {
    match workload {
        Workload::Program(program) => runnable(program).memory_mib(),
        Workload::Model(_) => 0,
    }
}

/// The figures that a workload has printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Its own time, or else the elapsed time; [`Workload::time_is`] describes it.
    pub time_s: f64,
    /// When that time ended, on `CLOCK_MONOTONIC`, if that is not the workload's end.
    pub ended_at: Option<Duration>,
    /// Calls of `sched_yield`, if it counted them.
    pub yields: Option<u64>,
    /// Further figures, by name with the unit last.
    pub figures: Vec<(String, f64)>,
}

impl Measured {
    /// A time without further figures.
    fn of(time_s: f64) -> Self {
        Self { time_s, ended_at: None, yields: None, figures: Vec::new() }
    }

    /// The time in the line `Time: 0.378`.
    fn printed(output: &str) -> Result<Self, String> {
        seconds(output).map(Self::of).ok_or_else(|| NO_TIME.into())
    }
}

/// The words after `helper` that start one of this build's own workloads: its name, then its parameters.
fn built_in(helper: &[OsString], workload: &impl fmt::Display) -> Vec<OsString> {
    let name = workload.to_string();
    helper.iter().cloned().chain(name.split(':').map(OsString::from)).collect()
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

/// Runs a built-in workload in this process. The arguments are its name, its parameters, and for `make` a folder.
/// Returns the exit code. A hidden subcommand calls this: the workload must be a separate process, because its
/// scheduling class is set before it starts.
pub fn workload_main(arguments: &[String]) -> i32 {
    run_built_in(arguments).unwrap_or_else(|error| {
        eprintln!("workload: {error}");
        2
    })
}

fn run_built_in(arguments: &[String]) -> Result<i32, UsageError> {
    let (name, parameters) = arguments.split_first().ok_or(UsageError("no name".into()))?;
    let none = || UsageError(format!("there is no workload `{name}` with {} parameters", parameters.len()));
    let (words, folder) = match (name.as_str(), arguments) {
        ("app", _) => return app::run(parameters),
        (co_threads::PROCESS, _) => return co_threads::run_process(parameters),
        ("make", [_]) => return Err(none()),
        ("make", [words @ .., folder]) => (words, Path::new(folder)),
        ("spin-barrier" | "requests" | "co-threads", _) => (arguments, Path::new("")),
        _ => return Err(none()),
    };
    match Workload::read(&words.join(":"), Target::Host)? {
        Workload::Program(Program::SpinBarrier(spin)) => Ok(spin_barrier::run(spin)),
        Workload::Program(Program::Requests(requests)) => Ok(requests::run(requests)),
        Workload::Program(Program::CoThreads(co_threads)) => Ok(co_threads::run(co_threads)),
        Workload::Program(Program::Make(make)) => Ok(make::run(make, folder)),
        _ => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_figures() {
        let output = "Time: 0.5\nFigure: wakeup_p50_us 1.250\nFigure: x\n";
        assert_eq!(figures(output), [("wakeup_p50_us".to_string(), 1.25)]);
        let requests = Program::sized("requests", 4).unwrap();
        assert_eq!(runnable(&requests).measured(output, 9.0).unwrap().time_s, 0.5);
        assert_eq!(runnable(&requests).measured("", 9.0), Err(NO_TIME.to_string()));
    }

    #[test]
    fn a_time_may_end_before_the_workload() {
        let openmp = Program::sized("libomp:stencil:2:3", 4).unwrap();
        let ended_at = |output: &str| runnable(&openmp).measured(output, 9.0).unwrap().ended_at;
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
