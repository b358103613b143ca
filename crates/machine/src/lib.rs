//! Machines: what `machines/NAME.toml` says of one, and what follows from it.
//!
//! - [`Machine`]: CPUs with their places, speeds and costs, from a file
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
mod speed;

pub use callback::Callback;
pub use clocks::{Clock, Clocks, THRESHOLD};
pub use costs::{ByDistance, ByKind, CallbackCosts, ChannelCosts, Costs};
pub use error::Error;
pub use machine::{Distance, Machine, Place};
pub use places::{MAX_CPUS, MAX_GROUPS, Places, Seat};
pub use speed::{CacheSizes, Domain, FULL_SPEED, Frequency, Governor, LoadTimes, Speed};

/// A CPU's number.
pub type CpuId = usize;
/// Nanoseconds.
pub type Ns = u64;
