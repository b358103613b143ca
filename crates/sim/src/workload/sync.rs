//! What tasks wait for besides messages: barriers, semaphores (also used as mutexes) and
//! conditions.
use crate::core::{CpuId, TaskId};
use crate::engine::Ns;
use std::collections::VecDeque;

/// A barrier's number.
pub type BarrierId = usize;
/// A semaphore's number.
pub type SemaphoreId = usize;
/// A condition's number.
pub type ConditionId = usize;

/// How a thread waits at a barrier, as OpenMP runtimes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// How long it spins before it yields, or no limit.
    pub poll: Ns,
    /// It calls `sched_yield()` between two polls.
    pub yields: bool,
    /// It sleeps on a futex once it has waited for this long; `None`: never.
    pub block_after: Option<Ns>,
}

impl Wait {
    /// Spins without limit.
    pub const SPIN: Self = Self { poll: 10_000_000, yields: false, block_after: None };
    /// One poll (a miss of the cache), then `sched_yield()`, and again.
    pub const YIELD: Self = Self { poll: 100, yields: true, block_after: None };
    /// Sleeps at once.
    pub const BLOCK: Self = Self { poll: 0, yields: false, block_after: Some(0) };

    /// By its name: `spin`, `yield` or `futex`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .position(|known| *known == name)
            .map(|at| [Self::SPIN, Self::YIELD, Self::BLOCK][at])
    }

    /// The names of the three ways.
    pub const NAMES: [&'static str; 3] = ["spin", "yield", "futex"];
}

/// A task that waits at a barrier.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    pub(crate) barrier: BarrierId,
    pub(crate) round: u64,
    pub(crate) wait: Wait,
    pub(crate) since: Ns,
    /// It has just spun for as long as it does at a time.
    pub(crate) has_polled: bool,
}

/// The result of an arrival at a barrier.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was the last one.
    Last {
        /// They spin, or yield between polls.
        pollers: Vec<TaskId>,
        /// They sleep.
        sleepers: Vec<TaskId>,
    },
    /// The task has to wait.
    Early {
        /// The round for whose end it waits.
        round: u64,
    },
}

/// Where tasks meet.
#[derive(Debug)]
pub struct Barrier {
    parties: u64,
    arrived: u64,
    round: u64,
    pollers: Vec<TaskId>,
    sleepers: Vec<TaskId>,
    /// The CPU that wrote its cache line last.
    pub(crate) line_at: Option<CpuId>,
}

impl Barrier {
    /// For this number of tasks, at least one.
    pub fn new(parties: u64) -> Self {
        Self { parties, arrived: 0, round: 0, pollers: Vec::new(), sleepers: Vec::new(), line_at: None }
    }

    /// `task` arrives.
    pub fn arrive(&mut self, task: TaskId) -> Arrival {
        self.arrived += 1;
        if self.arrived < self.parties {
            self.pollers.push(task);
            return Arrival::Early { round: self.round };
        }
        self.arrived = 0;
        self.round += 1;
        Arrival::Last {
            pollers: std::mem::take(&mut self.pollers),
            sleepers: std::mem::take(&mut self.sleepers),
        }
    }

    /// Whether all of that round have arrived.
    pub fn is_over(&self, round: u64) -> bool {
        self.round != round
    }

    /// `task`, which spun until now, sleeps.
    pub fn sleep(&mut self, task: TaskId) {
        self.pollers.retain(|poller| *poller != task);
        self.sleepers.push(task);
    }
}

/// A count that cannot fall below zero. With a count of one it is a mutex.
#[derive(Debug)]
pub struct Semaphore {
    count: u64,
    waiters: VecDeque<TaskId>,
}

impl Semaphore {
    /// With this count.
    pub fn new(count: u64) -> Self {
        Self { count, waiters: VecDeque::new() }
    }

    /// Takes one; false: the task waits, and tries again when it is woken. As with futexes, another
    /// task may take it in between.
    pub fn down(&mut self, task: TaskId) -> bool {
        if self.count == 0 {
            self.waiters.push_back(task);
            return false;
        }
        self.count -= 1;
        true
    }

    /// Releases one, and returns the task that this wakes.
    pub fn up(&mut self) -> Option<TaskId> {
        self.count += 1;
        self.waiters.pop_front()
    }
}

/// A condition has no memory: a signal without a waiter is lost.
#[derive(Debug, Default)]
pub struct Condition {
    waiters: VecDeque<TaskId>,
}

impl Condition {
    /// The task waits.
    pub fn wait(&mut self, task: TaskId) {
        self.waiters.push_back(task);
    }

    /// The tasks that a signal wakes: the first waiter, or `all`.
    pub fn signal(&mut self, all: bool) -> Vec<TaskId> {
        let count = if all { self.waiters.len() } else { 1.min(self.waiters.len()) };
        self.waiters.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_opens_a_barrier() {
        let mut barrier = Barrier::new(3);
        assert_eq!(barrier.arrive(1), Arrival::Early { round: 0 });
        assert_eq!(barrier.arrive(2), Arrival::Early { round: 0 });
        barrier.sleep(1);
        assert!(!barrier.is_over(0));
        assert_eq!(barrier.arrive(3), Arrival::Last { pollers: vec![2], sleepers: vec![1] });
        assert!(barrier.is_over(0));
        assert_eq!(barrier.arrive(2), Arrival::Early { round: 1 });
    }

    #[test]
    fn a_semaphore_lets_as_many_pass_as_it_counts() {
        let mut semaphore = Semaphore::new(1);
        assert!(semaphore.down(1));
        assert!(!semaphore.down(2) && !semaphore.down(3));
        assert_eq!((semaphore.up(), semaphore.up(), semaphore.up()), (Some(2), Some(3), None));
        assert!(semaphore.down(2) && semaphore.down(3));
    }

    #[test]
    fn a_signal_without_waiters_is_lost() {
        let mut condition = Condition::default();
        assert!(condition.signal(true).is_empty());
        (1..=3).for_each(|task| condition.wait(task));
        assert_eq!(condition.signal(false), [1]);
        assert_eq!(condition.signal(true), [2, 3]);
    }
}
