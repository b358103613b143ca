//! Random scenarios: each seed gives one.
use super::{Happening, Scenario, What};
use crate::engine::Dice;
use crate::workload::{Act, TaskPlan};
use flsched_machine::Machine;
use flsched_machine::THRESHOLD;
use flsched_spec::{Knob, PidList, Policy};
use std::collections::BTreeMap;

/// The schedulers of the kernel that are drawn beside the policies.
const CLASSES: &[&str] = &["fifo", "rr", "eevdf", "batch", "cfs"];
/// Small machines, mostly, where everything happens soon; some with several groups of CPUs.
const CPUS: &[usize] = &[1, 2, 2, 3, 4, 4, 4, 5, 6, 8, 8, 12, 16, 24, 64, 130];
const MACHINES: &[&str] = &["ryzen-3400g", "xeon-e7-8870v4-4s", "knc-31s1p"];
/// From the first fork to the last, and in which events happen, in µs.
const SPAN_US: u64 = 40_000;
const LIMIT_MS: u64 = 120_000;

/// The range of a knob's values; a frequency is limited to those of the machine's CPUs.
fn range(knob: &Knob, machine: &str) -> (u64, u64) {
    let frequency = || Machine::find(machine).ok()?.speed.frequency;
    match frequency().filter(|_| knob.name == THRESHOLD) {
        Some(frequency) => ((*frequency.min_mhz).into(), frequency.max_mhz().into()),
        None => (knob.min, knob.max),
    }
}

/// The scenario of a seed; `among`: schedulers to draw from, or all if there are none.
pub fn draw(seed: u64, among: &[String]) -> Scenario {
    let mut draw = Dice::new(seed, 2);
    let cpus = *draw.one(CPUS);
    let machine = *draw.one(MACHINES);
    let scheduler = draw.scheduler(among, machine);
    let mut tasks = Vec::new();
    let mut channels = 0;
    for _ in 0..1 + draw.below(5) {
        draw.kind(&mut tasks, &mut channels, cpus);
    }
    tasks.sort_by_key(|task| task.start_us);
    let events = draw.events(cpus, tasks.len());
    let machine = machine.to_owned();
    Scenario {
        seed,
        machine,
        cpus,
        scheduler,
        limit_ms: LIMIT_MS,
        begin_us: 0,
        end_ms: 0,
        attach_us: 0,
        workload: None,
        jobs: None,
        barriers: BTreeMap::new(),
        cpusets: BTreeMap::new(),
        rules: Vec::new(),
        tasks,
        events,
    }
}

impl Dice {
    /// Half of them with all knobs at their defaults, the others with one or more that are not.
    fn scheduler(&mut self, among: &[String], machine: &str) -> String {
        let mut words: Vec<String> = among.to_vec();
        if words.is_empty() {
            words = CLASSES.iter().map(|&class| class.to_owned()).collect();
            words.extend(Policy::all().into_iter().map(|policy| policy.name.to_owned()));
        }
        let word = self.one(&words).clone();
        let Some(policy) = Policy::all().into_iter().find(|policy| policy.name == word) else { return word };
        let mut text = word;
        if policy.knobs.is_empty() || self.once_in(2) {
            return text;
        }
        for knob in policy.knobs.iter() {
            if self.once_in(3) {
                let (min, max) = range(knob, machine);
                let value = match max - min {
                    0 => min,
                    range => (min + self.up_to(range) - self.below(2)).clamp(min, max),
                };
                let needs_processes = |list: &PidList| (&list.knob, list.value) == (&knob.name, value);
                if policy.lists.iter().any(needs_processes) {
                    continue; // No simulated run has any before it begins.
                }
                let separator = if text.contains(':') { ',' } else { ':' };
                text += &format!("{separator}{}={}", knob.name, knob.show(value));
            }
        }
        text
    }

