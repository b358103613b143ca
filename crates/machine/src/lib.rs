//! Machines: what `machines/NAME.toml` describes, and what follows from it.
//!
//! - [`MachineFile`]: the file, read and written; each number is [`Sourced`]
//! - [`Machine`]: CPUs with their places, speeds and costs, by name or from a file
//! - [`Setting`]: another value for one of its numbers
//! - [`measure`]: what scheduling costs on the present machine
//! - [`Sysfs`]: where the CPUs are, as the kernel of the present machine or of another one reports it
//! - [`Places`], [`Clocks`]: the tables of `policies/topology.bpf.h` and `policies/frequency.bpf.h`, for the loader
//!   and for the simulator
mod callback;
mod clocks;
mod costs;
mod error;
mod file;
mod hierarchy;
mod instructions;
mod machine;
pub mod measure;
mod places;
mod price;
mod recorded;
mod release;
mod setting;
mod source;
mod sourced;
mod speed;
mod startup;
mod sysfs;
mod topology;

pub use callback::Callback;
pub use clocks::{Clock, Clocks, Scaling, THRESHOLD};
pub use costs::{ByDistance, ByKind, CallbackCosts, Callbacks, ChannelCosts, Costs};
pub use error::Error;
pub use file::MachineFile;
pub use hierarchy::{Hierarchy, Latencies, Overlap, Ways};
pub use machine::Machine;
pub use places::{CpuLocation, GroupOfCpus, MAX_CPUS, MAX_GROUPS, Places};
pub use price::Price;
pub use release::Release;
pub use setting::{Setting, with_settings};
pub use sourced::{Certainty, Sourced};
pub use speed::{CacheSizes, Domain, Frequency, Governor, LoadTimes, Power, Speed};
pub use startup::{MemoryCall, Startup};
pub use sysfs::{Distances, Sysfs, read_cpu_list, write_cpu_list};
pub use topology::{Distance, Numbering, Place, Small, Topology};

pub type CpuId = usize;
/// Nanoseconds.
pub type Ns = u64;
/// `SCX_CPUPERF_ONE`, and the kernel's `SCHED_CAPACITY_SCALE`: the machine's fastest core at its
/// highest frequency, with one thread running.
pub const FULL_SPEED: u32 = 1024;
