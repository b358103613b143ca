//! A wake-up chain: tasks in a ring. Each computes, wakes the next one and sleeps.
use super::parameters::Parameters;
use crate::UsageError;
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "chain:TASKS:ROUNDS:WORK_US";

/// `chain:TASKS:ROUNDS:WORK_US`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Processes in the ring.
    pub tasks: u64,
    /// Rounds: how often each task runs.
    pub rounds: u64,
    /// How long each computes with it, in µs.
    pub work_us: u64,
}

impl Chain {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            tasks: words.number("TASKS", 8, 2..=100_000)?,
            rounds: words.number("ROUNDS", 100, 1..=1_000_000)?,
            work_us: words.number("WORK_US", 50, 0..=1_000_000)?,
        })
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "chain:{}:{}:{}", self.tasks, self.rounds, self.work_us)
    }
}
