//! What users and administrators do, as parts of scenarios. Each part is drawn from wide ranges and knows of no other.
use crate::engine::Dice;
use crate::scenario::{Happening, Scenario, What};
use crate::workload::{Act, BudgetPlan, PolicyPlan, TaskPlan};
use flsched_machine::CpuId;
use std::collections::BTreeMap;

/// The machine with measured costs.
const MACHINE: &str = "parallel-clock";
/// Numbers of CPUs: small machines, where everything happens soon.
const CPUS: &[usize] = &[1, 1, 2, 2, 2, 3, 4, 4, 8];
/// How long runs are, in ms; the kernel ejects a scheduler after 30 s.
const ENDS_MS: &[u64] = &[3_000, 4_000, 5_000, 8_000, 12_000, 34_000];
/// Longer than any run: a task that computes all the time.
pub(super) const FOR_EVER_US: u64 = 100_000_000;
/// How often a task repeats what takes no time of its own.
const ROUNDS: u64 = 10_000_000;
/// All tasks of a scenario.
pub(super) const MOST_TASKS: u64 = 20_000;
/// From the first fork to the last, in µs.
const SPAN_US: u64 = 1_000_000;

/// A kind of thing that users do, or administrators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ingredient {
    /// Up to 20,000 threads that compute.
    Crowd,
    /// Tasks of nice 1 to 19 or `SCHED_IDLE` that compute.
    Background,
    /// Tasks that compute, or compute and sleep.
    Workers,
    /// Tasks that yield, and do little between.
    Yielders,
    /// Attributes of tasks change again and again.
    Storm,
    /// Tasks that end at the same time, and take long for it.
    Exits,
    /// Short tasks, many at a time and again.
    Forks,
    /// Sets of CPUs, with workers in each.
    Cpusets,
    /// Pipes that many write to and read from.
    Pipes,
    /// Real-time and deadline tasks.
    RealTime,
    /// CPUs go off- and online.
    Hotplug,
    /// The policy is attached in the middle.
    Attach,
}

impl Ingredient {
    pub const ALL: [Self; 12] = [
        Self::Crowd,
        Self::Background,
        Self::Workers,
        Self::Yielders,
        Self::Storm,
        Self::Exits,
        Self::Forks,
        Self::Cpusets,
        Self::Pipes,
        Self::RealTime,
        Self::Hotplug,
        Self::Attach,
    ];

    /// Those of a search: a few, so that searches differ and each finds causes of its own.
    pub(super) fn some(dice: &mut Dice) -> Vec<Self> {
        let mut some =
            vec![*dice.one(&[Self::Crowd, Self::Background, Self::Workers, Self::Cpusets, Self::Yielders])];
        for _ in 0..1 + dice.below(3) {
            some.push(*dice.one(&Self::ALL));
        }
        some.sort_unstable();
        some.dedup();
        some
    }
}

/// A valid scenario of some of these ingredients.
pub(super) fn draw(dice: &mut Dice, of: &[Ingredient], seed: u64, scheduler: &str) -> Scenario {
    loop {
        let scenario = draw_any(dice, of, seed, scheduler);
        if scenario.check().is_ok() {
            return scenario;
        }
    }
}

/// One that may have too many changes of tasks.
fn draw_any(dice: &mut Dice, of: &[Ingredient], seed: u64, scheduler: &str) -> Scenario {
    let end_ms = *dice.one(ENDS_MS);
    let mut scenario = Scenario {
        seed,
        machine: MACHINE.to_owned(),
        cpus: *dice.one(CPUS),
        scheduler: scheduler.to_owned(),
        limit_ms: end_ms,
        begin_us: 0,
        end_ms,
        attach_us: 0,
        workload: None,
        jobs: None,
        barriers: BTreeMap::new(),
        cpusets: BTreeMap::new(),
        rules: Vec::new(),
        tasks: Vec::new(),
        events: Vec::new(),
    };
    for ingredient in of {
        for _ in 0..1 + dice.below(2) {
            add(dice, &mut scenario, *ingredient);
        }
    }
    if scenario.tasks.is_empty() {
        add(dice, &mut scenario, Ingredient::Workers);
    }
    scenario
}

