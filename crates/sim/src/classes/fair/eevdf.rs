//! Earliest eligible virtual deadline first, as in Linux 6.18: `kernel/sched/fair.c` with its
//! features at their defaults (`PLACE_LAG`, `PLACE_DEADLINE_INITIAL`, `PLACE_REL_DEADLINE`,
//! `RUN_TO_PARITY`, `DELAY_DEQUEUE`, `DELAY_ZERO`).
//!
//! Every task has a virtual time, which advances more slowly the heavier the task is, and a
//! deadline, which is one slice of that time ahead. The weighted average of all virtual times is
//! the fair share; a task's distance to it is its lag. A task whose lag is not negative is
//! eligible, and the eligible task with the earliest deadline runs.
use super::timeline::{Slot, Timeline};
use super::{Rules, scale, virtual_time};
use crate::classes::Enqueue;
use crate::core::{Core, CpuId, TaskId};
use crate::engine::Ns;

/// `sysctl_sched_base_slice` before it is scaled by the number of CPUs, in µs.
const BASE_SLICE_US: u64 = 700;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EevdfOptions {
    /// `base_slice_ns` in µs; `None`: 700, times one more than the logarithm of the CPUs, of 8 at most.
    pub slice_us: Option<u64>,
}

#[derive(Debug)]
pub struct Eevdf {
    slice: i64,
    tick: i64,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
}

/// `struct sched_entity`; times are virtual unless stated otherwise.
#[derive(Debug, Clone, Default)]
struct Entity {
    weight: i64,
    vruntime: i64,
    deadline: i64,
    /// How far it was behind the average when it left the queue.
    lag: i64,
    /// It is not preempted until then, if it remains eligible.
    protected_until: i64,
    /// The deadline is relative to the virtual time.
    is_relative: bool,
    /// It sleeps, and stays in the queue until its negative lag is used up.
    is_delayed: bool,
    on: Option<CpuId>,
}

/// `struct cfs_rq`.
#[derive(Debug, Default)]
struct Queue {
    waiting: Timeline,
    curr: Option<TaskId>,
    /// Tasks that slept in the queue and have left it, for [`Rules::take_left`].
    left: Vec<TaskId>,
    /// The weight of all tasks, the running one included.
    load: i64,
    /// The sum of their virtual times, each times its weight.
    sum: i128,
    /// The average when the queue was last not empty.
    base: i64,
}

impl Queue {
    /// `avg_vruntime()`
    fn average(&self) -> i64 {
        if self.load == 0 { self.base } else { self.sum.div_euclid(i128::from(self.load)) as i64 }
    }

    /// `vruntime_eligible()`
    fn is_eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime) * i128::from(self.load) <= self.sum
    }

    fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.curr.is_some())
    }

    fn account(&mut self, entity: &Entity, sign: i64) {
        self.base = self.average();
        self.load += sign * entity.weight;
        self.sum += i128::from(sign * entity.weight) * i128::from(entity.vruntime);
    }
}

impl Eevdf {
    pub fn new(core: &Core, options: EevdfOptions) -> Self {
        let slice_us = options.slice_us.unwrap_or_else(|| scale(core, BASE_SLICE_US));
        Self {
            slice: slice_us as i64 * 1000,
            tick: core.machine.tick_ns as i64,
            entities: Vec::new(),
            queues: (0..core.nr_cpus()).map(|_| Queue::default()).collect(),
        }
    }

    fn slot(&self, task: TaskId) -> Slot {
        let entity = &self.entities[task];
        Slot { key: entity.deadline, vruntime: entity.vruntime, task }
    }

    /// `update_entity_lag()`
    fn note_lag(&mut self, cpu: CpuId, task: TaskId) {
        let average = self.queues[cpu].average();
        let limit = virtual_time((2 * self.slice).max(self.tick), self.entities[task].weight);
        let entity = &mut self.entities[task];
        entity.lag = (average - entity.vruntime).clamp(-limit, limit);
    }

    /// `place_entity()`: as far behind the average as it was when it left. The lag is scaled, as
    /// adding the task changes the average.
    fn place(&mut self, cpu: CpuId, task: TaskId, is_new: bool) {
        let queue = &self.queues[cpu];
        let entity = &mut self.entities[task];
        let mut lag = 0;
        if queue.count() > 0 {
            let load = i128::from(queue.load);
            lag = (i128::from(entity.lag) * (load + i128::from(entity.weight)) / load) as i64;
        }
        entity.vruntime = queue.average() - lag;
        if std::mem::take(&mut entity.is_relative) {
            entity.deadline += entity.vruntime;
            return;
        }
        let slice = virtual_time(self.slice, entity.weight);
        entity.deadline = entity.vruntime + if is_new { slice / 2 } else { slice };
    }

    /// Removes it from the queue.
    fn remove(&mut self, cpu: CpuId, task: TaskId) {
        let slot = self.slot(task);
        let queue = &mut self.queues[cpu];
        if queue.curr == Some(task) {
            queue.curr = None;
        } else {
            queue.waiting.remove(slot.key, task);
        }
        queue.account(&self.entities[task], -1);
        self.entities[task].on = None;
    }

