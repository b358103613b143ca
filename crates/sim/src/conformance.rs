//! The simulator beside a kernel: what a scenario came to in both, and how far apart that is.
use flsched_base::reports::Kept;
use serde::{Deserialize, Serialize};

/// Figures that differ by less than this share agree.
pub const TOLERANCE: f64 = 0.10;
/// By how much an entry's deviation may exceed the recorded one: runs on a kernel differ.
const SLACK: f64 = 0.05;
/// Differences of so many switches or migrations are none.
const FEW: f64 = 10.0;
/// Nor are those of so many microseconds: a round of the parallel clock.
const ROUND_US: f64 = 1.0;

/// From this number of runs on, outliers are left out.
const MANY: usize = 8;

/// With fewer wake-ups the median of their latency is an accident, and so is the 99th percentile.
const ENOUGH: [usize; 2] = [100, 500];

/// The median and the 99th percentile of the wake-up latency where there are enough wake-ups for them; else 0.
pub fn latencies(wake_ups: usize, p50_us: f64, p99_us: f64) -> (f64, f64) {
    let known = |latency_us, enough| if wake_ups >= enough { latency_us } else { 0.0 };
    (known(p50_us, ENOUGH[0]), known(p99_us, ENOUGH[1]))
}

/// What a run came to, or the medians of several.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// From the first step to the end.
    pub time_us: f64,
    /// How often the tasks left a CPU.
    pub switches: f64,
    /// How often they went to another one.
    pub migrations: f64,
    /// From a wake-up to running, the median; 0 if there are too few wake-ups.
    pub wakeup_p50_us: f64,
    /// The 99th percentile of it, or 0 likewise.
    pub wakeup_p99_us: f64,
}

impl Figures {
    /// The name of each, in the order of [`Figures::all`].
    pub const NAMES: [&str; 5] = ["time", "switches", "migrations", "p50", "p99"];

    pub fn all(&self) -> [f64; 5] {
        [self.time_us, self.switches, self.migrations, self.wakeup_p50_us, self.wakeup_p99_us]
    }

    /// How far others are from these, each as a share of the figure here; 0 for differences that are too small to count.
    fn apart(&self, others: &Self) -> [f64; 5] {
        self.distances(others).map(|[difference, least, whole]| match difference {
            _ if difference <= least => 0.0,
            _ => difference / whole,
        })
    }

    /// The same, but only what is beyond those small differences: nothing leaps when a difference is no longer small.
    fn apart_beyond(&self, others: &Self) -> [f64; 5] {
        self.distances(others).map(|[difference, least, whole]| (difference - least).max(0.0) / whole)
    }

    /// Of each figure its difference, the difference that is too small to count, and of what the difference is a share.
    fn distances(&self, others: &Self) -> [[f64; 3]; 5] {
        const LEAST: [f64; 5] = [ROUND_US, FEW, FEW, ROUND_US, ROUND_US];
        let (these, others) = (self.all(), others.all());
        std::array::from_fn(|index| {
            let (here, there, least) = (these[index], others[index], LEAST[index]);
            // With too few wake-ups on one side there is nothing to compare.
            let is_unknown = index >= 3 && here.min(there) == 0.0;
            [if is_unknown { 0.0 } else { (here - there).abs() }, least, here.max(least)]
        })
    }

    /// Of each, what is nearest to another one's in the range of several runs.
    pub fn nearest(runs: &[Self], to: &Self) -> Self {
        Self::each(|of| {
            let [least, most] = range(runs, of);
            of(to).max(least).min(most)
        })
    }

    /// Of each, the least and the most that may be expected of a run after these few: their range with as much again on
    /// both sides. If runs hardly differ, nor will the next one.
    pub fn expected(runs: &[Self]) -> [Self; 2] {
        let beyond = |of: fn(&Self) -> f64| {
            let [least, most] = range(runs, of);
            [(2.0 * least - most).max(0.0), 2.0 * most - least]
        };
        [Self::each(|of| beyond(of)[0]), Self::each(|of| beyond(of)[1])]
    }

