//! Which rules a scheduler is held to.
use super::Rule;
use crate::engine::Ns;
use flsched_spec::{Kernel, PolicySpec, Scheduler};
use std::collections::BTreeSet;

/// The knob with the longest delay that a policy promises, and what holds for policies without it.
const MAX_DELAY: &str = "max_delay_us";
const DEFAULT_MAX_DELAY: Ns = 100_000_000;

/// Whether the policy says of itself that it is a control for comparisons.
pub(crate) fn is_control(spec: &PolicySpec) -> bool {
    spec.policy.control.is_some()
}

/// What a scheduler is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub rules: BTreeSet<Rule>,
    /// How long a task of nice 0 may wait among up to 16 on its CPU.
    pub max_delay: Ns,
    /// Only runs count in which at most 16 tasks are on a CPU and each blocks now and then.
    pub only_polite: bool,
}

impl Held {
    /// What this scheduler is held to: a policy to all rules, a control to its interface and, in polite runs, to not being
    /// ejected, EEVDF and its kin to letting no task starve, and real-time classes to nothing.
    pub fn of(scheduler: &Scheduler) -> Self {
        let (rules, max_delay, only_polite): (&[Rule], _, _) = match scheduler {
            Scheduler::Policy(spec) if is_control(spec) => (&[Rule::Ejection, Rule::Interface], None, true),
            Scheduler::Policy(spec) => (&Rule::ALL, spec.value(MAX_DELAY).map(|us| us * 1000), false),
            Scheduler::Kernel(spec) => match spec.kernel {
                Kernel::Fifo | Kernel::Rr => (&[], None, false),
                Kernel::Eevdf | Kernel::Batch | Kernel::Cfs => (&[Rule::Ejection], None, false),
            },
            Scheduler::Peer(_) => (&[], None, false),
        };
        Self {
            rules: rules.iter().copied().collect(),
            max_delay: max_delay.filter(|&ns| ns > 0).unwrap_or(DEFAULT_MAX_DELAY),
            only_polite,
        }
    }

    /// To these rules instead.
    pub fn to(self, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), only_polite: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_spec::Target;

    fn held(name: &str) -> Held {
        Held::of(&Scheduler::read(name, Target::Sim).unwrap())
    }

    #[test]
    fn each_scheduler_is_held_to_what_it_promises() {
        assert_eq!(held("rr2").rules.len(), Rule::ALL.len());
        assert_eq!(held("flsched").max_delay, 100_000_000);
        assert_eq!(held("flsched:max_delay_us=20000").max_delay, 20_000_000);
        let control = held("flsched_paper");
        assert!(control.only_polite && control.rules == BTreeSet::from([Rule::Ejection, Rule::Interface]));
        assert_eq!(held("eevdf").rules, BTreeSet::from([Rule::Ejection]));
        assert!(held("fifo").rules.is_empty());
    }
}
