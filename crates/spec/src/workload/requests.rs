//! Requests and their wake-up latency, as in schbench: messengers wake workers; a woken worker does a
//! fixed amount of work, may sleep for a while, notifies its messenger and waits for the next request.
use super::parameters::Parameters;
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "requests:MESSENGERS:WORKERS:REQUESTS:WORK[:PAUSE_US]";

/// Steps that take about 30,000 instructions: 2 × 16 workers with 300 requests each are then about 0.3 s
/// when an instruction takes 1 ns, and enough for a 99.9th percentile.
const WORK: u64 = 3_000;

/// `requests:MESSENGERS:WORKERS:REQUESTS:WORK[:PAUSE_US]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Threads that send requests.
    pub messengers: u64,
    /// Threads that serve them, for each messenger.
    pub workers: u64,
    /// Requests that each worker serves.
    pub requests: u64,
    /// Steps of arithmetic for each request.
    pub work: u64,
    /// How long a worker that has answered sleeps before it waits for the next request, in µs. Without a pause the
    /// workers load all CPUs.
    pub pause_us: u64,
}

impl Requests {
    /// What its time is.
    pub const TIME_IS: &str = "99th percentile of the wake-up latency";

    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            messengers: words.number("MESSENGERS", 2, 1..=256)?,
            workers: words.number("WORKERS", 16, 1..=4096)?,
            requests: words.number("REQUESTS", 300, 1..=1_000_000)?,
            work: words.number("WORK", WORK, 0..=1_000_000_000)?,
            pause_us: words.number("PAUSE_US", 0, 0..=1_000_000)?,
        })
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "requests:{}:{}:{}:{}", self.messengers, self.workers, self.requests, self.work)?;
        match self.pause_us {
            0 => Ok(()),
            pause_us => write!(out, ":{pause_us}"),
        }
    }
}
