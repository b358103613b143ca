//! The scenarios. Each leaves the machine on the default scheduler. After each, `guest.rs` checks that, and that the
//! kernel's log has no errors; an ejection is an error.
mod commands;
mod cpus;
mod delay;
mod paper;
mod rr2;
mod smove;
mod tasks;

use crate::machine::Machine;

pub struct Scenario {
    pub name: &'static str,
    machines: &'static [Machine],
    /// The policies to which it applies; empty: all.
    policies: &'static [&'static str],
    pub play: fn(),
}

impl Scenario {
    pub fn is_for(&self, machine: Machine, policy: &str) -> bool {
        self.machines.contains(&machine.stage())
            && (self.policies.is_empty() || self.policies.contains(&policy))
    }

    /// Whether it is about single policies. What FLSCHED plays for others, too, is about what they share.
    pub fn is_about_one(&self) -> bool {
        self.policies.len() == 1 || !(self.policies.is_empty() || self.policies.contains(&"flsched"))
    }

    /// Whether its name contains one of the parts in `wanted`, which are separated by commas. An empty `wanted` selects
    /// all.
    pub fn is_wanted(&self, wanted: &str) -> bool {
        wanted.split(',').any(|part| self.name.contains(part))
    }
}

pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let all = [
        commands::SCENARIOS,
        delay::SCENARIOS,
        tasks::SCENARIOS,
        cpus::SCENARIOS,
        smove::SCENARIOS,
        rr2::SCENARIOS,
        paper::SCENARIOS,
    ];
    all.into_iter().flatten()
}

/// A scenario: its function, its machines, and its policies if not all.
macro_rules! scenario {
    ($play:ident, $machines:expr) => {
        scenario!($play, $machines, &[])
    };
    ($play:ident, $machines:expr, $policies:expr) => {
        Scenario { name: stringify!($play), machines: $machines, policies: $policies, play: $play }
    };
}
use scenario;

/// The policies for use. FLSCHED as published, which is a control, bounds no wait.
const BOUNDED: &[&str] = &["flsched", "smove", "rr2"];

const EVERYWHERE: &[Machine] = &crate::machine::ALL;
/// The machine on which delays can be measured. It exists once for each kernel.
const REPEATABLE: &[Machine] = &[Machine::Work];
/// For scenarios that do not depend on the kernel: the machine with the fewest scenarios.
const ONCE: &[Machine] = &[Machine::Odd];
