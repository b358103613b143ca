//! Schedulers on this machine, with one generic loader.
//!
//! Nothing here depends on a particular policy. [`loader`] opens, configures, loads and attaches the object of one,
//! [`Supervisor`] keeps it attached through CPU hotplug and ejections, and [`sched_ext`]
//! reads the state that the kernel reports. [`policy_file`] makes a policy from a file known for as long as the program runs.
mod access;
mod attached;
mod class;
mod config;
mod constants;
pub mod doctor;
mod error;
mod exit;
mod frequency;
mod guard;
mod loader;
pub mod log;
mod object;
mod partial;
pub mod policy_file;
mod processes;
pub mod sched_ext;
mod server;
mod starvation;
pub mod status;
mod supervise;
mod tasks;
mod topology;
pub mod verifier;

pub use access::{Lack, Purpose, forbidden_by};
pub use attached::Attached;
pub use class::start_in_sched_ext;
pub use config::release as kernel_release;
pub use error::Error;
pub use exit::{ExitReport, Waiter};
pub use flsched_machine::CpuLocation;
pub use frequency::Frequencies;
pub use guard::Raised;
pub use loader::{Running, Scope, check_machine, check_partial, start, try_load};
pub use partial::Obstacle;
pub use server::{Share, keep as keep_servers};
pub use starvation::{StarvationWatch, StarvedTask, Starving, release, release_children};
pub use supervise::{Change, Supervisor};
pub use topology::{Layout, cpu_locations};

/// Names of the kernel's scx kfuncs whose type information is malformed, so that no scheduler
/// loads; empty on a healthy kernel. Source: `/sys/kernel/btf/vmlinux`.
pub fn malformed_kfuncs() -> Vec<String> {
    if config::has_btf() { scx_utils::compat::malformed_scx_kfuncs() } else { Vec::new() }
}
