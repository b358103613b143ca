//! OpenMP-style programs: a team of threads goes from parallel loop to parallel loop, with a barrier after
//! each, and waits there as its runtime does.
use super::parameters::Parameters;
use crate::UsageError;
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "phases:THREADS:PHASES:WORK_US:IMBALANCE:WAIT";

/// How threads wait at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStyle {
    /// As LLVM's and Intel's runtime: polls and yields, and sleeps after 200 ms (`KMP_BLOCKTIME`).
    Libomp,
    /// Polls.
    Spin,
    /// Polls and yields.
    Yield,
    /// Sleeps at once.
    Futex,
}

const STYLES: [(&str, WaitStyle); 4] = [
    ("libomp", WaitStyle::Libomp),
    ("spin", WaitStyle::Spin),
    ("yield", WaitStyle::Yield),
    ("futex", WaitStyle::Futex),
];

impl WaitStyle {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        words.choice("way to wait", &STYLES)
    }
}

impl fmt::Display for WaitStyle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = STYLES.iter().find(|(_, style)| style == self);
        out.write_str(found.map_or("", |(name, _)| name))
    }
}

/// `phases:THREADS:PHASES:WORK_US:IMBALANCE:WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Threads of the team.
    pub threads: u64,
    /// Parallel loops with a barrier each.
    pub phases: u64,
    /// How long a thread works in each, in µs.
    pub work_us: u64,
    /// By how much that differs at most, in percent.
    pub imbalance_percent: u64,
    /// How threads wait at barriers.
    pub wait: WaitStyle,
}

impl Phases {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            threads: words.number("THREADS", 32, 1..=65_536)?,
            phases: words.number("PHASES", 50, 1..=10_000_000)?,
            work_us: words.number("WORK_US", 125, 0..=10_000_000)?,
            imbalance_percent: words.number("IMBALANCE", 10, 0..=100)?,
            wait: WaitStyle::read(words)?,
        })
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, phases, work_us, imbalance_percent, wait } = self;
        write!(out, "phases:{threads}:{phases}:{work_us}:{imbalance_percent}:{wait}")
    }
}
