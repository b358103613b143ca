//! Records a load: [`recorded`] does something with a probe in the kernel, and returns what all tasks did meanwhile.
//! Needs root, and BTF of the kernel.
mod log;
mod merge;
mod probe;

pub use probe::{Error, Limits, Watch, recorded};
