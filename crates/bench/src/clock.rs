//! What a second is.
use serde::{Deserialize, Serialize};

/// See `docs/measuring.md`; times of different clocks are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Real time.
    Wall,
    /// Instructions executed, 1 ns each, one CPU after the other.
    Instructions,
    /// Time in the simulator.
    Model,
}

impl Clock {
    /// As virtual machines have it; `None`: they do not.
    pub fn of_vm(self) -> Option<flsched_vm::Clock> {
        match self {
            Self::Wall => Some(flsched_vm::Clock::Wall),
            Self::Instructions => Some(flsched_vm::Clock::Instructions),
            Self::Model => None,
        }
    }
}
