//! Where the CPU time of a run goes, by cause: what separates a scheduler from the time that the work alone needs.
//!
//! [`recorded`] runs something with a probe in the kernel and returns a [`Recording`]: every switch of tasks,
//! with what the CPU did since the one before, and every wake-up. [`Recording::why`] makes a [`Why`] of it. The
//! first needs root and BTF of the kernel, the second nothing: its tests make their own recordings.
mod attribute;
mod causes;
mod probe;
mod record;

pub use causes::Why;
pub use probe::{Error, recorded};
pub use record::{MODES, Mode, OpenTurn, Recording, Switched, Woken};
