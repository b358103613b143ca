//! What all crates use, and what knows of no scheduler. [`files`] writes a file as a whole or not at all, and [`reports`] has
//! the form of those that are reports. [`process`] keeps child processes: they end with this program, and are waited for with
//! a time limit. [`signals`] says when to stop, [`eprintln!`] ends nothing when nobody reads, and [`Arch`] is what programs
//! are compiled for.
#![warn(missing_docs)]
mod arch;
pub mod files;
pub mod process;
pub mod reports;
pub mod signals;
mod stderr;

pub use arch::{Arch, UnknownArch};
