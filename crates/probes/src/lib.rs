//! Probes: BPF programs (`src/bpf/`) that watch this kernel's scheduling, gone when this process is.
//!
//! [`locks`] and [`costs`] measure what scheduling itself costs, while a command runs under the default scheduler and
//! then under a policy: [`locks`] tells which locks the policy's callbacks and the kernel around them take and how long
//! anybody waited for one; [`costs`] how often the scheduler's functions are called and how long they
//! take. [`anatomy`] looks into the policy's object without running it. [`why`] breaks the CPU time of a run down by
//! cause, for `compare --why`. [`tally`] counts switches and migrations of tasks, for the conformance tests.
pub mod anatomy;
pub mod costs;
mod error;
mod functions;
pub mod locks;
mod names;
mod probe;
mod report;
mod run;
mod symbols;
pub mod tally;
mod waits;
pub mod why;

pub use anatomy::Anatomy;
pub use costs::{CostsReport, costs};
pub use error::Error;
pub use locks::{LocksReport, locks};
pub use report::{CostsPart, LocksPart, render_costs, render_costs_part, render_locks, render_locks_part};
pub use run::{CLOCK_VARIABLE, Machine, Request, default_command};
pub use waits::Waits;
