//! The completely fair scheduler as in Linux 2.6.38 and 3.10: `kernel/sched_fair.c` with its
//! features at their defaults (`START_DEBIT`, `GENTLE_FAIR_SLEEPERS`, `WAKEUP_PREEMPT`,
//! `LAST_BUDDY`).
//!
//! Every task has a virtual time, which runs slower the heavier it is; the one with the least runs,
//! for a share of the latency that is its share of the weight. Sleepers come back at most half a
//! latency behind the others.
use super::timeline::{Slot, Timeline};
use super::{Rules, scale, virtual_time};
use crate::classes::Enqueue;
use crate::core::{Core, CpuId, TaskId};
use crate::engine::Ns;

/// The settings; `None`: 6,000, 750 and 1,000, times one more than the logarithm of the CPUs, of 8 at
/// most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CfsOptions {
    /// `sched_latency_ns`: the period in which all tasks run once, if they are not too many, in µs.
    pub latency_us: Option<u64>,
    /// `sched_min_granularity_ns`: how long each task runs at least, in µs.
    pub min_granularity_us: Option<u64>,
    /// `sched_wakeup_granularity_ns`: how far behind a woken task must be to preempt, in µs.
    pub wakeup_granularity_us: Option<u64>,
    /// A task that yields is not picked next, as since 2.6.39; before, `sched_yield()` only updates
    /// the accounts.
    pub skip_yielder: bool,
    /// `sched_compat_yield`, until 2.6.38: a task that yields comes after all others of its queue.
    pub compat_yield: bool,
    /// No lock of the scheduler is waited for or fetched from another CPU: what do locks cost it?
    pub free_locks: bool,
}

#[derive(Debug)]
pub struct Cfs {
    latency: i64,
    min_granularity: i64,
    wakeup_granularity: i64,
    skip_yielder: bool,
    compat_yield: bool,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
}

#[derive(Debug, Clone, Default)]
struct Entity {
    weight: i64,
    vruntime: i64,
    /// The CPU in whose queue it was last; its virtual time is relative to that queue.
    home: CpuId,
    on_queue: bool,
}

/// `struct cfs_rq`.
#[derive(Debug, Default)]
struct Queue {
    waiting: Timeline,
    curr: Option<TaskId>,
    /// The weight of all tasks, the running one included.
    load: i64,
    min_vruntime: i64,
    /// The task that was preempted, and may continue when the other one sleeps.
    last: Option<TaskId>,
    skip: Option<TaskId>,
    /// How long the running task has run since it was picked, in ns.
    turn: i64,
}

impl Queue {
    fn count(&self) -> usize {
        self.waiting.len() + usize::from(self.curr.is_some())
    }

    fn clear_buddies(&mut self, task: TaskId) {
        self.last.take_if(|last| *last == task);
        self.skip.take_if(|skip| *skip == task);
    }
}

impl Cfs {
    pub fn new(core: &Core, options: CfsOptions) -> Self {
        let ns = |set: Option<u64>, us| set.unwrap_or_else(|| scale(core, us)) as i64 * 1000;
        Self {
            latency: ns(options.latency_us, 6000),
            min_granularity: ns(options.min_granularity_us, 750),
            wakeup_granularity: ns(options.wakeup_granularity_us, 1000),
            skip_yielder: options.skip_yielder,
            compat_yield: options.compat_yield,
            entities: Vec::new(),
            queues: (0..core.nr_cpus()).map(|_| Queue::default()).collect(),
        }
    }

    /// How many tasks each get their share of one latency: `sched_nr_latency`.
    fn most(&self) -> i64 {
        (self.latency + self.min_granularity - 1) / self.min_granularity
    }

    /// `sched_slice()`, in ns; a task that is not in the queue is counted as if it were.
    fn slice(&self, cpu: CpuId, task: TaskId) -> i64 {
        let queue = &self.queues[cpu];
        let entity = &self.entities[task];
        let extra = if entity.on_queue { 0 } else { 1 };
        let count = queue.count() as i64 + extra;
        let period = if count > self.most() { self.min_granularity * count } else { self.latency };
        let load = queue.load + extra * entity.weight;
        (i128::from(period) * i128::from(entity.weight) / i128::from(load)) as i64
    }

    /// `update_min_vruntime()`: it never decreases.
    fn update_min(&mut self, cpu: CpuId) {
        let queue = &mut self.queues[cpu];
        let first = queue.waiting.first().map(|slot| slot.key);
        let curr = queue.curr.map(|curr| self.entities[curr].vruntime);
        let least = curr.into_iter().chain(first).min();
        queue.min_vruntime = queue.min_vruntime.max(least.unwrap_or(queue.min_vruntime));
    }