    /// `finish_delayed_dequeue_entity()`: a task that has slept in between keeps no positive lag.
    fn finish_delayed(&mut self, cpu: CpuId, task: TaskId) {
        self.note_lag(cpu, task);
        self.remove(cpu, task);
        let entity = &mut self.entities[task];
        entity.is_delayed = false;
        entity.lag = entity.lag.min(0);
        self.queues[cpu].left.push(task);
    }

    /// `pick_eevdf()`
    fn choose(&self, cpu: CpuId) -> Option<TaskId> {
        let queue = &self.queues[cpu];
        if queue.count() <= 1 {
            return queue.curr.or(queue.waiting.first().map(|slot| slot.task));
        }
        let curr = queue.curr.filter(|&curr| queue.is_eligible(self.entities[curr].vruntime));
        if let Some(curr) = curr
            && self.entities[curr].vruntime < self.entities[curr].protected_until
        {
            return Some(curr);
        }
        let best = queue.waiting.iter().find(|slot| queue.is_eligible(slot.vruntime));
        match (curr, best) {
            (Some(curr), Some(best)) if self.entities[curr].deadline >= best.key => Some(best.task),
            (None, Some(best)) => Some(best.task),
            (curr, _) => curr,
        }
    }

    /// The lag of this task, in virtual time; for tests.
    #[cfg(test)]
    fn lag(&self, cpu: CpuId, task: TaskId) -> i64 {
        self.queues[cpu].average() - self.entities[task].vruntime
    }
}

impl Rules for Eevdf {
    const NAME: &'static str = "eevdf";
    const IS_MODERN: bool = true;

    fn add_task(&mut self, task: TaskId, weight: u64, _parent_cpu: CpuId) {
        self.entities.resize(self.entities.len().max(task + 1), Entity::default());
        self.entities[task] = Entity { weight: weight as i64, ..Entity::default() };
    }

    /// `reweight_entity()`: its lag, and what is left until its deadline, are worth as much as before.
    fn reweight(&mut self, task: TaskId, weight: u64) {
        let (entity, weight) = (&mut self.entities[task], weight as i64);
        let rescale = |time: i64| time * entity.weight / weight;
        entity.lag = rescale(entity.lag);
        if entity.is_relative {
            entity.deadline = rescale(entity.deadline);
        }
        entity.weight = weight;
    }

    fn enqueue(&mut self, cpu: CpuId, task: TaskId, why: Enqueue) {
        if why == Enqueue::Delayed {
            // `requeue_delayed_entity()`
            self.note_lag(cpu, task);
            self.entities[task].is_delayed = false;
            if self.entities[task].lag <= 0 {
                return;
            }
            self.remove(cpu, task);
            self.entities[task].lag = 0;
        }
        self.place(cpu, task, why == Enqueue::Fork);
        self.entities[task].on = Some(cpu);
        let slot = self.slot(task);
        self.queues[cpu].account(&self.entities[task], 1);
        self.queues[cpu].waiting.insert(slot);
    }

    fn dequeue(&mut self, cpu: CpuId, task: TaskId, sleeps: bool, dies: bool) {
        if sleeps && !dies && !self.queues[cpu].is_eligible(self.entities[task].vruntime) {
            self.entities[task].is_delayed = true;
            return;
        }
        self.note_lag(cpu, task);
        self.remove(cpu, task);
        if !sleeps {
            let entity = &mut self.entities[task];
            entity.deadline -= entity.vruntime;
            entity.is_relative = true;
        }
    }

    fn is_delayed(&self, task: TaskId) -> bool {
        self.entities[task].is_delayed
    }

    fn drop_delayed(&mut self, task: TaskId) {
        if let Some(cpu) = self.entities[task].on {
            self.finish_delayed(cpu, task);
        }
    }

    fn take_left(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.queues[cpu].left.pop()
    }

    fn account(&mut self, cpu: CpuId, delta: Ns) -> bool {
        let queue = &mut self.queues[cpu];
        let Some(curr) = queue.curr else { return false };
        let entity = &mut self.entities[curr];
        let passed = virtual_time(delta as i64, entity.weight);
        entity.vruntime += passed;
        queue.sum += i128::from(entity.weight) * i128::from(passed);
        let is_over = entity.vruntime >= entity.deadline;
        if is_over {
            entity.deadline = entity.vruntime + virtual_time(self.slice, entity.weight);
        }
        queue.count() > 1 && (is_over || entity.vruntime >= entity.protected_until)
    }

    fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        loop {
            let task = self.choose(cpu)?;
            if !self.entities[task].is_delayed {
                return Some(task);
            }
            self.finish_delayed(cpu, task);
        }
    }

    fn begin(&mut self, cpu: CpuId, task: TaskId) {
        let queue = &mut self.queues[cpu];
        queue.waiting.remove(self.entities[task].deadline, task);
        queue.curr = Some(task);
        self.entities[task].protected_until = self.entities[task].deadline;
    }

    fn end(&mut self, cpu: CpuId, task: TaskId) {
        let slot = self.slot(task);
        let queue = &mut self.queues[cpu];
        if queue.curr == Some(task) {
            queue.curr = None;
            queue.waiting.insert(slot);
        }
    }

    fn preempts(&mut self, cpu: CpuId, task: TaskId) -> bool {
        self.choose(cpu) == Some(task)
    }

    /// Gives up the rest of its slice.
    fn yield_now(&mut self, cpu: CpuId) {
        let queue = &mut self.queues[cpu];
        let Some(curr) = queue.curr.filter(|_| queue.count() > 1) else { return };
        let entity = &mut self.entities[curr];
        if queue.is_eligible(entity.vruntime) {
            queue.sum += i128::from(entity.weight) * i128::from(entity.deadline - entity.vruntime);
            entity.vruntime = entity.deadline;
            entity.deadline += virtual_time(self.slice, entity.weight);
        }
    }

    fn waiting(&self, cpu: CpuId) -> Vec<TaskId> {
        let runnable = |slot: &&Slot| !self.entities[slot.task].is_delayed;
        self.queues[cpu].waiting.iter().filter(runnable).map(|slot| slot.task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::load_weight;
    use crate::engine::random;
    use flsched_machine::Machine;
    use rand::RngExt;
    use std::sync::Arc;

    fn eevdf(cpus: usize) -> Eevdf {
        let machine = Machine::find("ryzen-3400g").unwrap().with_cpus(cpus).unwrap();
        Eevdf::new(&Core::new(Arc::new(machine), 1), EevdfOptions::default())
    }

    #[test]
    fn the_slice_grows_with_the_cpus() {
        assert_eq!(
            [1, 2, 4, 8, 64].map(|cpus| eevdf(cpus).slice),
            [700_000, 1_400_000, 2_100_000, 2_800_000, 2_800_000]
        );
    }

    /// Whatever tasks come, leave and run: no lag exceeds the longest time between two decisions
    /// plus a slice, and the sums match those over the entities.
    #[test]
    fn lag_is_bounded() {
        let mut rules = eevdf(1);
        let mut random = random(7, 0);
        let nices: Vec<i32> = (0..12).map(|_| random.random_range(-5..=5)).collect();
        for (task, nice) in nices.iter().enumerate() {
            rules.add_task(task, load_weight(120 + nice), 0);
            rules.enqueue(0, task, Enqueue::Fork);
        }
        let mut asleep: Vec<TaskId> = Vec::new();
        let step = 1_000_000;
        for _ in 0..20_000 {
            let next = rules.pick(0);
            if next != rules.queues[0].curr {
                if let Some(curr) = rules.queues[0].curr {
                    rules.end(0, curr);
                }
                if let Some(next) = next {
                    rules.begin(0, next);
                }
            }
            rules.account(0, random.random_range(0..step));
            if let Some(curr) = rules.queues[0].curr
                && random.random_ratio(1, 4)
            {
                rules.dequeue(0, curr, true, false);
                rules.end(0, curr);
                asleep.push(curr);
            }
            if !asleep.is_empty() && random.random_ratio(1, 3) {
                let task = asleep.swap_remove(random.random_range(0..asleep.len()));
                let why = if rules.is_delayed(task) { Enqueue::Delayed } else { Enqueue::WakeUp };
                rules.enqueue(0, task, why);
            }
            let queued: Vec<TaskId> = (0..12).filter(|&task| rules.entities[task].on.is_some()).collect();
            let sum: i128 = queued
                .iter()
                .map(|&task| {
                    i128::from(rules.entities[task].weight) * i128::from(rules.entities[task].vruntime)
                })
                .sum();
            assert_eq!(rules.queues[0].sum, sum);
            for task in queued {
                let limit = virtual_time(2 * (rules.slice + step as i64), rules.entities[task].weight);
                // A heavy task that leaves moves the average of the remaining ones.
                assert!(rules.lag(0, task).abs() <= 4 * limit, "{task}: {}", rules.lag(0, task));
            }
        }
    }

    #[test]
    fn a_sleeper_with_negative_lag_stays_queued_until_it_is_repaid() {
        let mut rules = eevdf(1);
        for task in 0..2 {
            rules.add_task(task, 1024, 0);
            rules.enqueue(0, task, Enqueue::Fork);
        }
        rules.begin(0, 0);
        rules.account(0, 300_000);
        rules.dequeue(0, 0, true, false);
        assert!(rules.is_delayed(0));
        rules.end(0, 0);
        assert_eq!(rules.pick(0), Some(1));
        rules.begin(0, 1);
        rules.account(0, 5_000_000);
        // Its lag is positive now, and it would be picked: so it is dequeued, without lag.
        assert_eq!(rules.pick(0), Some(1));
        assert!(!rules.is_delayed(0) && rules.entities[0].lag == 0 && rules.entities[0].on.is_none());
    }
}
