//! Why there is no machine.
use flsched_spec::UsageError;
use thiserror::Error;

/// The user can correct both, with another name, number or file.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no such machine, or its file is not valid; the text has what, where, and what to do.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// Its file cannot be read.
    #[error("{path}: {cause}")]
    File {
        /// The path as given.
        path: String,
        cause: std::io::Error,
    },
}

impl Error {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(UsageError(text.into()))
    }

    /// `name` is not one of `valid`.
    pub(crate) fn unknown(kind: &str, name: &str, valid: &[&str]) -> Self {
        UsageError::unknown(kind, name, valid).into()
    }
}
