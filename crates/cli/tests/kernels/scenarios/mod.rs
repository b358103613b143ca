//! What FLSCHED must stand. Each scenario leaves the machine on the default scheduler; `guest.rs`
//! checks that after each, and that the kernel's log tells of nothing bad, an ejection being bad.
mod commands;
mod cpus;
mod delay;
mod tasks;

use crate::machine::Machine;

pub struct Scenario {
    pub name: &'static str,
    machines: &'static [Machine],
    pub play: fn(),
}

impl Scenario {
    pub fn is_for(&self, machine: Machine) -> bool {
        self.machines.contains(&machine)
    }

    /// `wanted`: parts of names, with commas between them; nothing wants all.
    pub fn is_wanted(&self, wanted: &str) -> bool {
        wanted.split(',').any(|part| self.name.contains(part))
    }
}

pub fn all() -> impl Iterator<Item = &'static Scenario> {
    [commands::SCENARIOS, delay::SCENARIOS, tasks::SCENARIOS, cpus::SCENARIOS].into_iter().flatten()
}

/// A function and the machines it is played on.
macro_rules! scenario {
    ($play:ident, $machines:expr) => {
        Scenario { name: stringify!($play), machines: $machines, play: $play }
    };
}
use scenario;

const EVERYWHERE: &[Machine] = &crate::machine::ALL;
/// Where delays can be measured; once on each kernel.
const REPEATABLE: &[Machine] = &[Machine::Instructions];
/// For what depends on us and not on the kernel: on the machine with the least to do.
const ONCE: &[Machine] = &[Machine::Odd];
