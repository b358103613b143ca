//! What a second is on each clock.
use serde::{Deserialize, Serialize};
use std::fmt;

/// See `docs/explanation/clocks.md`; times of different clocks are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Each virtual CPU has its own clock, an instruction a nanosecond; all run in parallel.
    Parallel,
    /// Instructions executed, 1 ns each, one CPU after the other: an amount of work, not a time.
    #[serde(alias = "instructions")]
    Work,
    /// Real time.
    Wall,
    /// Time in the simulator.
    Model,
}

impl From<flsched_vm::Clock> for Clock {
    fn from(clock: flsched_vm::Clock) -> Self {
        match clock {
            flsched_vm::Clock::Parallel(_) => Self::Parallel,
            flsched_vm::Clock::Work => Self::Work,
            flsched_vm::Clock::Wall => Self::Wall,
        }
    }
}

/// As in the JSON report.
impl fmt::Display for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Parallel => "parallel",
            Self::Work => "work",
            Self::Wall => "wall",
            Self::Model => "model",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_before_are_read() {
        let read = |text: &str| serde_json::from_str::<Clock>(text).unwrap();
        assert_eq!(read(r#""instructions""#), Clock::Work);
        for clock in [Clock::Parallel, Clock::Work, Clock::Wall, Clock::Model] {
            let text = serde_json::to_string(&clock).unwrap();
            assert_eq!(text, format!("\"{clock}\""));
            assert_eq!(read(&text), clock);
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for name in ["parallel", "work", "wall"] {
            let clock: flsched_vm::Clock = name.parse().unwrap();
            assert_eq!(Clock::from(clock).to_string(), name);
        }
    }
}
