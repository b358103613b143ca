//! A parallel build: `make` with many jobs, each a compiler for a fraction of a second.
use super::parameters::Parameters;
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "make:JOBS:FILES";

/// `make:JOBS:FILES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Make {
    /// Compilers at a time.
    pub jobs: u64,
    /// How many files are compiled, one job each.
    pub files: u64,
}

impl Make {
    /// The defaults are four jobs and four files for each CPU; for a model, 16.
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        let default = words.default(|cpus| 4 * cpus, 16);
        Ok(Self {
            jobs: words.number("JOBS", default, 1..=4096)?,
            files: words.number("FILES", default, 1..=100_000)?,
        })
    }
}

impl fmt::Display for Make {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "make:{}:{}", self.jobs, self.files)
    }
}
