//! What the schedulers' functions cost on a machine whose file does not say it: the instructions that they take, each as
//! long as a mean one takes there.
use crate::costs::Callbacks;
use crate::sourced::Sourced;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Instructions instead of nanoseconds.
static MEASURED: LazyLock<BTreeMap<String, Sourced<Callbacks>>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../machines/callbacks.toml"))
        .expect("machines/callbacks.toml is sound")
});

/// The prices of all measured schedulers' functions, if an instruction takes so long; as sure as the less sure of both.
pub(crate) fn priced(instruction_ps: &Sourced<u64>) -> BTreeMap<String, Sourced<Callbacks>> {
    let price = |of: &Sourced<Callbacks>| {
        let ns = of.iter().map(|(name, count)| (name.clone(), (count * **instruction_ps + 500) / 1000));
        let source = format!("{}; {} ps an instruction", of.source, **instruction_ps);
        Sourced::new(ns.collect(), source, of.certainty.max(instruction_ps.certainty))
    };
    MEASURED.iter().map(|(scheduler, of)| (scheduler.clone(), price(of))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Callback, Certainty};

    #[test]
    fn every_scheduler_has_every_function() {
        let prices = priced(&Sourced::new(1500, "", Certainty::Measured));
        for scheduler in ["default", "eevdf", "cfs", "rt", "flsched", "flsched_paper", "smove", "rr2"] {
            for callback in Callback::ALL {
                assert!(prices[scheduler].contains_key(callback.name()), "{scheduler}: {callback:?}");
            }
        }
    }

    #[test]
    fn a_price_is_as_sure_as_the_less_sure_part() {
        let (ps, sure) = (500, Certainty::Measured);
        let half = &priced(&Sourced::new(ps, "", sure))["eevdf"];
        assert_eq!((half["enqueue"], half.certainty), (MEASURED["eevdf"]["enqueue"].div_ceil(2), sure));
        assert_eq!(priced(&Sourced::estimated(ps, ""))["eevdf"].certainty, Certainty::Estimated);
    }
}
