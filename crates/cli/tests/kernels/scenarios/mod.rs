//! What a policy must withstand. Each scenario leaves the machine on the default scheduler. After
//! each, `guest.rs` checks that, and that the kernel's log has no errors; an ejection is an error.
mod commands;
mod cpus;
mod delay;
mod rr2;
mod smove;
mod tasks;

use crate::machine::Machine;

pub struct Scenario {
    pub name: &'static str,
    machines: &'static [Machine],
    /// Those it is about; none: all.
    policies: &'static [&'static str],
    pub play: fn(),
}

impl Scenario {
    pub fn is_for(&self, machine: Machine, policy: &str) -> bool {
        self.machines.contains(&machine.stage())
            && (self.policies.is_empty() || self.policies.contains(&policy))
    }

    /// Whether it shows what a policy of its own does, not what all must stand.
    pub fn is_about_one(&self) -> bool {
        !self.policies.is_empty()
    }

    /// `wanted`: parts of names, with commas between them; nothing wants all.
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
    ];
    all.into_iter().flatten()
}

/// A function, the machines it is played on, and the policies it is about if not all.
macro_rules! scenario {
    ($play:ident, $machines:expr) => {
        scenario!($play, $machines, &[])
    };
    ($play:ident, $machines:expr, $policies:expr) => {
        Scenario { name: stringify!($play), machines: $machines, policies: $policies, play: $play }
    };
}
use scenario;

const EVERYWHERE: &[Machine] = &crate::machine::ALL;
/// Where delays can be measured; once on each kernel.
const REPEATABLE: &[Machine] = &[Machine::Work];
/// For what depends on us and not on the kernel: on the machine with the least to do.
const ONCE: &[Machine] = &[Machine::Odd];
