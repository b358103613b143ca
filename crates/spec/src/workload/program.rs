//! Programs: what is run where there is a kernel.
use super::entry::Entry;
use super::{
    App, CoThreads, CommandLine, Hackbench, Make, NpbProgram, OpenMp, PerfPipe, Requests, Runtime,
    SpinBarrier,
};
use super::{app, co_threads, hackbench, make, openmp, perf_pipe, requests, spin_barrier};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A workload that is a program on a real machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
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
    /// A program that people know.
    App(App),
    /// A program of the user's NAS Parallel Benchmarks.
    Npb(NpbProgram),
    /// Any command, timed from start to exit.
    Command(CommandLine),
}

/// Those with names, in the order of the help text.
pub(super) const ENTRIES: &[Entry<Program>] = &[
    Entry {
        form: hackbench::FORM,
        what: "groups of 40 tasks: each of 20 senders sends LOOPS messages to each of 20 receivers (rt-tests)",
        read: |words| Hackbench::read(words).map(Program::Hackbench),
    },
    Entry {
        form: spin_barrier::FORM,
        what: "threads that compute WORK arithmetic steps, then wait for each other with sched_yield, ITERATIONS times",
        read: |words| SpinBarrier::read(words).map(Program::SpinBarrier),
    },
    Entry {
        form: openmp::LIBOMP_FORM,
        what: "an OpenMP program on LLVM's runtime; KERNEL is one of the OpenMP kernels below",
        read: |words| OpenMp::read(Runtime::Libomp, words).map(Program::OpenMp),
    },
    Entry {
        form: openmp::LIBGOMP_FORM,
        what: "the same on GCC's runtime",
        read: |words| OpenMp::read(Runtime::Libgomp, words).map(Program::OpenMp),
    },
    Entry {
        form: requests::FORM,
        what: "workers that serve REQUESTS requests each, of WORK arithmetic steps, and sleep PAUSE_US µs after each, as in schbench; the time reported is the p99 wake-up latency",
        read: |words| Requests::read(words).map(Program::Requests),
    },
    Entry {
        form: co_threads::FORM,
        what: "processes whose threads change BYTES of shared data for SECONDS seconds; the time reported is that of a million operations",
        read: |words| CoThreads::read(words).map(Program::CoThreads),
    },
    Entry {
        form: co_threads::TABLE_FORM,
        what: "the five tests of Table I in SCHED_RR2's paper",
        read: |words| CoThreads::read(words).map(Program::CoThreads),
    },
    Entry {
        form: perf_pipe::FORM,
        what: "two processes that wake each other, LOOPS times (perf bench sched pipe)",
        read: |words| PerfPipe::read(words).map(Program::PerfPipe),
    },
    Entry {
        form: make::FORM,
        what: "a parallel build of FILES generated C files by the C compiler, up to JOBS at a time",
        read: |words| Make::read(words).map(Program::Make),
    },
    Entry {
        form: app::FORM,
        what: "a program that people know, with the parameters that `flsched apps` lists",
        read: |words| App::read(words).map(Program::App),
    },
];

impl Program {
    /// What its time is, where it is not how long it takes.
    pub fn time_is(&self) -> Option<&'static str> {
        match self {
            Self::Requests(_) => Some(Requests::TIME_IS),
            Self::CoThreads(_) => Some(CoThreads::TIME_IS),
            _ => None,
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hackbench(hackbench) => hackbench.fmt(out),
            Self::SpinBarrier(spin) => spin.fmt(out),
            Self::OpenMp(openmp) => openmp.fmt(out),
            Self::Requests(requests) => requests.fmt(out),
            Self::CoThreads(co_threads) => co_threads.fmt(out),
            Self::PerfPipe(pipe) => pipe.fmt(out),
            Self::Make(make) => make.fmt(out),
            Self::App(app) => app.fmt(out),
            Self::Npb(npb) => npb.fmt(out),
            Self::Command(command) => command.fmt(out),
        }
    }
}
