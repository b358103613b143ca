//! Tasks that only compute, each for the same time.
use super::parameters::Parameters;
use super::team::Team;
use super::{Child, Program, Step, View};
use crate::Error;
use crate::core::Footprint;
use crate::engine::Ns;
use std::fmt;

/// `hogs:TASKS:MS[:KIB]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hogs {
    /// How many.
    pub tasks: u64,
    /// How long each computes, in ms.
    pub ms: u64,
    /// What each works on, alone, in KiB.
    pub kib: u64,
}

impl Hogs {
    pub(super) fn parse(parameters: &mut Parameters<'_>) -> Result<Self, Error> {
        Ok(Self {
            tasks: parameters.number("TASKS", 8, 1..=1_000_000)?,
            ms: parameters.number("MS", 100, 1..=1_000_000)?,
            kib: parameters.number("KIB", 0, 0..=1 << 30)?,
        })
    }

    pub(super) fn main(&self) -> Box<dyn Program> {
        let footprint = Footprint { own_bytes: self.kib << 10, shared_bytes: 0 };
        let left = Some(self.ms * 1_000_000);
        let hog = move |_| Child { footprint, ..Child::process("hog", Hog { left }) };
        Box::new(Team::new((0..self.tasks).map(hog), Vec::new))
    }
}

impl fmt::Display for Hogs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "hogs:{}:{}", self.tasks, self.ms)?;
        match self.kib {
            0 => Ok(()),
            kib => write!(out, ":{kib}"),
        }
    }
}

struct Hog {
    left: Option<Ns>,
}

impl Program for Hog {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        self.left.take().map_or(Step::Exit, Step::Run)
    }
}