    /// `wakeup_preempt_entity()`: whether `task` is so far behind `curr` that it may preempt.
    fn is_far_behind(&self, curr: i64, task: TaskId) -> bool {
        let entity = &self.entities[task];
        curr - entity.vruntime > virtual_time(self.wakeup_granularity, entity.weight)
    }

    fn slot(&self, task: TaskId) -> Slot {
        let vruntime = self.entities[task].vruntime;
        Slot { key: vruntime, vruntime, task }
    }
}

impl Rules for Cfs {
    const NAME: &'static str = "cfs";
    const IS_MODERN: bool = false;

    /// `task_fork_fair()`: placed as if it had just run.
    fn add_task(&mut self, task: TaskId, weight: u64, parent_cpu: CpuId) {
        self.entities.resize(self.entities.len().max(task + 1), Entity::default());
        self.entities[task] = Entity { weight: weight as i64, home: parent_cpu, ..Entity::default() };
        let slice = virtual_time(self.slice(parent_cpu, task), weight as i64);
        let queue = &self.queues[parent_cpu];
        let placed = queue.min_vruntime + slice;
        let parent = queue.curr.map_or(placed, |curr| self.entities[curr].vruntime);
        self.entities[task].vruntime = placed.max(parent);
    }

    fn reweight(&mut self, task: TaskId, weight: u64) {
        self.entities[task].weight = weight as i64;
    }

    fn enqueue(&mut self, cpu: CpuId, task: TaskId, why: Enqueue) {
        let (there, here) =
            (self.queues[self.entities[task].home].min_vruntime, self.queues[cpu].min_vruntime);
        let entity = &mut self.entities[task];
        match why {
            // Its virtual time was made relative to its queue when it left.
            Enqueue::Restore => entity.vruntime += here,
            _ => entity.vruntime += here - there,
        }
        if matches!(why, Enqueue::WakeUp | Enqueue::Delayed) {
            entity.vruntime = entity.vruntime.max(here - self.latency / 2);
        }
        entity.home = cpu;
        entity.on_queue = true;
        self.queues[cpu].load += entity.weight;
        let slot = self.slot(task);
        self.queues[cpu].waiting.insert(slot);
    }

    fn dequeue(&mut self, cpu: CpuId, task: TaskId, sleeps: bool, _dies: bool) {
        let slot = self.slot(task);
        let queue = &mut self.queues[cpu];
        queue.clear_buddies(task);
        if queue.curr == Some(task) {
            queue.curr = None;
        } else {
            queue.waiting.remove(slot.key, task);
        }
        queue.load -= self.entities[task].weight;
        self.entities[task].on_queue = false;
        self.update_min(cpu);
        if !sleeps {
            self.entities[task].vruntime -= self.queues[cpu].min_vruntime;
        }
    }

    fn account(&mut self, cpu: CpuId, delta: Ns) -> bool {
        let Some(curr) = self.queues[cpu].curr else { return false };
        let entity = &mut self.entities[curr];
        entity.vruntime += virtual_time(delta as i64, entity.weight);
        self.queues[cpu].turn += delta as i64;
        self.update_min(cpu);
        false
    }

