//! What a scheduler promises its users, each as a rule with a score: how near a run came to breaking it, 1.0 being
//! broken.
mod held;
mod usage;
mod watch;

pub use held::Held;
pub(crate) use held::is_control;
pub(crate) use watch::{Alike, Watch};

use crate::Violation;
use crate::engine::Ns;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A promise. Its name in scenario files is that of its variant in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The kernel does not eject the scheduler: no runnable task waits for 30 s.
    Ejection,
    /// Tasks of nice 0 together get at least 90 % of a CPU beside up to 1,000 background tasks there, at least half
    /// beside more.
    Share,
    /// Tasks that yield in vain get at most half of a CPU while others have work.
    Yield,
    /// A task of nice 0 waits no longer than [`Held::max_delay`] among up to 16 on its CPU, in proportion beyond.
    Wait,
    /// No CPU idles for longer than two ticks while tasks wait that may run there.
    Work,
    /// No CPU runs only background tasks for longer than two ticks while tasks of nice 0 wait that may run there.
    Background,
    /// Tasks that exit and threads of the kernel wait no longer than tasks of nice 0.
    Progress,
    /// Of tasks that are alike and compute all the time, each gets at least half of what they get on average.
    Balance,
    /// The scheduler does nothing for which the kernel would end it, and loses no task.
    Interface,
}

impl Rule {
    pub const ALL: [Self; 9] = [
        Self::Ejection,
        Self::Share,
        Self::Yield,
        Self::Wait,
        Self::Work,
        Self::Background,
        Self::Progress,
        Self::Balance,
        Self::Interface,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ejection => "ejection",
            Self::Share => "share",
            Self::Yield => "yield",
            Self::Wait => "wait",
            Self::Work => "work",
            Self::Background => "background",
            Self::Progress => "progress",
            Self::Balance => "balance",
            Self::Interface => "interface",
        }
    }
}

/// How near a run came to breaking a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// 1.0 and more: broken.
    pub value: f64,
    /// When, in simulated time.
    pub at: Ns,
    /// Name and pid of the task that suffered, if it is a single one.
    pub task: Option<String>,
    /// What happened, with the bound.
    pub what: String,
}

impl Score {
    /// Whether the rule is broken.
    pub fn is_broken(&self) -> bool {
        self.value >= 1.0
    }

    pub fn violation(&self, rule: Rule) -> Violation {
        let what = format!("{}; this breaks the rule `{}`", self.what, rule.name());
        Violation { what, callback: "", task: self.task.clone(), at: self.at }
    }
}

/// By rule: the worst of a run. A rule that nothing came near is not in it.
pub type Scores = BTreeMap<Rule, Score>;
