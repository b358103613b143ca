//! What is wrong with a file.

/// Why there is no recording; the text names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {cause}")]
    File {
        /// The path as given.
        path: String,
        cause: std::io::Error,
    },
    /// Another kind of file.
    #[error("{path} is not a recording: `flsched record -o FILE` makes one")]
    Foreign {
        /// The path as given.
        path: String,
    },
    /// Of a later version.
    #[error(
        "{path} is a recording of format {found}, and this flsched reads format {known}: use the flsched that recorded it, or record again"
    )]
    Version {
        /// The path as given.
        path: String,
        found: u64,
        known: u64,
    },
    /// Cut off or damaged.
    #[error("{path} is cut off or damaged ({what}): copy it again, or record again")]
    Damaged {
        /// The path as given.
        path: String,
        what: String,
    },
}

impl Error {
    /// True if the caller named a file that is none, or another one (exit code 2).
    pub fn is_usage(&self) -> bool {
        use std::io::ErrorKind::{IsADirectory, NotFound};
        match self {
            Self::File { cause, .. } => matches!(cause.kind(), NotFound | IsADirectory),
            Self::Foreign { .. } | Self::Version { .. } | Self::Damaged { .. } => true,
        }
    }
}