    /// `pick_next_entity()`, where the running task is in the tree again.
    fn pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        let queue = &self.queues[cpu];
        let vruntime = |task: TaskId| self.entities[task].vruntime;
        let first = queue.waiting.first().map(|slot| slot.task);
        let (left, second) = match (queue.curr, first) {
            (Some(curr), Some(first)) if vruntime(curr) < vruntime(first) => (curr, Some(first)),
            (Some(curr), Some(first)) => {
                let after = queue.waiting.iter().nth(1).filter(|slot| slot.vruntime <= vruntime(curr));
                (first, Some(after.map_or(curr, |slot| slot.task)))
            }
            (curr, first) => (curr.or(first)?, queue.waiting.iter().nth(1).map(|slot| slot.task)),
        };
        let mut next = left;
        if queue.skip == Some(left)
            && let Some(second) = second
            && !self.is_far_behind(vruntime(second), left)
        {
            next = second;
        }
        if let Some(last) = queue.last
            && self.entities[last].on_queue
            && !self.is_far_behind(vruntime(last), left)
        {
            next = last;
        }
        let queue = &mut self.queues[cpu];
        queue.skip = None;
        queue.clear_buddies(next);
        if queue.curr == Some(next) {
            queue.turn = 0;
        }
        Some(next)
    }

    fn begin(&mut self, cpu: CpuId, task: TaskId) {
        let queue = &mut self.queues[cpu];
        queue.waiting.remove(self.entities[task].vruntime, task);
        queue.curr = Some(task);
        queue.turn = 0;
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
        let Some(curr) = self.queues[cpu].curr else { return true };
        if !self.is_far_behind(self.entities[curr].vruntime, task) {
            return false;
        }
        if self.queues[cpu].count() as i64 >= self.most() {
            self.queues[cpu].last = Some(curr);
        }
        true
    }

    /// `check_preempt_tick()`
    fn tick(&mut self, cpu: CpuId) -> bool {
        let Some(curr) = self.queues[cpu].curr else { return false };
        let Some(first) = self.queues[cpu].waiting.first().map(|slot| slot.vruntime) else { return false };
        let ideal = self.slice(cpu, curr);
        let queue = &mut self.queues[cpu];
        if queue.turn > ideal {
            queue.clear_buddies(curr);
            return true;
        }
        queue.turn >= self.min_granularity && self.entities[curr].vruntime - first > ideal
    }

    fn yield_now(&mut self, cpu: CpuId) {
        let skip = self.skip_yielder;
        let queue = &mut self.queues[cpu];
        let Some(curr) = queue.curr.filter(|_| queue.count() > 1) else { return };
        queue.clear_buddies(curr);
        if skip {
            queue.skip = Some(curr);
        }
        if self.compat_yield
            && let Some(last) = queue.waiting.iter().last()
        {
            let vruntime = &mut self.entities[curr].vruntime;
            *vruntime = (*vruntime).max(last.vruntime + 1);
        }
    }

    fn waiting(&self, cpu: CpuId) -> Vec<TaskId> {
        self.queues[cpu].waiting.iter().map(|slot| slot.task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_machine::Machine;
    use std::sync::Arc;

    fn cfs(tasks: usize) -> Cfs {
        with(tasks, CfsOptions::default())
    }

    fn with(tasks: usize, options: CfsOptions) -> Cfs {
        let machine = Machine::find("knc-31s1p").unwrap();
        let mut rules = Cfs::new(&Core::new(Arc::new(machine), 1), options);
        for task in 0..tasks {
            rules.add_task(task, 1024, 0);
            rules.enqueue(0, task, Enqueue::Fork);
        }
        rules
    }

    #[test]
    fn tunables_are_scaled_by_four_on_many_cpus() {
        let rules = cfs(0);
        assert_eq!(
            (rules.latency, rules.min_granularity, rules.wakeup_granularity),
            (24_000_000, 3_000_000, 4_000_000)
        );
        assert_eq!(rules.most(), 8);
    }

    #[test]
    fn a_latency_is_shared_until_the_shares_are_too_small() {
        assert_eq!(cfs(4).slice(0, 0), 6_000_000);
        assert_eq!(cfs(16).slice(0, 0), 3_000_000);
    }

    #[test]
    fn a_sleeper_is_owed_half_a_latency_at_most() {
        let mut rules = cfs(2);
        let first = rules.pick(0).unwrap();
        rules.begin(0, first);
        rules.dequeue(0, first, true, false);
        let other = rules.pick(0).unwrap();
        rules.begin(0, other);
        rules.account(0, 1_000_000_000);
        rules.enqueue(0, first, Enqueue::WakeUp);
        let owed = rules.entities[other].vruntime - rules.entities[first].vruntime;
        assert_eq!(owed, 12_000_000);
        assert!(rules.preempts(0, first));
        assert_eq!(rules.pick(0), Some(first));
    }

    #[test]
    fn a_task_that_yields_comes_last_only_with_compat_yield() {
        let after_yields = |compat_yield| {
            let mut rules = with(3, CfsOptions { compat_yield, ..CfsOptions::default() });
            let mut order = Vec::new();
            for _ in 0..6 {
                let next = rules.pick(0).unwrap();
                rules.begin(0, next);
                rules.account(0, 1000);
                rules.yield_now(0);
                rules.end(0, next);
                order.push(next);
            }
            order
        };
        let order = after_yields(true);
        assert_eq!(order[..3], order[3..], "{order:?}");
        assert_eq!(after_yields(false)[..3], [after_yields(false)[0]; 3], "the one that is behind goes on");
    }

    #[test]
    fn virtual_times_of_runnable_tasks_stay_close() {
        let mut rules = cfs(6);
        let tick = 10_000_000;
        for _ in 0..10_000 {
            let next = rules.pick(0).unwrap();
            if rules.queues[0].curr != Some(next) {
                if let Some(curr) = rules.queues[0].curr {
                    rules.end(0, curr);
                }
                rules.begin(0, next);
            }
            loop {
                rules.account(0, tick);
                if rules.tick(0) {
                    break;
                }
            }
            let times: Vec<i64> = (0..6).map(|task| rules.entities[task].vruntime).collect();
            let apart = times.iter().max().unwrap() - times.iter().min().unwrap();
            assert!(apart <= 2 * (rules.latency + tick as i64), "{apart}");
        }
    }
}
