//! Campaigns: comparisons that are too large for one machine.
//!
//! [`file`] is what the user writes: comparisons, with values to fill in. [`plan`] divides their runs into shards,
//! each of which is one command on some node. [`shard`] is what such a command has done so far. [`merge`] gives
//! all shards' runs to [`flsched_compare::compare()`] as if they were done there, so that the report is the one that
//! one machine would have given. [`engines`] writes the files with which Slurm and HyperQueue run the commands.
//!
//! Runs in the simulator are divided, as they are the same on every machine. A comparison on real or virtual CPUs is one
//! shard: runs of different nodes are never in one report.
pub mod engines;
pub mod file;
pub mod merge;
pub mod plan;
pub mod shard;

pub use file::Campaign;
pub use merge::Replay;
pub use plan::{Part, Plan, Planned};
pub use shard::Shard;

use flsched_compare::UsageError;
use std::path::{Path, PathBuf};

/// Why a campaign cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder that cannot be read or written.
    #[error("{}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// What a file says is not possible; the user can correct it.
    #[error("{}", path.display())]
    Wrong {
        path: PathBuf,
        /// What is wrong, and the remedy.
        source: UsageError,
    },
}

impl Error {
    fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }

    fn wrong(path: &Path, message: impl Into<String>) -> Self {
        Self::Wrong { path: path.to_path_buf(), source: UsageError(message.into()) }
    }
}

/// What the user is told.
#[cfg(test)]
fn usage(error: &Error) -> String {
    let Error::Wrong { source, .. } = error else { panic!("{error}") };
    format!("{error}: {source}")
}
