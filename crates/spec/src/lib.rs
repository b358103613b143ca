//! What a user can name, and the error for a name that does not exist.
//!
//! [`Scheduler`] is what schedules: a [`KernelSpec`] (one of the kernel's own with its settings), a [`PolicySpec`] (a
//! policy of this build with its knobs, as in `flsched:slice_us=5000`), or a [`Peer`] (a program of another project).
//! [`Policy`] is what a policy's source declares: knobs, lists and statistics. [`Target`] is where
//! it runs, [`AppFile`](app::AppFile) what the catalogue of applications says, [`Workload`] what runs: a program, or in the simulator a model of one. Nothing here needs a kernel: the same
//! names go to the loader and to the simulator.
//!
//! To add a policy, put `NAME.bpf.c` into `policies/`: the build finds it there.
#![warn(missing_docs)]
pub mod app;
mod describe;
mod kernel;
mod knob;
mod pids;
mod policy;
mod scheduler;
mod setting;
mod target;
mod usage;
pub mod workload;

pub use describe::Malformed;
pub use kernel::{Kernel, KernelSpec};
pub use knob::{Knob, Statistic};
pub use pids::PidList;
pub use policy::{Policy, PolicyFile};
pub use scheduler::{Peer, Scheduler};
pub use setting::PolicySpec;
pub use target::Target;
pub use usage::{UsageError, number};
pub use workload::Workload;
