//! The search: generations of scenarios, several runs at a time. What is found does not depend on how many.
use super::Ingredient;
use super::draw::draw;
use super::mutate::mutate;
use super::smaller::smaller;
use crate::engine::Dice;
use crate::rules::{Held, Rule, Score, Scores};
use crate::scenario::Scenario;
use crate::{Error, Violation};
use flsched_spec::{Scheduler, Target};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// The stream of random numbers of a search.
const STREAM: u64 = 3;
/// Of each rule so many of the worst scenarios have children.
const PARENTS: usize = 4;
/// Events of one run; the rest of a longer one is not judged.
const EVENTS: u64 = 1_500_000;

#[derive(Debug, Clone)]
pub struct Search {
    pub seed: u64,
    /// As for `flsched sim --scheduler`.
    pub scheduler: String,
    /// What the scheduler is held to.
    pub held: Held,
    pub generations: u64,
    pub population: usize,
    /// Runs at a time.
    pub jobs: usize,
    /// Set to end it early.
    pub stop: Arc<AtomicBool>,
}

/// What came closest to breaking a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub rule: Rule,
    pub score: Score,
    /// In which generation, from 0.
    pub generation: u64,
    /// The scenario; if it breaks the rule, it is as small as it could be made, and says so itself.
    pub scenario: Scenario,
}

/// What a search tells while it goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// A run of this generation has ended; so many are done.
    Run(u64, u64),
    /// A rule is broken for the first time.
    Broken(&'a Finding),
    /// That scenario is made smaller; so many runs are done for it.
    Shrinking(Rule, u32),
}

impl Search {
    /// A search of a scheduler by the rules that it is held to.
    pub fn of(scheduler: &str, seed: u64) -> Result<Self, Error> {
        let held = Held::of(&Scheduler::read(scheduler, Target::Sim)?);
        Ok(Self {
            seed,
            scheduler: scheduler.to_owned(),
            held,
            generations: 8,
            population: 24,
            jobs: 1,
            stop: Arc::default(),
        })
    }

    /// What it draws from.
    pub fn ingredients(&self) -> Vec<Ingredient> {
        Ingredient::some(&mut Dice::new(self.seed, STREAM))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs it. Returns the worst of each rule, also if it was stopped early.
    pub fn run(&self, mut tell: impl FnMut(Told<'_>)) -> Result<Vec<Finding>, Error> {
        let mut dice = Dice::new(self.seed, STREAM);
        let of = Ingredient::some(&mut dice);
        let mut worst: BTreeMap<Rule, Vec<Finding>> = BTreeMap::new();
        for generation in 0..self.generations {
            let scenarios: Vec<Scenario> =
                (0..self.population).map(|_| self.next(&mut dice, &of, &worst)).collect();
            let scores = self.judge_all(&scenarios, |done| tell(Told::Run(generation, done)))?;
            for (scenario, scores) in scenarios.into_iter().zip(scores) {
                for (rule, score) in scores {
                    let finding = Finding { rule, score, generation, scenario: scenario.clone() };
                    let known = worst.entry(rule).or_default();
                    let is_first = finding.score.is_broken() && !known.iter().any(|it| it.score.is_broken());
                    if is_first {
                        tell(Told::Broken(&finding));
                    }
                    known.push(finding);
                }
            }
            for known in worst.values_mut() {
                known.sort_by(|a, b| b.score.value.total_cmp(&a.score.value));
                known.truncate(PARENTS);
            }
            if self.is_stopped() {
                break;
            }
        }
        let mut findings = Vec::new();
        for (rule, known) in worst {
            let Some(mut finding) = known.into_iter().next() else { continue };
            if finding.score.is_broken() {
                let mut shrunk = |runs| tell(Told::Shrinking(rule, runs));
                finding = smaller(finding, &self.held, &self.stop, &mut shrunk);
                finding.scenario.rules = vec![rule];
            }
            findings.push(finding);
        }
        Ok(findings)
    }

    /// A new scenario, or a child of one that came close to breaking a rule that none has broken enough.
    fn next(&self, dice: &mut Dice, of: &[Ingredient], worst: &BTreeMap<Rule, Vec<Finding>>) -> Scenario {
        let is_open =
            |known: &&Vec<Finding>| known.first().is_some_and(|it| it.score.value < enough(it.rule));
        let open: Vec<&Vec<Finding>> = worst.values().filter(is_open).collect();
        if open.is_empty() || dice.once_in(4) {
            return draw(dice, of, self.seed, &self.scheduler);
        }
        let parents = *dice.one(&open);
        let parent = dice.one(parents);
        mutate(dice, &parent.scenario, of)
    }

    /// The scores of all, in their order; `done` is told how many there are.
    fn judge_all(&self, scenarios: &[Scenario], mut done: impl FnMut(u64)) -> Result<Vec<Scores>, Error> {
        let next = AtomicUsize::new(0);
        let (sender, results) = mpsc::channel();
        let mut all: Vec<Scores> = vec![Scores::new(); scenarios.len()];
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, scenarios.len().max(1)) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let index = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(scenario) = scenarios.get(index)
                        && !self.is_stopped()
                        && sender.send((index, judge(scenario, &self.held, &self.stop))).is_ok()
                    {
                    }
                });
            }
            drop(sender);
            for (count, (index, scores)) in results.iter().enumerate() {
                match scores {
                    Ok(scores) => all[index] = scores,
                    Err(Error::Stopped) => {}
                    Err(error) => {
                        next.store(scenarios.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                }
                done(count as u64 + 1);
            }
            Ok(all)
        })
    }
}

/// A score that ends the search for worse ones. A bound that is missed by a tick should not hide what is missed by far; the
/// scores of some rules cannot be much above 1.
fn enough(rule: Rule) -> f64 {
    match rule {
        Rule::Wait | Rule::Work | Rule::Background | Rule::Progress | Rule::Balance => 3.0,
        Rule::Ejection | Rule::Share | Rule::Yield | Rule::Interface => 1.0,
    }
}

/// The scores of one scenario. A panic of the simulator is a finding as well, and the others go on.
pub(super) fn judge(scenario: &Scenario, held: &Held, stop: &Arc<AtomicBool>) -> Result<Scores, Error> {
    let stop = Arc::clone(stop);
    let run = || scenario.judge(held, EVENTS, move || stop.load(Ordering::Relaxed));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let what = "the simulator itself failed".to_owned();
        Err(Error::Violation(Violation { what, callback: "", task: None, at: 0 }))
    })
}
