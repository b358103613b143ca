//! Threads that compute and then wait for each other, yielding while they wait.
use super::parameters::Parameters;
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "spin-barrier:THREADS:ITERATIONS:WORK";

/// Steps that take about 125,000 instructions as the real program is compiled for x86-64: 32 threads × 50
/// barriers of work alone are then 0.2 s when an instruction takes 1 ns.
const WORK: u64 = 12_500;

/// `spin-barrier:THREADS:ITERATIONS:WORK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinBarrier {
    /// Threads that meet at the barrier.
    pub threads: u64,
    /// How many barriers each thread passes.
    pub iterations: u64,
    /// Steps of arithmetic before each barrier, in each thread.
    pub work: u64,
}

impl SpinBarrier {
    /// What is left out is eight threads for each CPU, 150 barriers (of a model: 32, and 50) and the default work.
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        let threads = words.default(|cpus| 8 * cpus, 32);
        let iterations = words.default(|_| 150, 50);
        Ok(Self {
            threads: words.number("THREADS", threads, 1..=4096)?,
            iterations: words.number("ITERATIONS", iterations, 1..=10_000_000)?,
            work: words.number("WORK", WORK, 0..=1_000_000_000)?,
        })
    }
}

impl fmt::Display for SpinBarrier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "spin-barrier:{}:{}:{}", self.threads, self.iterations, self.work)
    }
}
