//! Tasks that only compute, each for the same time.
use super::parameters::Parameters;
use crate::UsageError;
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "hogs:TASKS:MS[:KIB[:MB_PER_S]]";

/// `hogs:TASKS:MS[:KIB[:MB_PER_S]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hogs {
    /// The number of tasks.
    pub tasks: u64,
    /// How long each computes, in ms.
    pub ms: u64,
    /// The size of each task's own data, in KiB.
    pub kib: u64,
    /// What each reads from memory, and writes there, in a second of its work, in MB.
    pub mb_per_s: u64,
}

impl Hogs {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            tasks: words.number("TASKS", 8, 1..=1_000_000)?,
            ms: words.number("MS", 100, 1..=1_000_000)?,
            kib: words.number("KIB", 0, 0..=1 << 30)?,
            mb_per_s: words.number("MB_PER_S", 0, 0..=1_000_000)?,
        })
    }
}

impl fmt::Display for Hogs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "hogs:{}:{}", self.tasks, self.ms)?;
        match (self.kib, self.mb_per_s) {
            (0, 0) => Ok(()),
            (kib, 0) => write!(out, ":{kib}"),
            (kib, mb_per_s) => write!(out, ":{kib}:{mb_per_s}"),
        }
    }
}
