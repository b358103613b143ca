//! Changes of a scenario, one or a few at a time.
use super::Ingredient;
use super::draw::{FOR_EVER_US, MOST_TASKS, add, cpus, some_cpus};
use crate::engine::Dice;
use crate::scenario::{Scenario, What};
use crate::workload::{Act, PolicyPlan};

/// So often until a change leads to a valid scenario.
const TRIES: u32 = 20;
const LONGEST_MS: u64 = 40_000;
const SHORTEST_MS: u64 = 1_000;
const LONGEST_STEP_US: u64 = FOR_EVER_US;

/// A child of `parent`.
pub(super) fn mutate(dice: &mut Dice, parent: &Scenario, of: &[Ingredient]) -> Scenario {
    for _ in 0..TRIES {
        let mut child = parent.clone();
        for _ in 0..1 + dice.below(3) {
            change(dice, &mut child, of);
        }
        let tasks: u64 = child.tasks.iter().map(|task| task.count).sum();
        if child != *parent && tasks <= MOST_TASKS && !child.tasks.is_empty() && child.check().is_ok() {
            return child;
        }
    }
    parent.clone()
}

fn change(dice: &mut Dice, scenario: &mut Scenario, of: &[Ingredient]) {
    match dice.below(10) {
        0..=4 => change_task(dice, scenario),
        5 | 6 => change_event(dice, scenario),
        7 => {
            let ingredient = *dice.one(of);
            add(dice, scenario, ingredient);
        }
        8 if scenario.tasks.len() > 1 => {
            let index = dice.below(scenario.tasks.len() as u64) as usize;
            scenario.set_count(index, 0);
        }
        8 => scenario.events.clear(),
        _ => change_run(dice, scenario, of),
    }
}

/// Twice as much, half, or a little more or less.
fn scaled(dice: &mut Dice, value: u64, least: u64, most: u64) -> u64 {
    let changed = match dice.below(4) {
        0 => value.saturating_mul(2),
        1 => value / 2,
        2 => value + 1 + dice.below(1 + value / 4),
        _ => value.saturating_sub(1 + dice.below(1 + value / 4)),
    };
    changed.clamp(least, most)
}

fn change_task(dice: &mut Dice, scenario: &mut Scenario) {
    if scenario.tasks.is_empty() {
        return;
    }
    let index = dice.below(scenario.tasks.len() as u64) as usize;
    let (nr_cpus, last) = (scenario.cpus, scenario.tasks.len() - 1);
    let later_us = if index < last { scenario.tasks[index + 1].start_us } else { 2_000_000 };
    let earlier_us = index.checked_sub(1).map_or(0, |before| scenario.tasks[before].start_us);
    let task = &mut scenario.tasks[index];
    match dice.below(6) {
        0 | 1 => {
            let count = scaled(dice, task.count, 1, MOST_TASKS);
            scenario.set_count(index, count);
        }
        2 => {
            let step = dice.below(task.steps.len().max(1) as u64) as usize;
            match task.steps.get_mut(step) {
                Some(Act::RunUs(us)) if *us < FOR_EVER_US => *us = scaled(dice, *us, 1, LONGEST_STEP_US),
                Some(Act::SleepUs(us)) => *us = scaled(dice, *us, 1, 5_000_000),
                Some(Act::Yields(yields)) => *yields = scaled(dice, *yields, 1, 100),
                _ if task.exit_us > 0 => task.exit_us = scaled(dice, task.exit_us, 1, 1_000_000),
                _ => {}
            }
        }
        3 if task.policy.is_none_or(|policy| policy == PolicyPlan::Idle) => {
            let is_idle = dice.once_in(5);
            task.policy = is_idle.then_some(PolicyPlan::Idle);
            task.nice = if dice.once_in(3) { 0 } else { dice.below(20) as i32 };
        }
        4 if task.cpuset.is_none() => task.cpus = cpus(dice, nr_cpus),
        _ => task.start_us = earlier_us + dice.below(1 + later_us - earlier_us),
    }
}

fn change_event(dice: &mut Dice, scenario: &mut Scenario) {
    let nr_cpus = scenario.cpus;
    let tasks: usize = scenario.tasks.iter().map(|task| task.count as usize).sum();
    if scenario.events.is_empty() {
        return;
    }
    let index = dice.below(scenario.events.len() as u64) as usize;
    let end_us = scenario.end_ms * 1_000;
    let event = &mut scenario.events[index];
    match dice.below(5) {
        0 => event.at_us = scaled(dice, event.at_us, 0, end_us),
        1 if event.times > 1 => event.every_us = scaled(dice, event.every_us, 100, 5_000_000),
        2 if event.times > 1 => event.times = scaled(dice, event.times, 2, 100_000),
        3 => drop(scenario.events.remove(index)),
        _ => match &mut event.what {
            What::Offline(cpu) | What::Online(cpu) => *cpu = dice.below(nr_cpus as u64) as usize,
            What::Affinity { cpus, .. } | What::Cpuset { cpus, .. } => *cpus = some_cpus(dice, nr_cpus),
            What::Nice { to, .. } => *to = dice.below(20) as i32,
            What::Policy { task, count, .. } => {
                *count = scaled(dice, *count as u64, 1, (tasks + 1 - *task) as u64) as usize;
            }
        },
    }
}

fn change_run(dice: &mut Dice, scenario: &mut Scenario, of: &[Ingredient]) {
    match dice.below(3) {
        0 => {
            let cpus = scaled(dice, scenario.cpus as u64, 1, 16) as usize;
            fit_to(scenario, cpus);
        }
        1 if of.contains(&Ingredient::Attach) => {
            scenario.attach_us = scaled(dice, scenario.attach_us, 1_000, scenario.end_ms * 500);
        }
        _ => {
            scenario.end_ms = scaled(dice, scenario.end_ms, SHORTEST_MS, LONGEST_MS);
            scenario.limit_ms = scenario.end_ms;
        }
    }
}

/// On another number of CPUs: what was on those that are missing goes to others.
fn fit_to(scenario: &mut Scenario, cpus: usize) {
    let fit = |list: &mut Vec<usize>| {
        list.iter_mut().for_each(|cpu| *cpu %= cpus);
        list.sort_unstable();
        list.dedup();
    };
    scenario.cpus = cpus;
    scenario.tasks.iter_mut().for_each(|task| fit(&mut task.cpus));
    scenario.cpusets.values_mut().for_each(fit);
    for event in &mut scenario.events {
        match &mut event.what {
            What::Offline(cpu) | What::Online(cpu) => *cpu %= cpus,
            What::Affinity { cpus, .. } | What::Cpuset { cpus, .. } => fit(cpus),
            What::Nice { .. } | What::Policy { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::draw;
    use super::*;

    #[test]
    fn what_is_drawn_and_changed_is_valid_and_can_be_written() {
        let mut dice = Dice::new(7, 5);
        for seed in 0..300 {
            let some = Ingredient::some(&mut dice);
            let mut scenario = draw(&mut dice, &some, seed, "flsched");
            scenario.check().unwrap_or_else(|what| panic!("{what}: {scenario:#?}"));
            for _ in 0..20 {
                scenario = mutate(&mut dice, &scenario, &some);
            }
            assert!(scenario.tasks.iter().all(|task| task.nice >= 0), "no user may do that");
            let text = scenario.to_toml().unwrap();
            assert_eq!(Scenario::parse(&text, "it").unwrap(), scenario);
        }
    }
}