    /// Adds tasks of one kind.
    fn kind(&mut self, tasks: &mut Vec<TaskPlan>, channels: &mut usize, cpus: usize) {
        let many = 1 + self.up_to(2 * cpus as u64 + 6).min(48);
        match self.below(7) {
            0 => self.add(tasks, many, cpus, |draw| (vec![Act::RunUs(draw.up_to(20_000))], 1)),
            1 => self.add(tasks, many, cpus, |draw| {
                (vec![Act::RunUs(draw.up_to(2_000)), Act::SleepUs(draw.up_to(5_000))], draw.up_to(20))
            }),
            2 => self.add(tasks, many, cpus, |draw| {
                (vec![Act::RunUs(draw.up_to(100)), Act::Yields(1)], draw.up_to(100))
            }),
            3 => self.add(tasks, many, cpus, |draw| {
                let sleep = Act::SleepUs(draw.up_to(300));
                (
                    vec![Act::Stay, Act::RunUs(draw.up_to(2_000)), sleep, Act::Move, Act::Yields(1)],
                    draw.up_to(10),
                )
            }),
            4 => {
                // Forked one right after the other, and short-lived.
                let start = self.below(SPAN_US);
                for _ in 0..4 * many {
                    let steps = vec![Act::RunUs(self.up_to(200))];
                    tasks.push(TaskPlan { start_us: start, ..self.task(steps, 1, cpus) });
                }
            }
            5 => self.ring(tasks, channels, cpus),
            _ => self.crowd(tasks, channels, cpus),
        }
    }

    fn add(
        &mut self,
        tasks: &mut Vec<TaskPlan>,
        many: u64,
        cpus: usize,
        mut plan: impl FnMut(&mut Self) -> (Vec<Act>, u64),
    ) {
        for _ in 0..many {
            let (steps, times) = plan(self);
            let task = self.task(steps, times, cpus);
            tasks.push(task);
        }
    }

    fn task(&mut self, steps: Vec<Act>, rounds: u64, cpus: usize) -> TaskPlan {
        let nice = if self.once_in(4) { self.below(40) as i32 - 20 } else { 0 };
        TaskPlan {
            start_us: self.below(SPAN_US),
            nice,
            is_thread: self.once_in(2),
            cpus: if self.once_in(6) { self.cpus(cpus) } else { Vec::new() },
            rounds,
            steps,
            ..TaskPlan::default()
        }
    }

    fn cpus(&mut self, of: usize) -> Vec<usize> {
        let count = self.up_to(of as u64);
        let mut cpus: Vec<usize> = (0..count).map(|_| self.below(of as u64) as usize).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Tasks that wake each other all around.
    fn ring(&mut self, tasks: &mut Vec<TaskPlan>, channels: &mut usize, cpus: usize) {
        let (count, times) = (1 + self.up_to(8) as usize, self.up_to(100));
        let first = *channels;
        *channels += count;
        for index in 0..count {
            let (from, to) = (first + index, first + (index + 1) % count);
            let run = Act::RunUs(self.up_to(100));
            let steps = if index == 0 {
                vec![Act::Write(to), run, Act::Read(from)]
            } else {
                vec![Act::Read(from), run, Act::Write(to)]
            };
            let task = self.task(steps, times, cpus);
            tasks.push(task);
        }
    }

    /// Senders and receivers on one channel, as hackbench has them.
    fn crowd(&mut self, tasks: &mut Vec<TaskPlan>, channels: &mut usize, cpus: usize) {
        let (pairs, times) = (self.up_to(12), self.up_to(300));
        let channel = *channels;
        *channels += 1;
        for act in [Act::Write, Act::Read] {
            for _ in 0..pairs {
                let task = self.task(vec![act(channel)], times, cpus);
                tasks.push(task);
            }
        }
    }

    fn events(&mut self, cpus: usize, tasks: usize) -> Vec<Happening> {
        let mut events = Vec::new();
        if self.once_in(3) && cpus > 1 {
            for _ in 0..self.up_to(6) {
                let (cpu, at_us) = (self.below(cpus as u64) as usize, self.below(SPAN_US));
                let back_us = at_us + self.up_to(SPAN_US);
                events.push(Happening::once(at_us, What::Offline(cpu)));
                events.push(Happening::once(back_us, What::Online(cpu)));
            }
        }
        if self.once_in(2) {
            for _ in 0..self.up_to(30) {
                let task = 1 + self.below(tasks as u64) as usize;
                let (at_us, cpus) = (self.below(SPAN_US), self.cpus(cpus));
                events.push(Happening::once(at_us, What::Affinity { task, count: 1, cpus }));
            }
        }
        events.sort_by_key(|event| event.at_us);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_scenario_that_can_be_written_and_read() {
        for seed in 0..200 {
            let scenario = draw(seed, &[]);
            assert_eq!(scenario, draw(seed, &[]));
            let text = scenario.to_toml().unwrap();
            assert_eq!(Scenario::parse(&text, "it").unwrap(), scenario);
            let lines = text.lines().filter(|line| line.starts_with("steps = [")).count();
            assert_eq!(lines, scenario.tasks.len(), "one line for each task's steps: {text}");
        }
    }
}
