//! The library behind `flsched compare`: workloads under schedulers, side by side.
//!
//! The modules, from the bottom up: [`clock`], [`environment`], [`contender`], [`waits`] and [`workload`] describe what
//! is compared and where. [`execute`] describes the input and the result of one run, and [`executors`] do runs
//! on this machine, in a virtual machine or in the simulator. [`stats`] and [`verdict`] compute figures from times;
//! [`residency`] is time by frequency, `digits` says how many digits figures carry. [`result`] is the report as data; [`report`] shows it and [`output`] writes it.
//! [`spec`] is what to compare and [`plan`] is the order of runs. `summary` makes the report of the runs so far, and
//! [`mod@compare`] controls the whole comparison.
//!
//! A caller builds a [`CompareSpec`], picks an [`Executor`] ([`HostExecutor`], [`VmExecutor`] or [`SimExecutor`]) and
//! calls [`compare()`].
pub mod clock;
pub mod compare;
pub mod contender;
mod digits;
pub mod environment;
pub mod execute;
pub mod executors;
pub mod exit;
mod monotonic;
pub mod output;
pub mod plan;
mod proof;
pub mod report;
pub mod residency;
pub mod result;
pub mod spec;
pub mod stats;
mod summary;
mod timeline;
pub mod verdict;
pub mod waits;
mod warnings;
pub mod workload;

pub use clock::Clock;
pub use compare::{CompareError, Event, Observer, compare, requests};
pub use contender::Contender;
pub use execute::{ExecError, Executor, RunOutcome, RunRequest};
pub use executors::host::HostExecutor;
pub use executors::sim::SimExecutor;
pub use executors::vm::VmExecutor;
pub use flsched_spec::{Scheduler, Target, UsageError, Workload};
pub use output::Outputs;
pub use result::Report;
pub use spec::CompareSpec;
pub use waits::Waits;
pub use workload::workload_main;
