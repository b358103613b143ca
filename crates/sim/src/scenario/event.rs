//! What is done to a run from outside, as it is in a file, and what it comes to for each task.
use super::Scenario;
use crate::core::{CpuId, CpuMask};
use crate::engine::Ns;
use crate::workload::{Disturbance, PolicyPlan, TaskPlan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something that is done to the run from outside, once or again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// When, in µs from the beginning.
    pub at_us: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u64,
    /// How long after the last time, in µs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub every_us: u64,
    #[serde(flatten)]
    pub what: What,
}

/// See [`Disturbance`]. Tasks have numbers from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A CPU goes offline, unless it is the last one.
    Offline(CpuId),
    Online(CpuId),
    /// Tasks may run on these CPUs only.
    Affinity {
        /// The first of them.
        task: usize,
        #[serde(default = "one_task", skip_serializing_if = "is_one_task")]
        count: usize,
        cpus: Vec<CpuId>,
    },
    /// Tasks get this nice value.
    Nice {
        /// The first of them.
        task: usize,
        #[serde(default = "one_task", skip_serializing_if = "is_one_task")]
        count: usize,
        /// From -20 to 19.
        to: i32,
    },
    /// Tasks are scheduled so.
    Policy {
        /// The first of them.
        task: usize,
        #[serde(default = "one_task", skip_serializing_if = "is_one_task")]
        count: usize,
        to: PolicyPlan,
    },
    /// A set of CPUs changes, and with it where its tasks may run.
    Cpuset {
        name: String,
        /// The CPUs that are in it from now on.
        cpus: Vec<CpuId>,
    },
}

fn one() -> u64 {
    1
}

