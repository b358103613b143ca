//! A simulator: the schedulers of `policies/`, unchanged, and models of the kernel's own, on models of machines.
//! Deterministic: one seed, one result. `docs/explanation/simulator.md` explains it.
//!
//! The rooms, from the bottom up. Each uses those before it only; `tests/rooms.rs` checks that.
//!
//! - [`engine`]: time, events, random numbers
//! - [`error`](Error): why a run did not begin, or ended early
//! - [`core`]: what every scheduler shares: CPUs, tasks, run-queue locks, costs, counts
//! - [`classes`]: the kernel's own schedulers, and the interface of all
//! - [`env`]: what a policy consists of: its object, maps and timers
//! - [`ext`]: the class that calls a policy, sched_ext
//! - [`kfuncs`]: what a policy calls there
//! - [`rules`]: what a scheduler promises, and how near a run came to breaking it
//! - [`schedulers`]: the classes that the user's name for a scheduler stands for
//! - [`rest`]: the rest of the kernel, as far as it shows in counts: RCU's thread, `mmap_lock`, starts of tasks
//! - [`perf_script`]: lines that perf prints
//! - [`workload`]: what the tasks do
//! - [`setup`](Setup): what to run
//! - [`output`]: the results
//! - [`run`]: puts all that together: wake-ups, switches, ticks
//! - [`scenario`]: runs in files, and fuzzing, which draws them
//! - [`load`](load()): a workload by its name, scenarios among them
//! - [`sweep`]: the same run with several values of one number of the machine
//! - [`adversary`]: searches for scenarios that break a rule
//! - [`conformance`]: holds the results of a scenario against those of a kernel
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
pub mod schedulers;
mod setup;
pub mod sweep;
pub mod workload;

pub(crate) use error::{DEADLOCK, WATCHDOG};
pub use error::{Error, Violation};
pub use load::load;
pub use run::Simulation;
pub use setup::Setup;