    /// The median of each.
    pub fn median(runs: &[Self]) -> Self {
        Self::each(|of| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        })
    }

    fn each(value: impl Fn(fn(&Self) -> f64) -> f64) -> Self {
        Self {
            time_us: value(|it| it.time_us),
            switches: value(|it| it.switches),
            migrations: value(|it| it.migrations),
            wakeup_p50_us: value(|it| it.wakeup_p50_us),
            wakeup_p99_us: value(|it| it.wakeup_p99_us),
        }
    }
}

fn agree(deviations: [f64; 5]) -> bool {
    deviations.iter().all(|deviation| *deviation <= TOLERANCE)
}

/// Between which values a figure lies: of many runs, those of their middle half.
fn range(runs: &[Figures], of: fn(&Figures) -> f64) -> [f64; 2] {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    let left_out = if values.len() < MANY { 0 } else { values.len() / 4 };
    [values[left_out], values[values.len() - 1 - left_out]]
}

/// A scenario under a scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub scenario: String,
    /// The number of CPUs.
    pub cpus: usize,
    pub scheduler: String,
    /// Runs on the kernel.
    pub plays: usize,
    /// Runs in the simulator, each with a seed of its own.
    pub seeds: u64,
    pub kernel: Figures,
    /// There once more, in a machine booted anew: how far a measurement is from the next one of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Figures>,
    pub simulator: Figures,
}

impl Entry {
    /// How far the simulator is from the kernel in each figure.
    pub fn deviations(&self) -> [f64; 5] {
        self.kernel.apart(&self.simulator)
    }

    /// How far the kernel is from itself in each figure, if it was measured twice.
    pub fn noise(&self) -> Option<[f64; 5]> {
        self.again.as_ref().map(|again| self.kernel.apart(again))
    }

    pub fn agrees(&self) -> bool {
        agree(self.deviations())
    }

    /// All figures of both measurements on the kernel agree.
    pub fn repeats(&self) -> bool {
        self.noise().is_some_and(agree)
    }

    /// The figures that no longer agree, or are further apart than in `before`. Of its two measurements on the kernel the one
    /// that is further from the simulator counts, because a new measurement may be like either.
    pub fn worse_than(&self, before: Option<&Self>) -> Vec<&'static str> {
        let farthest = |entry: &Self| {
            let measured = [Some(entry.kernel), entry.again].into_iter().flatten();
            let apart = measured.map(|kernel| kernel.apart_beyond(&entry.simulator));
            apart.fold([0.0; 5], |most, apart| std::array::from_fn(|index| apart[index].max(most[index])))
        };
        let before = before.map_or([0.0; 5], farthest);
        let now = self.kernel.apart_beyond(&self.simulator);
        let is_worse = |index: &usize| now[*index] > TOLERANCE.max(before[*index] + SLACK);
        (0..now.len()).filter(is_worse).map(|index| Figures::NAMES[index]).collect()
    }
}

/// All entries of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub kernel: String,
    /// The clock of the emulated machine.
    pub clock: String,
    /// By scenario, then by scheduler.
    pub entries: Vec<Entry>,
}

impl Kept for Record {
    const KIND: &'static str = "conformance";
    const VERSION: u32 = 2;
}

impl Record {
    /// The entry of a scenario under a scheduler.
    pub fn find(&self, scenario: &str, scheduler: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.scenario == scenario && entry.scheduler == scheduler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kernel: [f64; 5], simulator: [f64; 5]) -> Entry {
        let figures = |[time_us, switches, migrations, wakeup_p50_us, wakeup_p99_us]: [f64; 5]| Figures {
            time_us,
            switches,
            migrations,
            wakeup_p50_us,
            wakeup_p99_us,
        };
        Entry {
            scenario: "chain".into(),
            cpus: 1,
            scheduler: "eevdf".into(),
            plays: 3,
            seeds: 5,
            kernel: figures(kernel),
            again: None,
            simulator: figures(simulator),
        }
    }

