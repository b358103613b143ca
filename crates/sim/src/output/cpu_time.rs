//! What CPU time was spent on, and how sure the prices are.
use crate::core::Core;
use crate::engine::Ns;
use flsched_machine::{Certainty, Price};
use serde::Serialize;
use std::collections::BTreeMap;

/// The time that all CPUs were busy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuTime {
    /// All of it, in ns.
    pub busy_ns: Ns,
    /// Shares of it by what its length rests on: `work` is the workload's own, `waiting` what follows from the rest, and
    /// the others are how certain the machine's prices are.
    pub rests_on: BTreeMap<&'static str, f64>,
    /// By use, the largest first.
    pub uses: Vec<Use>,
}

/// A use of CPU time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Use {
    /// The price's place in the machine's file, or what the time was spent on.
    pub name: &'static str,
    /// In ns.
    pub ns: Ns,
    /// The same as a share of the busy time.
    pub share: f64,
    /// How certain the price is; `None`: the machine has no price for it.
    pub certainty: Option<Certainty>,
}

const WORK: &str = "work";
const WAITING: &str = "waiting";
/// How many uncertain prices are named in a table.
const NAMED: usize = 3;

impl CpuTime {
    pub(super) fn of(core: &Core) -> Self {
        let prices = Price::ALL.into_iter().map(|price| {
            let rests_on = match (price, core.machine.certainty(price)) {
                (Price::Work, _) => WORK,
                (_, Some(certainty)) => certainty.name(),
                (_, None) => WAITING,
            };
            (rests_on, price.name(), core.spent.of(price), core.machine.certainty(price))
        });
        let callbacks = Certainty::ALL.into_iter().map(|certainty| {
            (certainty.name(), "callbacks", core.spent.in_callbacks(certainty), Some(certainty))
        });
        let all: Vec<_> = prices.chain(callbacks).filter(|&(_, _, ns, _)| ns > 0).collect();
        let busy_ns: Ns = all.iter().map(|&(_, _, ns, _)| ns).sum();
        let share = |ns: Ns| ns as f64 / busy_ns.max(1) as f64;
        let mut rests_on = BTreeMap::new();
        for &(what, _, ns, _) in &all {
            *rests_on.entry(what).or_insert(0.0) += share(ns);
        }
        let mut uses: Vec<Use> = all
            .iter()
            .map(|&(_, name, ns, certainty)| Use { name, ns, share: share(ns), certainty })
            .collect();
        uses.sort_by_key(|it| std::cmp::Reverse(it.ns));
        Self { busy_ns, rests_on, uses }
    }

    /// In words, by how certain the prices are.
    pub(super) fn rests_on(&self) -> String {
        let words = [(WORK, "the workload's own work"), (WAITING, "waiting")];
        let certainties = Certainty::ALL.map(|certainty| (certainty.name(), certainty.name()));
        let share = |name: &str| self.rests_on.get(name).copied().unwrap_or(0.0);
        let parts = words.into_iter().chain(certainties).filter(|(name, _)| share(name) > 0.0);
        let parts: Vec<String> =
            parts.map(|(name, words)| format!("{} {words}", percent(share(name)))).collect();
        parts.join(", ")
    }

    /// The largest of the prices that are neither published nor measured, in words.
    pub(super) fn least_sure(&self) -> String {
        let unsure = self.uses.iter().filter(|it| it.certainty > Some(Certainty::Measured)).take(NAMED);
        let named: Vec<String> = unsure.map(|it| format!("{} {}", it.name, percent(it.share))).collect();
        named.join(", ")
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
