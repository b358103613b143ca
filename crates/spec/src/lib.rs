//! What a user can name, and what is said when there is no such thing.
//!
//! [`Policy`] is a scheduler of this build: its object, and the knobs, lists and statistics that its source
//! declares. [`PolicySpec`] is one with its knobs set, as users write it: `flsched:slice_us=5000`. Nothing here
//! needs a kernel: the same names go to the loader and to the simulator.
//!
//! To add a policy, put `NAME.bpf.c` into `policies/`: the build finds it there.
mod describe;
mod knob;
mod pids;
mod policy;
mod setting;
mod usage;

pub use describe::Malformed;
pub use knob::{Knob, Statistic};
pub use pids::PidList;
pub use policy::Policy;
pub use setting::PolicySpec;
pub use usage::{UsageError, number};
