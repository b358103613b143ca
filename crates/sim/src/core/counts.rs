//! What is counted during a run.
use crate::engine::Ns;
use flsched_machine::Callback;

/// Calls of one callback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallbackCount {
    pub calls: u64,
    /// Their time, without waiting for locks.
    pub ns: Ns,
}

/// Each power of two is split into this number of equal parts: a percentile is exact to about 3 %.
const PARTS: u64 = 32;

/// Durations, by size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

impl Histogram {
    pub fn add(&mut self, ns: Ns) {
        let index = Self::index(ns);
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, 0);
        }
        self.buckets[index] += 1;
        self.count += 1;
    }

    /// Those that were added after `earlier`, a former state of this one.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |index: usize| earlier.buckets.get(index).copied().unwrap_or(0);
        let buckets = self.buckets.iter().enumerate().map(|(index, count)| count - before(index));
        Self { buckets: buckets.collect(), count: self.count - earlier.count }
    }

    /// How many were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The duration that this share of all does not exceed; `None`: there are none.
    pub fn percentile(&self, share: f64) -> Option<Ns> {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().enumerate().find_map(|(index, count)| {
            seen += count;
            (*count > 0 && seen >= wanted).then(|| Self::upper(index))
        })
    }

    fn index(ns: Ns) -> usize {
        if ns < PARTS {
            return ns as usize;
        }
        let shift = (ns / PARTS).ilog2();
        ((u64::from(shift) + 1) * PARTS + (ns >> shift) - PARTS) as usize
    }

    fn upper(index: usize) -> Ns {
        let index = index as u64;
        if index < PARTS {
            return index;
        }
        let shift = index / PARTS - 1;
        ((index % PARTS + PARTS + 1) << shift) - 1
    }
}

/// All counts of a run.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Context switches, including those from and to the idle task.
    pub switches: u64,
    /// Moves of tasks from one CPU to another.
    pub migrations: u64,
    /// Wake-ups that found a sleeper.
    pub wakeups: u64,
    pub ticks: u64,
    /// Calls of `sched_yield()`.
    pub yields: u64,
    /// Time spent bringing data to cold caches, on all CPUs.
    pub reloading: Ns,
    /// Time spun for locks, on all CPUs.
    pub spun: Ns,
    /// Scheduling events: wake-ups, switches, yields, ticks, lock hand-overs.
    pub events: u64,
    /// By [`Callback`].
    pub callbacks: [CallbackCount; Callback::COUNT],
    /// From wake-up to running.
    pub latency: Histogram,
}

/// What was counted before the measured part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Before {
    pub(crate) counts: Counts,
    /// How long tasks had run, on all CPUs.
    pub(crate) ran: Ns,
}

impl Before {
    pub(crate) fn now(core: &super::Core) -> Self {
        Self { counts: core.counts.clone(), ran: core.tasks.iter().map(|task| task.ran).sum() }
    }
}

impl Counts {
    pub(super) fn called(&mut self, callback: Callback, ns: Ns) {
        let count = &mut self.callbacks[callback as usize];
        count.calls += 1;
        count.ns += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_percent() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|ns| histogram.add(ns * 10));
        for share in [0.5, 0.9, 0.99, 1.0] {
            let exact = share * 1_000_000.0;
            let found = histogram.percentile(share).unwrap() as f64;
            assert!((found / exact - 1.0).abs() < 0.033, "{share}: {found} instead of {exact}");
        }
        assert_eq!(Histogram::default().percentile(0.5), None);
    }

    #[test]
    fn what_was_added_since_is_what_is_new() {
        let mut histogram = Histogram::default();
        histogram.add(10);
        let before = histogram.clone();
        [20, 30_000].iter().for_each(|&ns| histogram.add(ns));
        let since = histogram.since(&before);
        assert_eq!((since.count(), since.percentile(0.5)), (2, Some(20)));
    }

    #[test]
    fn buckets_follow_each_other() {
        for ns in (0..5000).chain([u64::MAX / 2, u64::MAX]) {
            let index = Histogram::index(ns);
            assert!(Histogram::upper(index) >= ns);
            assert!(index == 0 || Histogram::upper(index - 1) < ns);
        }
    }
}