fn one_task() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(times: &u64) -> bool {
    *times == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one_task(count: &usize) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(us: &u64) -> bool {
    *us == 0
}

/// Changes of single tasks in a run.
const MOST_CHANGES: u64 = 1_000_000;

impl Happening {
    pub fn once(at_us: u64, what: What) -> Self {
        Self { at_us, times: 1, every_us: 0, what }
    }

    /// That happens so often, so long after each other.
    pub fn repeated(at_us: u64, times: u64, every_us: u64, what: What) -> Self {
        Self { at_us, times, every_us, what }
    }

    /// When it happens for the last time, in µs.
    pub(super) fn last_us(&self) -> u64 {
        self.at_us.saturating_add(self.every_us.saturating_mul(self.times.saturating_sub(1)))
    }
}

impl What {
    /// The first task that it names, and how many.
    pub fn tasks(&self) -> Option<(usize, usize)> {
        match self {
            Self::Affinity { task, count, .. }
            | Self::Nice { task, count, .. }
            | Self::Policy { task, count, .. } => Some((*task, *count)),
            Self::Offline(_) | Self::Online(_) | Self::Cpuset { .. } => None,
        }
    }

    pub(super) fn tasks_mut(&mut self) -> Option<(&mut usize, &mut usize)> {
        match self {
            Self::Affinity { task, count, .. }
            | Self::Nice { task, count, .. }
            | Self::Policy { task, count, .. } => Some((task, count)),
            Self::Offline(_) | Self::Online(_) | Self::Cpuset { .. } => None,
        }
    }
}

/// Where a task may run, and what that follows from.
struct Place {
    /// What it has asked for; empty: all.
    own: Vec<CpuId>,
    cpuset: Option<String>,
}

impl Scenario {
    /// Checks the sets of CPUs, and those that tasks name.
    pub(super) fn check_cpusets(&self) -> Result<(), String> {
        for (name, cpus) in &self.cpusets {
            self.check_cpus(cpus, &format!("cpusets.{name}"))?;
            if cpus.is_empty() {
                return Err(format!("cpusets.{name}: needs at least one CPU"));
            }
        }
        for (index, task) in self.tasks.iter().enumerate() {
            if let Some(name) = task.cpuset.as_ref().filter(|name| !self.cpusets.contains_key(*name)) {
                return Err(format!("task {}: cpuset: there is no cpusets.{name}", index + 1));
            }
        }
        Ok(())
    }

    /// Checks that there are such CPUs.
    pub(super) fn check_cpus(&self, cpus: &[CpuId], of: &str) -> Result<(), String> {
        match cpus.iter().find(|&&cpu| cpu >= self.cpus) {
            Some(cpu) => {
                Err(format!("{of}: there is no CPU {cpu}; CPUs are 0 to {}", self.cpus.saturating_sub(1)))
            }
            None => Ok(()),
        }
    }

    /// Checks the events; `tasks`: how many tasks there are.
    pub(super) fn check_events(&self, tasks: u64) -> Result<(), String> {
        let mut changes = 0u64;
        for (index, event) in self.events.iter().enumerate() {
            let name = format!("event {}", index + 1);
            if event.times == 0 || (event.times > 1) != (event.every_us > 0) {
                return Err(format!(
                    "{name}: times is at least 1, and more than 1 if and only if it has every_us"
                ));
            }
            if event.last_us() > super::MOST_MS * 1000 {
                let last_us = event.last_us();
                return Err(format!("{name}: at_us {last_us} is more than {}", super::MOST_MS * 1000));
            }
            let each = match &event.what {
                What::Cpuset { name, .. } => {
                    let is_in = |task: &&TaskPlan| task.cpuset.as_ref() == Some(name);
                    self.tasks.iter().filter(is_in).map(|task| task.count).sum()
                }
                what => what.tasks().map_or(1, |(_, count)| count as u64),
            };
            changes = changes.saturating_add(event.times.saturating_mul(each));
            if changes > MOST_CHANGES {
                return Err(format!("{name}: the events change more than {MOST_CHANGES} tasks in all"));
            }
            if let Some((task, count)) = event.what.tasks()
                && (task == 0 || count == 0 || task.saturating_add(count - 1) as u64 > tasks)
            {
                return Err(format!("{name}: needs some of the tasks, which are 1 to {tasks}"));
            }
            match &event.what {
                What::Offline(cpu) | What::Online(cpu) => self.check_cpus(&[*cpu], &name)?,
                What::Affinity { cpus, .. } | What::Cpuset { cpus, .. } => {
                    self.check_cpus(cpus, &name)?;
                    if cpus.is_empty() {
                        return Err(format!("{name}: needs at least one CPU"));
                    }
                }
                What::Nice { to, .. } if !(-20..=19).contains(to) => {
                    return Err(format!("{name}: nice {to} is not from -20 to 19"));
                }
                What::Nice { .. } => {}
                What::Policy { to, .. } => to.check().map_err(|what| format!("{name}: {what}"))?,
            }
            if let What::Cpuset { name: set, .. } = &event.what
                && !self.cpusets.contains_key(set)
            {
                return Err(format!("{name}: there is no cpusets.{set}"));
            }
        }
        Ok(())
    }

    /// What happens to each CPU and task, and when, in ns.
    pub(super) fn disturbances(&self) -> Vec<(Ns, Disturbance)> {
        let mut places: Vec<Place> = Vec::new();
        for task in &self.tasks {
            for _ in 0..task.count {
                places.push(Place { own: task.cpus.clone(), cpuset: task.cpuset.clone() });
            }
        }
        let mut sets = self.cpusets.clone();
        let mut all: Vec<(u64, &What)> = Vec::new();
        for event in &self.events {
            all.extend((0..event.times).map(|time| (event.at_us + time * event.every_us, &event.what)));
        }
        all.sort_by_key(|(at_us, _)| *at_us);
        let mut result = Vec::new();
        for (at_us, what) in all {
            let at = at_us * 1000;
            let mut masks = Masks::default();
            match what {
                What::Offline(cpu) => result.push((at, Disturbance::Offline(*cpu))),
                What::Online(cpu) => result.push((at, Disturbance::Online(*cpu))),
                What::Nice { task, count, to } => {
                    result.extend((*task..task + count).map(|task| (at, Disturbance::Nice(task, *to))));
                }
                What::Policy { task, count, to } => {
                    let change = |task| (at, Disturbance::Schedule(task, to.scheduling()));
                    result.extend((*task..task + count).map(change));
                }
                What::Affinity { task, count, cpus } => {
                    for number in *task..task + count {
                        // A workload's own tasks are in no cpuset.
                        let set = places.get_mut(number - 1).and_then(|place| {
                            place.own.clone_from(cpus);
                            place.cpuset.as_ref()
                        });
                        let mask = masks.of(cpus, set.map(|set| sets[set].as_slice()));
                        result.push((at, Disturbance::Affinity(number, mask)));
                    }
                }
                What::Cpuset { name, cpus } => {
                    sets.insert(name.clone(), cpus.clone());
                    for (index, place) in places.iter().enumerate() {
                        if place.cpuset.as_ref() == Some(name) {
                            let mask = masks.of(&place.own, Some(cpus));
                            result.push((at, Disturbance::Affinity(index + 1, mask)));
                        }
                    }
                }
            }
        }
        result
    }

    /// Changes how many tasks are like the one of this index, which is 0 if the last argument is; then it is left out. Events
    /// go on naming the same tasks.
    pub(crate) fn set_count(&mut self, index: usize, count: u64) {
        let first = 1 + self.tasks[..index].iter().map(|task| task.count).sum::<u64>() as usize;
        let (old, new) = (self.tasks[index].count as usize, count as usize);
        if new == 0 {
            self.tasks.remove(index);
        } else {
            self.tasks[index].count = count;
        }
        // The number of a task afterwards, or of the first one behind it that is left.
        let moved =
            |number: usize| if number < first + old { number.min(first + new) } else { number + new - old };
        self.events.retain_mut(|event| {
            let Some((task, count)) = event.what.tasks_mut() else { return true };
            let last = *task + *count - 1;
            let is_left = last < first || last >= first + old || last < first + new;
            let end = if is_left { moved(last) + 1 } else { first + new };
            let from = moved(*task);
            (*task, *count) = (from, end.saturating_sub(from));
            *count > 0
        });
    }

    /// Where a task may run when it begins: what it asks for, within its set of CPUs.
    pub(super) fn first_cpus(&self, task: &TaskPlan) -> Vec<CpuId> {
        let Some(name) = &task.cpuset else { return task.cpus.clone() };
        let mut changes: Vec<(u64, &Vec<CpuId>)> = Vec::new();
        for event in &self.events {
            if let What::Cpuset { name: other, cpus } = &event.what
                && other == name
                && event.at_us <= task.start_us
            {
                let times = event.times.min(1 + (task.start_us - event.at_us) / event.every_us.max(1));
                changes.push((event.at_us + (times - 1) * event.every_us, cpus));
            }
        }
        let last = changes.into_iter().max_by_key(|(at_us, _)| *at_us).map(|(_, cpus)| cpus);
        within(&task.cpus, Some(last.unwrap_or(&self.cpusets[name])))
    }
}

/// `cpuset_cpus_allowed()` and `user_cpus_ptr`: what a task has asked for, within its set of CPUs, or all of the set if
/// it has asked for none of them.
fn within(own: &[CpuId], set: Option<&[CpuId]>) -> Vec<CpuId> {
    let Some(set) = set else { return own.to_vec() };
    let both: Vec<CpuId> = own.iter().copied().filter(|cpu| set.contains(cpu)).collect();
    if both.is_empty() { set.to_vec() } else { both }
}

/// The masks of one event: tasks that may run on the same CPUs have one.
#[derive(Default)]
struct Masks(BTreeMap<Vec<CpuId>, Arc<CpuMask>>);

impl Masks {
    fn of(&mut self, own: &[CpuId], set: Option<&[CpuId]>) -> Arc<CpuMask> {
        let cpus = within(own, set);
        let mask = self.0.entry(cpus).or_insert_with_key(|cpus| {
            let mut mask = CpuMask::empty();
            cpus.iter().for_each(|&cpu| mask.set(cpu, true));
            Arc::new(mask)
        });
        Arc::clone(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(counts: &[u64], changed: (usize, usize)) -> Scenario {
        let mut text =
            "seed = 1\nmachine = \"parallel-clock\"\ncpus = 2\nscheduler = \"eevdf\"\nlimit_ms = 9\n"
                .to_owned();
        for count in counts {
            text += &format!("[[task]]\ncount = {count}\nsteps = []\n");
        }
        let (task, count) = changed;
        text += &format!("[[event]]\nat_us = 1\nnice = {{ task = {task}, count = {count}, to = 1 }}\n");
        Scenario::parse(&text, "it").unwrap()
    }

    #[test]
    fn events_follow_their_tasks() {
        let changed = |tasks: (usize, usize), index: usize, count: u64| {
            let mut scenario = scenario(&[3, 4, 5], tasks);
            scenario.set_count(index, count);
            scenario.check().unwrap();
            scenario.events.first().and_then(|event| event.what.tasks())
        };
        // The second kind has the tasks 4 to 7.
        assert_eq!(changed((1, 3), 1, 0), Some((1, 3)));
        assert_eq!(changed((8, 5), 1, 0), Some((4, 5)));
        assert_eq!(changed((4, 4), 1, 0), None);
        assert_eq!(changed((5, 2), 1, 2), Some((5, 1)));
        assert_eq!(changed((6, 2), 1, 2), None);
        assert_eq!(changed((6, 4), 1, 2), Some((6, 2)));
        assert_eq!(changed((2, 11), 1, 1), Some((2, 8)));
        assert_eq!(changed((8, 1), 1, 9), Some((13, 1)));
        assert_eq!(changed((4, 4), 1, 9), Some((4, 4)));
    }

    #[test]
    fn tasks_stay_within_their_cpusets() {
        assert_eq!(within(&[1, 2], None), [1, 2]);
        assert_eq!(within(&[1, 2], Some(&[2, 3])), [2]);
        assert_eq!(within(&[1], Some(&[2, 3])), [2, 3]);
        assert_eq!(within(&[], Some(&[2, 3])), [2, 3]);
    }
}