/// Adds one of this kind.
pub(super) fn add(dice: &mut Dice, scenario: &mut Scenario, ingredient: Ingredient) {
    match ingredient {
        Ingredient::Crowd => {
            let count = dice.up_to(MOST_TASKS);
            add_tasks(dice, scenario, TaskPlan { count, ..hog() });
        }
        Ingredient::Background => {
            let count = dice.up_to(2_000);
            let task = in_background(dice, TaskPlan { count, ..hog() });
            add_tasks(dice, scenario, task);
        }
        Ingredient::Workers => {
            let task = worker(dice);
            add_tasks(dice, scenario, task);
        }
        Ingredient::Yielders => {
            let (count, run_us, yields) = (dice.up_to(2_000), dice.up_to(200), dice.up_to(4));
            let steps = vec![Act::RunUs(run_us), Act::Yields(yields)];
            add_tasks(dice, scenario, TaskPlan { count, ..again_and_again(steps) });
        }
        Ingredient::Storm => storm(dice, scenario),
        Ingredient::Exits => {
            let (count, run_us, exit_us) = (dice.up_to(2_000), dice.up_to(50_000), dice.up_to(20_000));
            let task = TaskPlan { count, exit_us, steps: vec![Act::RunUs(run_us)], ..TaskPlan::default() };
            let task = if dice.once_in(3) { in_background(dice, task) } else { task };
            add_tasks(dice, scenario, task);
        }
        Ingredient::Forks => {
            let run_us = dice.up_to(1_000);
            for _ in 0..dice.up_to(6) {
                let count = dice.up_to(1_500);
                let task = TaskPlan { count, steps: vec![Act::RunUs(run_us)], ..TaskPlan::default() };
                add_tasks(dice, scenario, task);
            }
        }
        Ingredient::Cpusets => cpusets(dice, scenario),
        Ingredient::Pipes => pipes(dice, scenario),
        Ingredient::RealTime => real_time(dice, scenario),
        Ingredient::Hotplug => {
            let every_us = 1_000 * (1 + dice.up_to(2_000));
            let cpu = dice.below(scenario.cpus as u64) as usize;
            let (at_us, times) = (at_us(dice, scenario), dice.up_to(20));
            let back_us = at_us + 1 + dice.below(every_us);
            push(scenario, at_us, times, every_us, What::Offline(cpu));
            push(scenario, back_us, times, every_us, What::Online(cpu));
        }
        Ingredient::Attach => scenario.attach_us = 1_000 * (1 + dice.up_to(scenario.end_ms / 3)),
    }
}

fn hog() -> TaskPlan {
    TaskPlan { steps: vec![Act::RunUs(FOR_EVER_US)], ..TaskPlan::default() }
}

fn worker(dice: &mut Dice) -> TaskPlan {
    let count = dice.up_to(64);
    if dice.once_in(2) {
        return TaskPlan { count, ..hog() };
    }
    let steps = vec![Act::RunUs(dice.up_to(40_000)), Act::SleepUs(dice.up_to(40_000))];
    TaskPlan { count, ..again_and_again(steps) }
}

/// Longer than any run.
fn again_and_again(steps: Vec<Act>) -> TaskPlan {
    let takes_us = |step: &Act| match step {
        Act::RunUs(us) | Act::SleepUs(us) => *us,
        _ => 0,
    };
    let round_us: u64 = steps.iter().map(takes_us).sum();
    let rounds = FOR_EVER_US.checked_div(round_us).map_or(ROUNDS, |rounds| rounds + 1);
    TaskPlan { rounds, steps, ..TaskPlan::default() }
}

fn in_background(dice: &mut Dice, task: TaskPlan) -> TaskPlan {
    if dice.once_in(4) {
        TaskPlan { policy: Some(PolicyPlan::Idle), ..task }
    } else {
        TaskPlan { nice: 1 + dice.below(19) as i32, ..task }
    }
}

/// Everywhere, on one CPU, or on some.
pub(super) fn cpus(dice: &mut Dice, of: usize) -> Vec<CpuId> {
    match dice.below(3) {
        0 => Vec::new(),
        1 => vec![dice.below(of as u64) as usize],
        _ => some_cpus(dice, of),
    }
}

/// One or more.
pub(super) fn some_cpus(dice: &mut Dice, of: usize) -> Vec<CpuId> {
    let mut cpus: Vec<CpuId> = (0..of).filter(|_| dice.once_in(2)).collect();
    if cpus.is_empty() {
        cpus.push(dice.below(of as u64) as usize);
    }
    cpus
}

/// A time in the first half of the run.
fn at_us(dice: &mut Dice, scenario: &Scenario) -> u64 {
    dice.below(scenario.end_ms * 500)
}

/// Behind those that are there.
fn add_tasks(dice: &mut Dice, scenario: &mut Scenario, mut task: TaskPlan) {
    let there: u64 = scenario.tasks.iter().map(|task| task.count).sum();
    task.count = task.count.min(MOST_TASKS.saturating_sub(there));
    if task.count == 0 {
        return;
    }
    let before_us = scenario.tasks.last().map_or(0, |last| last.start_us);
    task.start_us = before_us + if dice.once_in(2) { 0 } else { dice.up_to(SPAN_US) };
    task.is_thread = true;
    if task.cpus.is_empty() && task.cpuset.is_none() {
        task.cpus = cpus(dice, scenario.cpus);
    }
    scenario.tasks.push(task);
}