    #[test]
    fn a_tenth_or_a_few_is_the_same() {
        let same = entry([1000.0, 500.0, 0.0, 6.0, 100.0], [1090.0, 455.0, 9.0, 6.9, 91.0]);
        assert!(same.agrees(), "{:?}", same.deviations());
        let other = entry([1000.0, 500.0, 0.0, 6.0, 100.0], [1110.0, 500.0, 30.0, 6.0, 100.0]);
        assert!(!other.agrees());
        let other = entry([1000.0, 500.0, 0.0, 6.0, 100.0], [1120.0, 500.0, 30.0, 6.0, 100.0]);
        assert_eq!(other.worse_than(None), ["time", "migrations"]);
    }

    #[test]
    fn a_difference_that_is_barely_large_enough_to_count_is_no_leap() {
        let apart = |p50| entry([1000.0, 100.0, 0.0, 6.1, 100.0], [1000.0, 100.0, 0.0, p50, 100.0]);
        assert!(!apart(5.0).agrees());
        assert!(apart(5.0).worse_than(Some(&apart(5.2))).is_empty());
        assert_eq!(apart(4.0).worse_than(Some(&apart(5.2))), ["p50"]);
    }

    #[test]
    fn a_measurement_that_does_not_repeat_is_known() {
        let mut one = entry([1000.0, 500.0, 0.0, 6.0, 100.0], [0.0; 5]);
        assert_eq!((one.noise(), one.repeats()), (None, false));
        one.again = Some(Figures { switches: 700.0, ..one.kernel });
        assert_eq!((one.noise(), one.repeats()), (Some([0.0, 0.4, 0.0, 0.0, 0.0]), false));
        one.again = Some(one.kernel);
        assert!(one.repeats());
    }

    #[test]
    fn a_measurement_like_either_of_the_two_in_the_record_is_no_worse() {
        let switches =
            |switches| entry([1000.0, switches, 0.0, 6.0, 100.0], [1000.0, 500.0, 0.0, 6.0, 100.0]);
        let mut before = switches(600.0);
        assert_eq!(switches(750.0).worse_than(Some(&before)), ["switches"]);
        before.again = Some(switches(740.0).kernel);
        assert!(switches(750.0).worse_than(Some(&before)).is_empty());
        assert_eq!(switches(900.0).worse_than(Some(&before)), ["switches"]);
    }

    #[test]
    fn what_is_within_the_range_of_runs_is_the_same() {
        let run = |switches| entry([1000.0, switches, 0.0, 6.0, 100.0], [0.0; 5]).kernel;
        let runs = [run(600.0), run(350.0), run(740.0)];
        let nearest = |switches| Figures::nearest(&runs, &run(switches)).switches;
        assert_eq!([nearest(440.0), nearest(100.0), nearest(900.0)], [440.0, 350.0, 740.0]);
        let many: Vec<Figures> = (1..=15).map(|index| run(f64::from(index) * 100.0)).collect();
        let nearest = |switches| Figures::nearest(&many, &run(switches)).switches;
        assert_eq!([nearest(100.0), nearest(800.0), nearest(1500.0)], [400.0, 800.0, 1200.0]);
    }

    #[test]
    fn runs_that_differ_may_differ_more() {
        let run = |switches| entry([1000.0, switches, 0.0, 6.0, 100.0], [0.0; 5]).kernel;
        let [least, most] = Figures::expected(&[run(6186.0), run(8359.0), run(6472.0)]);
        assert_eq!([least.switches, most.switches], [4013.0, 10532.0]);
        assert_eq!([least.time_us, most.time_us], [1000.0; 2]);
        let [least, _] = Figures::expected(&[run(10.0), run(30.0)]);
        assert_eq!(least.switches, 0.0);
    }

    #[test]
    fn what_was_recorded_may_not_become_worse() {
        let apart = |switches| entry([1000.0, 100.0, 0.0, 6.0, 100.0], [1000.0, switches, 0.0, 6.0, 100.0]);
        assert!(apart(150.0).worse_than(Some(&apart(150.0))).is_empty());
        assert_eq!(apart(160.0).worse_than(Some(&apart(150.0))), ["switches"]);
        assert_eq!(apart(150.0).worse_than(None), ["switches"]);
    }
}
