//! A workload as the user names it.
use super::chain::Chain;
use super::co_threads::CoThreads;
use super::hackbench::Hackbench;
use super::hogs::Hogs;
use super::make::Make;
use super::mix::Mix;
use super::npb::Npb;
use super::parameters::Parameters;
use super::perf_pipe::PerfPipe;
use super::phases::Phases;
use super::requests::Requests;
use super::script::{Script, read_rt_app, read_tasks, read_trace};
use super::spin_barrier::SpinBarrier;
use super::{Program, World, co_threads, requests};
use crate::Error;
use std::fmt;
use std::sync::Arc;

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// See [`Hackbench`].
    Hackbench(Hackbench),
    /// See [`Hogs`].
    Hogs(Hogs),
    /// See [`Mix`]; only in scenario files.
    Mix(Mix),
    /// See [`SpinBarrier`].
    SpinBarrier(SpinBarrier),
    /// See [`Phases`].
    Phases(Phases),
    /// See [`Npb`].
    Npb(Npb),
    /// See [`Requests`].
    Requests(Requests),
    /// See [`PerfPipe`].
    PerfPipe(PerfPipe),
    /// See [`Chain`].
    Chain(Chain),
    /// See [`Make`].
    Make(Make),
    /// See [`CoThreads`].
    CoThreads(CoThreads),
    /// From a file.
    Script(Arc<Script>),
}

/// Forms, and what they are.
pub const FORMS: &[(&str, &str)] = &[
    (
        "hackbench:{process,thread}-{pipe,socket}:GROUPS:LOOPS",
        "groups of 40 tasks that send each other messages",
    ),
    ("hogs:TASKS:MS[:KIB]", "tasks that only compute, each for MS milliseconds, on KIB of its own"),
    (
        "spin-barrier:THREADS:ITERATIONS:WORK",
        "threads that compute, then wait for each other with sched_yield",
    ),
    (
        "phases:THREADS:PHASES:WORK_US:IMBALANCE:WAIT",
        "parallel loops with a barrier after each; WAIT is libomp, spin, yield or futex",
    ),
    (
        "npb:PROGRAM:THREADS:STEPS:WAIT:MOPS",
        "the shape of bt, cg, ep, ft, is, mg, sp or ua of the NAS Parallel Benchmarks, class A",
    ),
    (
        "requests:MESSENGERS:WORKERS:REQUESTS:WORK",
        "workers woken for requests: the time is the 99th percentile of the wake-up latency",
    ),
    ("perf-pipe:LOOPS", "two processes that wake each other"),
    ("chain:TASKS:ROUNDS:WORK_US", "a token goes round a ring of tasks that wake each other"),
    ("make:JOBS:FILES", "a parallel build: compilers that start and end"),
    (
        "co-threads:PROCESSES:THREADS:BYTES:SECONDS:OPERATION_US",
        "processes whose threads work on shared data for a fixed time: the time is that of a million operations",
    ),
    ("tasks:FILE", "tasks with their steps and needs, from TOML"),
    ("rt-app:FILE", "a workload of rt-app, from JSON"),
    ("trace:FILE", "tasks as `perf sched script` saw them, or from CSV or JSON"),
];

impl Workload {
    /// The first task's program.
    pub fn main(&self, world: &mut World) -> Box<dyn Program> {
        match self {
            Self::Hackbench(hackbench) => hackbench.main(world),
            Self::Hogs(hogs) => hogs.main(),
            Self::Mix(mix) => mix.main(world),
            Self::SpinBarrier(spin) => spin.main(world),
            Self::Phases(phases) => phases.main(world),
            Self::Npb(npb) => npb.main(world),
            Self::Requests(requests) => requests.main(world),
            Self::PerfPipe(pipe) => pipe.main(world),
            Self::Chain(chain) => chain.main(world),
            Self::Make(make) => make.main(),
            Self::CoThreads(co_threads) => co_threads.main(),
            Self::Script(script) => script.main(world),
        }
    }

    /// Does it fit a machine with so many CPUs?
    pub fn check(&self, nr_cpus: usize) -> Result<(), Error> {
        match self {
            Self::Script(script) => script.check(nr_cpus),
            _ => Ok(()),
        }
    }

