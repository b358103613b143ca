//! What a recording amounts to, to be held against its replay.
use crate::{Ns, Recording};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Figures of a load, recorded or replayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How long it took, in seconds: from the start of the command to its end, or the whole.
    pub elapsed_s: f64,
    /// Context switches, including those from and to the idle task.
    pub switches: u64,
    /// Moves of tasks from one CPU to another.
    pub migrations: u64,
    /// Share of the CPUs' time in which a task of the load ran.
    pub utilisation: f64,
    /// From a wake-up or a fork to the task's run, in µs: the median.
    pub latency_p50_us: f64,
    /// The same, for all but 1 %.
    pub latency_p99_us: f64,
}

impl Figures {
    /// The median of each; there is at least one.
    pub fn median(all: &[Self]) -> Self {
        Self {
            elapsed_s: middle(all, |it| it.elapsed_s, f64::total_cmp),
            switches: middle(all, |it| it.switches, u64::cmp),
            migrations: middle(all, |it| it.migrations, u64::cmp),
            utilisation: middle(all, |it| it.utilisation, f64::total_cmp),
            latency_p50_us: middle(all, |it| it.latency_p50_us, f64::total_cmp),
            latency_p99_us: middle(all, |it| it.latency_p99_us, f64::total_cmp),
        }
    }
}

impl Recording {
    /// Of all that was recorded.
    pub fn figures(&self) -> Figures {
        let (_, mut seen) = self.follow();
        let length = self.header.length.max(1);
        let elapsed = match seen.command {
            [Some(from), Some(to)] => to.saturating_sub(from),
            _ => length,
        };
        seen.latencies.sort_unstable();
        let latency = |share: f64| us(percentile(&seen.latencies, share));
        Figures {
            elapsed_s: elapsed as f64 / 1e9,
            switches: seen.switches,
            migrations: self.header.migrations,
            utilisation: seen.busy as f64 / (length as f64 * self.header.cpus.len() as f64),
            latency_p50_us: latency(0.5),
            latency_p99_us: latency(0.99),
        }
    }
}

/// The median of this figure; there is at least one.
pub(crate) fn middle<A, T: Copy>(all: &[A], of: fn(&A) -> T, order: fn(&T, &T) -> Ordering) -> T {
    let mut values: Vec<T> = all.iter().map(of).collect();
    values.sort_unstable_by(order);
    values[values.len() / 2]
}

/// Of sorted values, the one that this share of all does not exceed.
fn percentile(sorted: &[Ns], share: f64) -> Ns {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn us(ns: Ns) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::tests::{recording, task};
    use crate::{By, Calls, Event, Left, What};

    #[test]
    fn percentiles_are_of_the_values() {
        let values: Vec<Ns> = (1..=200).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&values, share)), [100, 198, 200]);
        assert_eq!(percentile(&[], 0.99), 0);
    }

    #[test]
    fn counts_what_the_load_did() {
        let at = |at, what| Event { at, cpu: 0, what };
        let switch = |prev, left, next| What::Switch { prev, left, next, calls: Calls::default() };
        let mut it = recording(
            vec![task("a")],
            vec![
                at(100_000, What::Fork { child: 0, waits: false }),
                at(120_000, switch(None, Left::Preempted, Some(0))),
                at(320_000, switch(Some(0), Left::Blocked, None)),
                at(400_000, What::Wake { woken: 0, by: By::Interrupt }),
                at(410_000, switch(None, Left::Preempted, Some(0))),
                at(610_000, switch(Some(0), Left::Exited, None)),
            ],
        );
        it.header.command_task = Some(0);
        it.header.migrations = 3;
        let figures = it.figures();
        assert_eq!((figures.elapsed_s, figures.switches, figures.migrations), (0.000_51, 4, 3));
        // 400 of two times 1,000 µs.
        assert_eq!((figures.utilisation, figures.latency_p50_us, figures.latency_p99_us), (0.2, 10.0, 20.0));
    }
}
