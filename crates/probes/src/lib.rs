//! Probes: BPF programs (`src/bpf/`) that watch this kernel's scheduling, and end with this process.
//!
//! [`locks`] and [`costs`] measure what scheduling itself costs while a command runs, first under the default scheduler
//! and then under a policy. [`locks`] counts the locks that the policy's callbacks and the kernel around them take, and
//! times the waits for them; [`costs`] counts the calls of the scheduler's functions and times them. [`anatomy`] reads
//! the policy's object without running it, and [`source_locks`] the source of the kernel's scheduler. [`why`] breaks the CPU time of a run down by cause, for `compare --why`.
//! [`watch`] shows which tasks run and which wait, for `top`.
//! [`record`] writes down what a load does, for the simulator. [`tally`] counts switches and migrations of tasks, for the conformance tests.
pub mod anatomy;
pub mod costs;
mod error;
mod functions;
pub mod locks;
mod mapped;
mod names;
mod probe;
pub mod record;
mod report;
mod run;
pub mod source_locks;
mod symbols;
pub mod tally;
mod waits;
pub mod watch;
pub mod why;

pub use anatomy::Anatomy;
pub use costs::{CostsReport, costs};
pub use error::Error;
pub use locks::{LocksReport, locks};
pub use probe::Refusal;
pub use report::{
    CostsPart, LocksPart, render_costs, render_costs_part, render_locks, render_locks_part,
    render_source_locks,
};
pub use run::{CLOCK_VARIABLE, Machine, Request, default_command};
pub use source_locks::SourceLocks;
pub use waits::Waits;