fn push(scenario: &mut Scenario, at_us: u64, times: u64, every_us: u64, what: What) {
    let every_us = if times > 1 { every_us } else { 0 };
    scenario.events.push(Happening::repeated(at_us, times, every_us, what));
}

/// Tasks that the scenario has: the first one and how many.
fn some_tasks(dice: &mut Dice, scenario: &Scenario) -> Option<(usize, usize)> {
    if scenario.tasks.is_empty() {
        return None;
    }
    let index = dice.below(scenario.tasks.len() as u64) as usize;
    let first = 1 + scenario.tasks[..index].iter().map(|task| task.count as usize).sum::<usize>();
    let count = scenario.tasks[index].count;
    let offset = dice.below(count);
    Some((first + offset as usize, dice.up_to((count - offset).min(32)) as usize))
}

/// Two values of an attribute in turn, until the end of the run.
pub(super) fn storm(dice: &mut Dice, scenario: &mut Scenario) {
    let Some((task, count)) = some_tasks(dice, scenario) else { return };
    let every_us = 200 * dice.up_to(200);
    let from_us = at_us(dice, scenario);
    let times = ((scenario.end_ms * 1_000 - from_us) / every_us).clamp(1, 400_000 / count as u64);
    let kind = dice.below(3);
    for turn in 0..2u64 {
        let what = match kind {
            0 => What::Affinity { task, count, cpus: some_cpus(dice, scenario.cpus) },
            1 => What::Nice { task, count, to: dice.below(20) as i32 * turn as i32 },
            _ => {
                let to = *dice.one(&[PolicyPlan::Batch, PolicyPlan::Idle]);
                What::Policy { task, count, to: if turn == 0 { PolicyPlan::Other } else { to } }
            }
        };
        push(scenario, from_us + turn * (every_us / 2).max(1), times, every_us, what);
    }
}

fn cpusets(dice: &mut Dice, scenario: &mut Scenario) {
    let cpus = scenario.cpus;
    let first = some_cpus(dice, cpus);
    // Half of the time they do not overlap.
    let rest: Vec<CpuId> = (0..cpus).filter(|cpu| !first.contains(cpu)).collect();
    let second = if dice.once_in(2) || rest.is_empty() { some_cpus(dice, cpus) } else { rest };
    for (name, cpus) in [("a", first), ("b", second)] {
        scenario.cpusets.insert(name.to_owned(), cpus);
        let task = TaskPlan { cpuset: Some(name.to_owned()), ..worker(dice) };
        add_tasks(dice, scenario, task);
    }
    if dice.once_in(3) {
        let name = (*dice.one(&["a", "b"])).to_owned();
        let (at_us, times, every_us) = (at_us(dice, scenario), dice.up_to(200), 1_000 * dice.up_to(500));
        for turn in 0..2 {
            let what = What::Cpuset { name: name.clone(), cpus: some_cpus(dice, cpus) };
            push(scenario, at_us + turn * every_us / 2, times, every_us, what);
        }
    }
}

fn pipes(dice: &mut Dice, scenario: &mut Scenario) {
    let channel = scenario.tasks.iter().flat_map(|task| &task.steps).filter_map(Act::channel).max();
    let channel = channel.map_or(0, |last| last + 1);
    for act in [Act::Write, Act::Read] {
        let (count, run_us) = (dice.up_to(400), dice.below(50));
        let mut steps = vec![act(channel)];
        if run_us > 0 {
            steps.push(Act::RunUs(run_us));
        }
        add_tasks(dice, scenario, TaskPlan { count, ..again_and_again(steps) });
    }
}

fn real_time(dice: &mut Dice, scenario: &mut Scenario) {
    let priority = 1 + dice.below(99) as u8;
    let policy = match dice.below(3) {
        0 => PolicyPlan::Fifo(priority),
        1 => PolicyPlan::Rr(priority),
        _ => {
            let runtime_us = 1_000 * dice.up_to(100);
            PolicyPlan::Deadline(BudgetPlan { runtime_us, period_us: runtime_us + 1_000 * dice.up_to(1_000) })
        }
    };
    let count = dice.up_to(scenario.cpus as u64);
    let sleep = Act::SleepUs(dice.up_to(500_000));
    let task = if dice.once_in(2) {
        TaskPlan { steps: vec![sleep, Act::RunUs(FOR_EVER_US)], ..TaskPlan::default() }
    } else {
        let steps = vec![sleep, Act::RunUs(dice.up_to(500_000))];
        again_and_again(steps)
    };
    add_tasks(dice, scenario, TaskPlan { count, policy: Some(policy), ..task });
}
