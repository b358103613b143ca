//! `perf bench sched pipe`: two processes that hand a byte to and fro, so that each loop is two switches.
use super::parameters::Parameters;
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "perf-pipe:LOOPS";

/// `perf-pipe:LOOPS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerfPipe {
    /// How often the byte goes to and fro.
    pub loops: u64,
}

impl PerfPipe {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self { loops: words.number("LOOPS", 10_000, 1..=1_000_000_000)? })
    }
}

impl fmt::Display for PerfPipe {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "perf-pipe:{}", self.loops)
    }
}
