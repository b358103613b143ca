//! The scenarios. Each leaves the machine on the default scheduler. After each, `guest.rs` checks that, and that the
//! kernel's log has no errors; an ejection is an error.
mod commands;
mod cpus;
mod delay;
mod paper;
mod rr2;
mod smove;
mod tasks;

use crate::guest::policy;
use crate::load::Hogs;
use crate::machine::Machine;
use flsched_spec::Policy;

pub struct Scenario {
    pub name: &'static str,
    machines: &'static [Machine],
    /// The policies to which it applies; empty: all.
    policies: &'static [&'static str],
    pub play: fn(),
}

impl Scenario {
    pub fn is_for(&self, machine: Machine, policy: &str) -> bool {
        let is_held = match self.policies {
            [] => true,
            BOUNDED => !is_control(policy),
            names => names.contains(&policy),
        };
        self.machines.contains(&machine.stage()) && is_held
    }

    /// Whether it is about single policies. What FLSCHED plays for others, too, is about what they share.
    pub fn is_about_one(&self) -> bool {
        match self.policies {
            [] | BOUNDED => false,
            names => names.len() == 1 || !names.contains(&"flsched"),
        }
    }

    /// Whether its name contains one of the parts in `wanted`, which are separated by commas. An empty `wanted` selects
    /// all.
    pub fn is_wanted(&self, wanted: &str) -> bool {
        wanted.split(',').any(|part| self.name.contains(part))
    }
}

/// Whether a policy says of itself that it is a control for comparisons.
pub fn is_control(policy: &str) -> bool {
    Policy::find(policy).is_ok_and(|policy| policy.control.is_some())
}

/// Tasks that compute beside those of a scenario. None under a control: behind each of them other tasks wait for seconds,
/// and it promises nothing about tasks that do not block.
fn hogs_beside(count: usize, cpu: Option<usize>) -> Hogs {
    Hogs::start(if is_control(policy().name) { 0 } else { count }, cpu)
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

/// All policies for use. One that is a control bounds no wait.
const BOUNDED: &[&str] = &["no control"];

const EVERYWHERE: &[Machine] = &crate::machine::ALL;
/// The machine on which delays can be measured. It exists once for each kernel.
const REPEATABLE: &[Machine] = &[Machine::Work];
/// For scenarios that do not depend on the kernel: the machine with the fewest scenarios.
const ONCE: &[Machine] = &[Machine::Odd];