    /// What its time is, where it is not how long it takes.
    pub fn time_is(&self) -> Option<&'static str> {
        match self {
            Self::Requests(_) => Some(requests::TIME_IS),
            Self::CoThreads(_) => Some(co_threads::TIME_IS),
            _ => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hackbench(hackbench) => hackbench.fmt(out),
            Self::Hogs(hogs) => hogs.fmt(out),
            Self::Mix(mix) => write!(out, "mix of {} tasks", mix.0.len()),
            Self::SpinBarrier(spin) => spin.fmt(out),
            Self::Phases(phases) => phases.fmt(out),
            Self::Npb(npb) => npb.fmt(out),
            Self::Requests(requests) => requests.fmt(out),
            Self::PerfPipe(pipe) => pipe.fmt(out),
            Self::Chain(chain) => chain.fmt(out),
            Self::Make(make) => make.fmt(out),
            Self::CoThreads(co_threads) => co_threads.fmt(out),
            Self::Script(script) => script.fmt(out),
        }
    }
}

/// Reads `NAME[:PARAMETER…]`; what is left out from the end has a default. Files are read and checked.
pub fn parse_workload(text: &str) -> Result<Workload, Error> {
    let (name, mut parameters) = Parameters::new(text);
    let workload = match name {
        "hackbench" => Workload::Hackbench(Hackbench::parse(&mut parameters)?),
        "hogs" => Workload::Hogs(Hogs::parse(&mut parameters)?),
        "spin-barrier" => Workload::SpinBarrier(SpinBarrier::parse(&mut parameters)?),
        "phases" => Workload::Phases(Phases::parse(&mut parameters)?),
        "npb" => Workload::Npb(Npb::parse(&mut parameters)?),
        "requests" => Workload::Requests(Requests::parse(&mut parameters)?),
        "perf-pipe" => Workload::PerfPipe(PerfPipe::parse(&mut parameters)?),
        "chain" => Workload::Chain(Chain::parse(&mut parameters)?),
        "make" => Workload::Make(Make::parse(&mut parameters)?),
        "co-threads" => Workload::CoThreads(CoThreads::parse(&mut parameters)?),
        "tasks" => script(&mut parameters, read_tasks)?,
        "rt-app" => script(&mut parameters, read_rt_app)?,
        "trace" => script(&mut parameters, read_trace)?,
        _ => {
            let names: Vec<&str> =
                FORMS.iter().map(|(form, _)| form.split(':').next().unwrap_or(form)).collect();
            return Err(Error::unknown("workload", name, &names));
        }
    };
    parameters.end()?;
    Ok(workload)
}

fn script(
    parameters: &mut Parameters<'_>,
    read: fn(&str, &str) -> Result<Script, Error>,
) -> Result<Workload, Error> {
    let path = parameters.rest().ok_or_else(|| parameters.wrong("which FILE?"))?;
    let text = std::fs::read_to_string(path).map_err(|cause| Error::File { path: path.to_owned(), cause })?;
    Ok(Workload::Script(Arc::new(read(&text, path)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in [
            "hackbench:process-pipe:4:100",
            "hackbench:thread-socket:2:9",
            "hogs:8:100",
            "hogs:8:100:64",
            "spin-barrier:32:50:12500",
            "phases:32:50:125:10:futex",
            "npb:cg:228:15:libomp:100",
            "requests:2:16:300:3000",
            "perf-pipe:7",
            "chain:8:100:50",
            "make:16:17",
            "co-threads:11:5:16384:1",
            "co-threads:11:5:16384:1:50",
        ] {
            assert_eq!(parse_workload(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_workload("hackbench").unwrap().to_string(), "hackbench:process-pipe:4:100");
    }

    #[test]
    fn every_form_is_understood() {
        for (form, _) in FORMS.iter().filter(|(form, _)| !form.contains("FILE")) {
            let name = form.split(':').next().unwrap();
            let workload = parse_workload(name).unwrap().to_string();
            assert_eq!(parse_workload(&workload).unwrap().to_string(), workload);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for bad in [
            "hackbenhc",
            "hackbench:pipe",
            "hackbench:process-pipe:0",
            "hogs:1:2:3:4",
            "hogs:x",
            "npb:lu",
            "npb:cg:4:16",
            "phases:4:4:4:101",
            "make:0",
            "tasks",
            "tasks:/no/such/file.toml",
        ] {
            assert!(parse_workload(bad).unwrap_err().is_usage(), "{bad}");
        }
    }
}
