//! The schedulers: built from `policies/*.bpf.c`, run on this machine by one generic loader.
//!
//! Nothing here knows a particular policy. [`catalog`] lists the objects of this build,
//! [`describe`] reads a policy's knobs and statistics out of its type information, [`loader`]
//! opens, configures, loads and attaches one, [`supervise`] keeps it attached through CPU hotplug
//! and gives up after repeated ejections, and [`sched_ext`] tells what the kernel says about it all.
//!
//! To add a policy, put `NAME.bpf.c` into `policies/`: the build finds it there.
mod catalog;
mod constants;
mod describe;
mod error;
mod exit;
mod frequency;
mod loader;
mod object;
mod pids;
pub mod sched_ext;
mod spec;
mod supervise;
mod topology;

pub use catalog::Policy;
pub use describe::{Description, Knob, Statistic};
pub use error::Error;
pub use exit::ExitReport;
pub use frequency::{Frequencies, Scaling};
pub use loader::{Options, Running, check_machine};
pub use pids::PidList;
pub use spec::{parse_spec, render_spec};
pub use supervise::{Backoff, Event, supervise};

/// Names of the kernel's scx kfuncs whose type information is malformed, so that no scheduler
/// loads; empty on a healthy kernel. Source: `/sys/kernel/btf/vmlinux`.
pub fn malformed_kfuncs() -> Vec<String> {
    if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        scx_utils::compat::malformed_scx_kfuncs()
    } else {
        Vec::new()
    }
}
