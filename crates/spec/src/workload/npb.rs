//! The shapes of eight NAS Parallel Benchmarks 3.3.1, OpenMP, class A, for the simulator.
use super::WaitStyle;
use super::parameters::Parameters;
use crate::UsageError;
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "npb:PROGRAM:THREADS:STEPS:WAIT:MIPS";

/// A program of the NAS parallel benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NpbName {
    Bt,
    Cg,
    Ep,
    Ft,
    Is,
    Mg,
    Sp,
    Ua,
}

const NAMES: [(&str, NpbName); 8] = [
    ("bt", NpbName::Bt),
    ("cg", NpbName::Cg),
    ("ep", NpbName::Ep),
    ("ft", NpbName::Ft),
    ("is", NpbName::Is),
    ("mg", NpbName::Mg),
    ("sp", NpbName::Sp),
    ("ua", NpbName::Ua),
];

impl NpbName {
    /// In alphabetical order.
    pub const ALL: [Self; 8] =
        [Self::Bt, Self::Cg, Self::Ep, Self::Ft, Self::Is, Self::Mg, Self::Sp, Self::Ua];

    /// The name as users write it.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    /// Iterations of class A, from NPB's `sys/setparams.c`.
    pub fn steps(self) -> u64 {
        match self {
            Self::Bt | Self::Ua => 200,
            Self::Cg => 15,
            Self::Ep => 1,
            Self::Ft => 6,
            Self::Is => 10,
            Self::Mg => 4,
            Self::Sp => 400,
        }
    }
}

/// `npb:PROGRAM:THREADS:STEPS:WAIT:MIPS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Npb {
    /// Which program is modelled.
    pub program: NpbName,
    /// Threads of the team.
    pub threads: u64,
    /// Iterations: the class's own, or fewer for a shorter run.
    pub steps: u64,
    /// How threads wait at barriers.
    pub wait: WaitStyle,
    /// Instructions that a thread alone on a core executes in a µs.
    pub mips: u64,
}

impl Npb {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        let program = words.choice("NPB program", &NAMES)?;
        Ok(Self {
            program,
            threads: words.number("THREADS", 64, 1..=65_536)?,
            steps: words.number("STEPS", program.steps(), 1..=program.steps())?,
            wait: WaitStyle::read(words)?,
            mips: words.number("MIPS", 275, 1..=100_000_000)?,
        })
    }
}

impl fmt::Display for Npb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, threads, steps, wait, mips } = self;
        write!(out, "npb:{}:{threads}:{steps}:{wait}:{mips}", program.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_programs() {
        assert!(NAMES.iter().all(|(name, program)| program.name() == *name));
    }
}
