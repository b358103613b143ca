//! What is measured into one file.
use crate::command;
use crate::format::formatted;
use crate::overhead::Overhead;
use crate::sets::{Comparison, OVERHEAD, SWEEPS, Sets};
use crate::store;
use crate::sweeps::{self, Sweep};
use flsched_spec::UsageError;

/// One `flsched` to run.
#[derive(Debug, Clone, Copy)]
pub enum Job<'a> {
    /// It writes its report itself.
    Comparison(&'a Comparison),
    /// It prints its report.
    Overhead(&'a Overhead),
    /// It writes its report itself.
    Sweep(&'a Sweep),
}

impl Job<'_> {
    /// Its report's name under `results/`.
    pub fn file(&self) -> &str {
        match self {
            Self::Comparison(comparison) => &comparison.file,
            Self::Overhead(overhead) => &overhead.file,
            Self::Sweep(sweep) => &sweep.file,
        }
    }

    /// The words after `flsched`.
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Comparison(comparison) => command::arguments(comparison),
            Self::Overhead(overhead) => overhead.arguments(),
            Self::Sweep(sweep) => sweep.arguments(),
        }
    }

    /// For a shell, on one line.
    pub fn line(&self) -> String {
        command::line_of(&self.arguments())
    }

    /// What is published of a finished report. The error continues a sentence that begins with the name of the file.
    pub fn published(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Comparison(_) => store::parse(bytes).map(drop),
            Self::Overhead(overhead) => overhead.check(bytes),
            Self::Sweep(_) => sweeps::parse(bytes).map(drop),
        }?;
        formatted(bytes)
    }

    /// Whether this report was measured by the same command line.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Comparison(comparison) => store::parse(bytes)
                .is_ok_and(|it| command::published(&it.command_line) == command::line(comparison)),
            Self::Overhead(overhead) => overhead.is_of(bytes),
            Self::Sweep(sweep) => sweep.is_of(bytes),
        }
    }
}

impl Sets {
    /// What belongs to the sets of these names; none: all.
    pub fn jobs(&self, names: &[String]) -> Result<Vec<Job<'_>>, UsageError> {
        let known = || self.sets.iter().map(|set| set.name.clone()).chain([OVERHEAD, SWEEPS].map(Into::into));
        if let Some(name) = names.iter().find(|name| known().all(|it| it != **name)) {
            return Err(UsageError::unknown("set", name, &known().collect::<Vec<_>>()));
        }
        let is_chosen = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
        let chosen = self.sets.iter().filter(|set| is_chosen(&set.name));
        let comparisons = chosen.flat_map(|set| &set.comparisons).map(Job::Comparison);
        let overhead = self.overhead.iter().filter(|_| is_chosen(OVERHEAD)).map(Job::Overhead);
        let sweeps = self.sweeps.iter().filter(|_| is_chosen(SWEEPS)).map(Job::Sweep);
        Ok(comparisons.chain(overhead).chain(sweeps).collect())
    }
}
