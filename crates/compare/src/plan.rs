//! The order of the runs: warm-ups first, then rounds, each in its own random order.
//!
//! A round runs every workload under every scheduler once. So every influence that changes during a
//! comparison (temperature, other programs, memory layout) affects all schedulers alike, and after
//! any number of rounds all have the same number of runs.
use crate::execute::Probe;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// A place in the comparison: one of the schedulers, or the first one a second time.
///
/// The second time is the A/A pair: both are the same, so the difference between their times is
/// noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arm {
    /// Index into the comparison's schedulers.
    pub scheduler: usize,
    /// Whether this is the first scheduler's second appearance.
    pub again: bool,
}

/// One run of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Index into the comparison's workloads.
    pub workload: usize,
    /// Index into [`arms`].
    pub arm: usize,
    /// It is a warm-up: its time does not count.
    pub warm_up: bool,
    /// What watches it, so that its time does not count.
    pub probe: Option<Probe>,
}

/// The schedulers in the order of the request, with the second appearance of the first one after
/// the first.
pub fn arms(schedulers: usize) -> Vec<Arm> {
    let again = Arm { scheduler: 0, again: true };
    let mut arms: Vec<_> = (0..schedulers).map(|scheduler| Arm { scheduler, again: false }).collect();
    arms.insert(1.min(schedulers), again);
    arms
}

/// All runs in order; the same seed gives the same order.
pub fn plan(workloads: usize, schedulers: usize, runs: u32, seed: u64) -> Vec<Step> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let arms = arms(schedulers);
    let each = |warm_up: bool| -> Vec<Step> {
        (0..workloads)
            .flat_map(|workload| (0..arms.len()).map(move |arm| Step { workload, arm, warm_up, probe: None }))
            .collect()
    };
    // The first one's warm-up warms up both of the A/A pair.
    let mut steps = each(true);
    steps.retain(|step| !arms[step.arm].again);
    steps.shuffle(&mut random);
    for _ in 0..runs {
        let mut round = each(false);
        round.shuffle(&mut random);
        steps.append(&mut round);
    }
    steps
}

/// One more run of each workload under each scheduler, which this probe watches. These runs come last, as the probe may
/// leave traces.
pub fn watched(probe: Probe, workloads: usize, schedulers: usize) -> impl Iterator<Item = Step> {
    let arms = arms(schedulers).into_iter().enumerate().filter(|(_, arm)| !arm.again);
    let arms: Vec<usize> = arms.map(|(index, _)| index).collect();
    let steps = move |workload| {
        arms.clone().into_iter().map(move |arm| Step { workload, arm, warm_up: false, probe: Some(probe) })
    };
    (0..workloads).flat_map(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn same_seed_same_order() {
        assert_eq!(plan(2, 5, 5, 7), plan(2, 5, 5, 7));
        assert_ne!(plan(2, 5, 5, 7), plan(2, 5, 5, 8));
    }

    #[test]
    fn the_first_scheduler_appears_twice() {
        let arms = arms(3);
        let shape: Vec<_> = arms.iter().map(|arm| (arm.scheduler, arm.again)).collect();
        assert_eq!(shape, [(0, false), (0, true), (1, false), (2, false)]);
        assert_eq!(super::arms(1).len(), 2);
    }

    #[test]
    fn one_warm_up_per_scheduler_and_workload_before_everything() {
        let steps = plan(2, 3, 4, 1);
        let (warm, timed) = steps.split_at(6);
        assert!(warm.iter().all(|step| step.warm_up) && timed.iter().all(|step| !step.warm_up));
        let distinct: BTreeSet<_> = warm.iter().map(|step| (step.workload, step.arm)).collect();
        assert_eq!(distinct.len(), 6);
    }

    #[test]
    fn one_watched_run_per_scheduler_and_workload() {
        let steps: Vec<_> = watched(Probe::Why, 2, 2).map(|step| (step.workload, step.arm)).collect();
        assert_eq!(steps, [(0, 0), (0, 2), (1, 0), (1, 2)]);
        assert!(watched(Probe::Timeline, 2, 2).all(|step| step.probe == Some(Probe::Timeline)));
        assert!(plan(2, 2, 3, 1).iter().all(|step| step.probe.is_none()));
    }

    #[test]
    fn every_round_holds_everything_once_in_an_order_of_its_own() {
        let (workloads, schedulers, runs) = (2, 4, 6);
        let steps = plan(workloads, schedulers, runs, 3);
        let per_round = workloads * (schedulers + 1);
        let timed = &steps[workloads * schedulers..];
        assert_eq!(timed.len(), per_round * runs as usize);
        let rounds: Vec<Vec<_>> = timed
            .chunks(per_round)
            .map(|round| round.iter().map(|step| (step.workload, step.arm)).collect())
            .collect();
        for round in &rounds {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), per_round);
        }
        assert_eq!(rounds.iter().collect::<BTreeSet<_>>().len(), rounds.len());
    }
}
