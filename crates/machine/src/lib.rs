//! Machines: what `machines/NAME.toml` says of one, and what follows from it.
//!
//! - [`MachineFile`]: the file, read and written; each number is [`Sourced`]
//! - [`Machine`]: CPUs with their places, speeds and costs, by name or from a file
//! - [`measure`]: what scheduling costs on the present machine
//! - [`Places`], [`Clocks`]: the tables of `policies/topology.bpf.h` and `policies/frequency.bpf.h`, for the loader
//!   and for the simulator
mod callback;
mod clocks;
mod costs;
mod error;
mod file;
mod machine;
pub mod measure;
mod places;
mod price;
mod sourced;
mod speed;
mod startup;
mod topology;

pub use callback::Callback;
pub use clocks::{Clock, Clocks, Scaling, THRESHOLD};
pub use costs::{ByDistance, ByKind, CallbackCosts, Callbacks, ChannelCosts, Costs};
pub use error::Error;
pub use file::MachineFile;
pub use machine::Machine;
pub use places::{CpuLocation, MAX_CPUS, MAX_GROUPS, Places};
pub use price::Price;
pub use sourced::{Certainty, Sourced};
pub use speed::{CacheSizes, Domain, FULL_SPEED, Frequency, Governor, LoadTimes, Speed};

pub use startup::Startup;
pub use topology::{Distance, Numbering, Place, Small, Topology};

/// A CPU's number.
pub type CpuId = usize;
/// Nanoseconds.
pub type Ns = u64;
