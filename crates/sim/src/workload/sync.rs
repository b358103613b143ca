//! What tasks wait for besides messages: barriers, semaphores (also used as mutexes) and
//! conditions.
use crate::core::{CpuId, TaskId};
use crate::engine::Ns;
use std::collections::VecDeque;

pub type BarrierId = usize;
pub type SemaphoreId = usize;
pub type ConditionId = usize;

/// How a thread waits at a barrier, as OpenMP runtimes do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, Default)]
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
        sleepers: Vec<TaskId>,
    },
    /// The task has to wait.
    Early {
        /// The round for whose end it waits.
        round: u64,
    },
}

#[derive(Debug)]
pub struct Barrier {
    parties: u64,
    arrived: u64,
    round: u64,
    pollers: Vec<TaskId>,
    sleepers: Vec<TaskId>,
    /// The CPU that wrote its cache line last.
    pub(crate) line_at: Option<CpuId>,
    /// The task that arrived last.
    pub(crate) last: Option<TaskId>,
}

impl Barrier {
    /// For this number of tasks, at least one.
    pub fn new(parties: u64) -> Self {
        Self {
            parties,
            arrived: 0,
            round: 0,
            pollers: Vec::new(),
            sleepers: Vec::new(),
            line_at: None,
            last: None,
        }
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
    spinning: Option<Spinning>,
}

/// Of a mutex of Rust's standard library.
#[derive(Debug, Default)]
struct Spinning {
    /// A task may sleep, so that none spins, and who releases the mutex wakes one.
    is_contended: bool,
    spinners: Vec<TaskId>,
    /// These have spun, and sleep if they cannot take it now.
    have_spun: Vec<TaskId>,
}

impl Spinning {
    /// All spin no longer.
    fn end(&mut self) -> Vec<TaskId> {
        self.have_spun.extend(&self.spinners);
        std::mem::take(&mut self.spinners)
    }

    /// Whether the task has spun since it last slept.
    fn take_spun(&mut self, task: TaskId) -> bool {
        let before = self.spinners.len() + self.have_spun.len();
        self.spinners.retain(|&other| other != task);
        self.have_spun.retain(|&other| other != task);
        self.spinners.len() + self.have_spun.len() < before
    }
}

/// What comes of an attempt to take one of a semaphore.
#[derive(Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The task has it.
    Taken,
    /// It tries again after [`Semaphore::SPIN_NS`], or as soon as the mutex is released.
    Spins,
    /// It sleeps, and tries again when it is woken.
    Sleeps {
        /// These spin no longer.
        spinners: Vec<TaskId>,
    },
}

impl Semaphore {
    /// A hundred times PAUSE, of 140 ns on the parallel clock.
    pub const SPIN_NS: Ns = 14_000;

    pub fn new(count: u64) -> Self {
        Self { count, waiters: VecDeque::new(), spinning: None }
    }

    /// A mutex of Rust's standard library (`sys/sync/mutex/futex.rs`): a task spins before it sleeps, unless another one
    /// sleeps already, and a release wakes none if none may sleep.
    pub fn mutex() -> Self {
        Self { spinning: Some(Spinning::default()), ..Self::new(1) }
    }

    /// Takes one, if there is one. As with futexes, another task may take it before one that `has_slept`.
    pub fn down(&mut self, task: TaskId, has_slept: bool) -> Attempt {
        if self.count > 0 {
            self.count -= 1;
            if let Some(spinning) = &mut self.spinning {
                spinning.take_spun(task);
                spinning.is_contended |= has_slept;
            }
            return Attempt::Taken;
        }
        let mut spinners = Vec::new();
        if let Some(spinning) = &mut self.spinning {
            if !spinning.take_spun(task) && !spinning.is_contended {
                spinning.spinners.push(task);
                return Attempt::Spins;
            }
            spinning.is_contended = true;
            spinners = spinning.end();
        }
        self.waiters.push_back(task);
        Attempt::Sleeps { spinners }
    }

    /// Releases one, and returns the task that this wakes, and those that spin no longer.
    pub fn up(&mut self) -> (Option<TaskId>, Vec<TaskId>) {
        self.count += 1;
        let Some(spinning) = &mut self.spinning else { return (self.waiters.pop_front(), Vec::new()) };
        let sleeper =
            if std::mem::take(&mut spinning.is_contended) { self.waiters.pop_front() } else { None };
        (sleeper, spinning.end())
    }
}

/// A condition has no memory: a signal without a waiter is lost.
#[derive(Debug, Default)]
pub struct Condition {
    waiters: VecDeque<TaskId>,
}

impl Condition {
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
        let sleeps = || Attempt::Sleeps { spinners: vec![] };
        assert_eq!(semaphore.down(1, false), Attempt::Taken);
        assert_eq!((semaphore.down(2, false), semaphore.down(3, false)), (sleeps(), sleeps()));
        assert_eq!([semaphore.up().0, semaphore.up().0, semaphore.up().0], [Some(2), Some(3), None]);
        assert_eq!((semaphore.down(2, true), semaphore.down(3, true)), (Attempt::Taken, Attempt::Taken));
    }

    #[test]
    fn a_mutex_wakes_one_only_if_one_may_sleep() {
        let mut mutex = Semaphore::mutex();
        assert_eq!(mutex.down(1, false), Attempt::Taken);
        assert_eq!((mutex.down(2, false), mutex.down(3, false)), (Attempt::Spins, Attempt::Spins));
        // The second has spun in vain: nobody spins any more.
        assert_eq!(mutex.down(2, false), Attempt::Sleeps { spinners: vec![3] });
        assert_eq!(mutex.down(3, false), Attempt::Sleeps { spinners: vec![] });
        assert_eq!(mutex.up(), (Some(2), vec![]));
        // A fourth takes it first, knows of no sleeper and wakes none. The second does.
        assert_eq!(mutex.down(4, false), Attempt::Taken);
        assert_eq!(mutex.down(2, true), Attempt::Spins);
        assert_eq!(mutex.up(), (None, vec![2]));
        assert_eq!(mutex.down(2, true), Attempt::Taken);
        assert_eq!(mutex.up(), (Some(3), vec![]));
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
