//! A scenario under rules.
use super::Scenario;
use crate::core::TaskId;
use crate::engine::Ns;
use crate::rules::{Alike, Held, Rule, Score, Scores, Watch};
use crate::workload::{Act, TaskPlan};
use crate::{Error, Simulation, Violation};
use std::collections::BTreeMap;
use std::ops::Range;

/// A task that computes for no longer than this between two yields does so in vain.
const SHORT_RUN_US: u64 = 200;
/// Tasks that are alike are compared over at least this time.
const COMPARE_NS: Ns = 2_000_000_000;
/// A broken rule without a degree.
const BROKEN: f64 = 2.0;

impl Scenario {
    /// Runs it for at most this number of events, and returns how near its scheduler came to breaking each rule. `stop`: see
    /// [`Simulation::stop_if`].
    pub fn judge(
        &self,
        held: &Held,
        events: u64,
        stop: impl Fn() -> bool + 'static,
    ) -> Result<Scores, Error> {
        let plain = Self { rules: Vec::new(), ..self.clone() };
        let simulation = plain.simulation()?.stop_if(stop);
        let watch = self.watch(held, &simulation);
        let (outcome, mut scores) = simulation.run_judged(watch, events);
        match outcome {
            // The kernel ejects it, which the watch has judged, or the scenario itself ends nowhere.
            Err(Error::Violation(violation)) if violation.is_of_watchdog() || violation.is_of_workload() => {}
            Err(Error::Violation(violation)) if held.rules.contains(&Rule::Interface) => {
                let Violation { what, callback, task, at } = violation;
                let what = if callback.is_empty() { what } else { format!("in {callback}: {what}") };
                scores.insert(Rule::Interface, Score { value: BROKEN, at, task, what });
            }
            Ok(_) | Err(Error::Limit(_) | Error::Violation(_)) => {}
            Err(error) => return Err(error),
        }
        if held.only_polite && !self.is_polite() {
            scores.remove(&Rule::Ejection);
        }
        Ok(scores)
    }

    /// For a run of it.
    pub(super) fn watch(&self, held: &Held, simulation: &Simulation) -> Watch {
        let machine = simulation.machine();
        // The first task is none of the scenario's.
        let first = 1 + simulation.kernel_threads();
        let mut yields = vec![false; first];
        for task in &self.tasks {
            yields.extend((0..task.count).map(|_| yields_in_vain(task)));
        }
        let end = self.end_ms * 1_000_000;
        let compare_from = if end >= 2 * COMPARE_NS { end / 2 } else { Ns::MAX };
        Watch::new(
            held.clone(),
            machine.nr_cpus(),
            machine.tick_ns,
            yields,
            self.alike(first),
            compare_from,
            1_000 * self.attach_us,
        )
    }

    /// Tasks that have the same weight, compute all the time and may run on the same CPUs, where no others may run.
    /// `first`: the number of the first task.
    fn alike(&self, first: TaskId) -> Vec<Alike> {
        if !self.events.is_empty() || self.jobs.is_some() {
            return Vec::new();
        }
        let place = |task: &TaskPlan| {
            let mut cpus = self.first_cpus(task);
            if cpus.is_empty() {
                cpus = (0..self.cpus).collect();
            }
            cpus.sort_unstable();
            cpus
        };
        let computes = |task: &TaskPlan| {
            task.needs.is_empty() && task.steps.iter().all(|step| matches!(step, Act::RunUs(_)))
        };
        let mut groups: BTreeMap<Vec<usize>, Vec<(usize, Range<TaskId>)>> = BTreeMap::new();
        let mut number = first;
        for (index, task) in self.tasks.iter().enumerate() {
            let next = number + task.count as usize;
            groups.entry(place(task)).or_default().push((index, number..next));
            number = next;
        }
        let is_fair = |(cpus, members): &(Vec<usize>, Vec<(usize, Range<TaskId>)>)| {
            let like = &self.tasks[members[0].0];
            let same = |(index, _): &(usize, Range<TaskId>)| {
                let task = &self.tasks[*index];
                (task.nice, task.policy) == (like.nice, like.policy) && computes(task)
            };
            let is_apart = |task: &TaskPlan| {
                let other = place(task);
                other == *cpus || !other.iter().any(|cpu| cpus.contains(cpu))
            };
            like.policy.is_none_or(|policy| !policy.is_above())
                && members.iter().all(same)
                && self.tasks.iter().all(is_apart)
        };
        let fair = groups.clone().into_iter().filter(is_fair);
        fair.map(|(_, members)| Alike { tasks: members.into_iter().map(|(_, tasks)| tasks).collect() })
            .collect()
    }

    /// Whether at most 16 tasks come on a CPU, and each blocks now and then.
    fn is_polite(&self) -> bool {
        let blocks = |task: &TaskPlan| {
            let sleeps = |step: &Act| matches!(step, Act::SleepUs(_) | Act::Read(_) | Act::Wait(_));
            let longest = |step: &Act| matches!(step, Act::RunUs(us) if *us > 1_000_000);
            task.steps.iter().any(sleeps) && !task.steps.iter().any(longest)
        };
        let tasks: u64 = self.tasks.iter().map(|task| task.count).sum();
        tasks <= 16 * self.cpus as u64 && self.tasks.iter().all(blocks)
    }
}

/// Whether it does little but yield.
fn yields_in_vain(task: &TaskPlan) -> bool {
    let (mut runs_us, mut yields) = (0, 0);
    for step in &task.steps {
        match step {
            Act::RunUs(us) => runs_us += us,
            Act::Yields(count) => yields += count,
            Act::Pin(_) | Act::Stay | Act::Move => {}
            _ => return false,
        }
    }
    yields > 0 && runs_us / yields <= SHORT_RUN_US
}
