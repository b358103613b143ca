//! The library behind `flsched compare`: workloads under schedulers, side by side.
//!
//! The way of a comparison, one module a step:
//! [`contender`], [`waits`] and [`workload`] say *what* is compared, [`plan`] in which order, [`execute`] what
//! one run takes and gives; [`host`] really does a run on this machine, [`agent`] does so on request
//! of another machine and [`vm`] is that other machine's end, [`sim`] does it on a simulated one; [`stats`] and [`verdict`] make figures
//! of times, [`residency`] is time by frequency, [`result`] is the report as data, [`report`] the report to look at, and [`mod@compare`]
//! drives it all.
//!
//! A caller builds a [`CompareSpec`], picks an [`Executor`] ([`HostExecutor`], [`VmExecutor`] or [`SimExecutor`]) and
//! calls [`compare()`].
pub mod agent;
pub mod clock;
pub mod compare;
pub mod contender;
pub mod environment;
pub mod execute;
pub mod host;
pub mod output;
pub mod plan;
pub mod report;
pub mod residency;
pub mod result;
pub mod sim;
pub mod stats;
mod timestamp;
pub mod verdict;
pub mod vm;
pub mod waits;
mod warnings;
pub mod workload;

pub use clock::Clock;
pub use compare::{CompareError, CompareSpec, Event, Observer, compare};
pub use contender::Contender;
pub use execute::{ExecError, Executor, RunOutcome, RunRequest};
pub use flsched_spec::{Scheduler, Target, Workload};
pub use host::HostExecutor;
pub use output::Outputs;
pub use result::Report;
pub use sim::SimExecutor;
pub use vm::VmExecutor;
pub use waits::Waits;
pub use workload::workload_main;
