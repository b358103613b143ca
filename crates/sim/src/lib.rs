//! A simulator: the schedulers of `policies/`, unchanged, and models of the kernel's own, on models of machines.
//! Deterministic: one seed, one result. `docs/explanation/simulator.md` explains it.
//!
//! - [`engine`]: time, events, random numbers
//! - [`core`]: what every scheduler shares: CPUs, tasks, run-queue locks, costs, counts
//! - [`classes`]: the schedulers behind one interface; [`ext`] is sched_ext
//! - [`env`]: what a policy consists of: its object, maps and timers; [`kfuncs`]: what it calls under [`ext`]
//! - [`rest`]: the rest of the kernel, as far as it shows in counts: RCU's thread, `mmap_lock`, starts of tasks
//! - [`workload`]: what the tasks do
//! - [`Setup`]: what to run; [`load()`]: its workload, by name
//! - [`run`]: puts them together: wake-ups, switches, ticks
//! - [`rules`]: what a scheduler promises, and how near a run came to breaking it
//! - [`scenario`]: runs in files, and fuzzing, which draws them
//! - [`adversary`]: searches for scenarios that break a rule
//! - [`sweep`]: the same run with several values of one number of the machine
//! - [`output`]: the results
pub mod adversary;
pub mod classes;
pub mod conformance;
pub mod core;
pub mod engine;
mod env;
mod error;
mod ext;
mod kfuncs;
mod load;
pub mod output;
mod perf_script;
pub mod rest;
pub mod rules;
pub mod run;
pub mod scenario;
mod setup;
pub mod sweep;
pub mod workload;

pub(crate) use error::{DEADLOCK, WATCHDOG};
pub use error::{Error, Violation};
pub use load::load;
pub use run::Simulation;
pub use setup::Setup;
