//! Models: what the simulator runs.
use super::entry::Entry;
use super::{
    Chain, CoThreads, Format, Hackbench, Hogs, Make, Npb, PerfPipe, Phases, Requests, ScriptFile, SpinBarrier,
};
use super::{
    chain, co_threads, hackbench, hogs, make, npb, perf_pipe, phases, requests, script, spin_barrier,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What tasks of the simulator do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Model {
    /// Groups of tasks that send each other messages.
    Hackbench(Hackbench),
    /// Tasks that only compute.
    Hogs(Hogs),
    /// Threads that compute, then wait for each other with `sched_yield`.
    SpinBarrier(SpinBarrier),
    /// Parallel loops with a barrier after each.
    Phases(Phases),
    /// The shape of one of the NAS Parallel Benchmarks.
    Npb(Npb),
    /// Workers that are woken for requests.
    Requests(Requests),
    /// Two processes that wake each other.
    PerfPipe(PerfPipe),
    /// Tasks in a ring, each of which wakes the next.
    Chain(Chain),
    /// A parallel build.
    Make(Make),
    /// Processes whose threads work on the same data.
    CoThreads(CoThreads),
    /// Tasks in a file.
    Script(ScriptFile),
    /// The file of a scenario: tasks, and what is done to the machine meanwhile.
    Scenario(String),
}

/// Models with names, in the order of the help text.
pub(super) const ENTRIES: &[Entry<Model>] = &[
    Entry {
        form: hackbench::FORM,
        what: "groups of 40 tasks: each of 20 senders sends LOOPS messages to each of 20 receivers",
        read: |words| Hackbench::read(words).map(Model::Hackbench),
    },
    Entry {
        form: hogs::FORM,
        what: "tasks that only compute, each for MS milliseconds, with a working set of KIB KiB each",
        read: |words| Hogs::read(words).map(Model::Hogs),
    },
    Entry {
        form: spin_barrier::FORM,
        what: "threads that compute WORK arithmetic steps, then wait for each other with sched_yield, ITERATIONS times",
        read: |words| SpinBarrier::read(words).map(Model::SpinBarrier),
    },
    Entry {
        form: phases::FORM,
        what: "PHASES parallel loops of WORK_US µs, by up to IMBALANCE percent more or less, with a barrier after each; WAIT is libomp, spin, yield or futex",
        read: |words| Phases::read(words).map(Model::Phases),
    },
    Entry {
        form: npb::FORM,
        what: "a model of bt, cg, ep, ft, is, mg, sp or ua of the NAS Parallel Benchmarks, class A; STEPS is the number of iterations, MIPS the speed of a thread alone on its core, in million instructions per second",
        read: |words| Npb::read(words).map(Model::Npb),
    },
    Entry {
        form: requests::FORM,
        what: "workers that serve REQUESTS requests each, of WORK arithmetic steps, and sleep PAUSE_US µs after each; the time reported is the p99 wake-up latency",
        read: |words| Requests::read(words).map(Model::Requests),
    },
    Entry {
        form: perf_pipe::FORM,
        what: "two processes that wake each other, LOOPS times",
        read: |words| PerfPipe::read(words).map(Model::PerfPipe),
    },
    Entry {
        form: chain::FORM,
        what: "a ring of tasks; each computes WORK_US µs, then wakes the next, for ROUNDS rounds",
        read: |words| Chain::read(words).map(Model::Chain),
    },
    Entry {
        form: make::FORM,
        what: "a parallel build of FILES files by up to JOBS compilers at a time",
        read: |words| Make::read(words).map(Model::Make),
    },
    Entry {
        form: co_threads::MODEL_FORM,
        what: "processes whose threads change BYTES of shared data for SECONDS seconds; the time reported is that of a million operations",
        read: |words| CoThreads::read_model(words).map(Model::CoThreads),
    },
    Entry {
        form: script::TASKS_FORM,
        what: "tasks and what they do, step by step, from a TOML file",
        read: |words| ScriptFile::read(Format::Tasks, words).map(Model::Script),
    },
    Entry {
        form: script::RT_APP_FORM,
        what: "a workload of rt-app, from its JSON file",
        read: |words| ScriptFile::read(Format::RtApp, words).map(Model::Script),
    },
    Entry {
        form: script::SCENARIO_FORM,
        what: "a scenario, from its TOML file: tasks and what they do, CPUs that go offline, changes of affinity",
        read: |words| Ok(Model::Scenario(words.file()?.to_owned())),
    },
    Entry {
        form: script::TRACE_FORM,
        what: "tasks recorded by `flsched record` or `perf sched script`, or listed in a CSV file",
        read: |words| ScriptFile::read(Format::Trace, words).map(Model::Script),
    },
];

impl Model {
    /// What its time means, if it is not the duration of the run.
    pub fn time_is(&self) -> Option<&'static str> {
        match self {
            Self::Requests(_) => Some(Requests::TIME_IS),
            Self::CoThreads(_) => Some(CoThreads::TIME_IS),
            _ => None,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hackbench(hackbench) => hackbench.fmt(out),
            Self::Hogs(hogs) => hogs.fmt(out),
            Self::SpinBarrier(spin) => spin.fmt(out),
            Self::Phases(phases) => phases.fmt(out),
            Self::Npb(npb) => npb.fmt(out),
            Self::Requests(requests) => requests.fmt(out),
            Self::PerfPipe(pipe) => pipe.fmt(out),
            Self::Chain(chain) => chain.fmt(out),
            Self::Make(make) => make.fmt(out),
            Self::CoThreads(co_threads) => co_threads.fmt(out),
            Self::Script(script) => script.fmt(out),
            Self::Scenario(path) => write!(out, "scenario:{path}"),
        }
    }
}

impl From<Model> for String {
    fn from(model: Model) -> Self {
        model.to_string()
    }
}
