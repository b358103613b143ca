//! Figures of times: medians, and their confidence intervals.
//!
//! Medians, because a run that something else disturbed is slower by any amount, and must not pull
//! the figure with it. Intervals by the percentile bootstrap: draw as many values as there are, with
//! replacement, take the figure of the draw, repeat; the middle 95 % of the figures are the interval.
//! It assumes nothing about how times are distributed. The draws come from a generator with a fixed
//! seed, so the same times always give the same interval.
use crate::digits;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, OrderStatistics};

/// How often the bootstrap draws.
const RESAMPLES: usize = 4_000;
/// The share of the draws' figures that the interval leaves out on each side.
const TAIL: f64 = 0.025;
/// Any fixed number will do: it makes the intervals repeatable.
const SEED: u64 = 0x0066_6c73_6368_6564;

/// A figure and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure of the values themselves.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// A figure that is known exactly.
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// With as many digits as reports have.
    pub fn rounded(self) -> Self {
        let [value, low, high] = [self.value, self.low, self.high].map(digits::ratio);
        Self { value, low, high }
    }
}

/// The value in the middle; of an even number, the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    median_of(&mut values)
}

/// Like [`median()`], in any order that suits.
fn median_of(values: &mut [f64]) -> Option<f64> {
    (!values.is_empty()).then(|| Data::new(values).median())
}

/// The median of the values.
pub fn median_estimate(values: &[f64]) -> Option<Estimate> {
    let values = sorted(values);
    let mut draw = Draw::new();
    estimate(median(&values)?, || draw.median(&values))
}

/// The median of `first` over the median of `this`: above 1, `this` takes less time.
pub fn ratio_of_medians(first: &[f64], this: &[f64]) -> Option<Estimate> {
    let ratio = |first: f64, this: f64| (this > 0.0 && first > 0.0).then(|| first / this);
    let (first, this) = (sorted(first), sorted(this));
    let mut draw = Draw::new();
    estimate(ratio(median(&first)?, median(&this)?)?, || ratio(draw.median(&first)?, draw.median(&this)?))
}

/// Sorted, so that the figures do not depend on the order of the runs.
fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The interval of the figures that `draw` returns, around `value`.
fn estimate(value: f64, mut draw: impl FnMut() -> Option<f64>) -> Option<Estimate> {
    let mut figures = (0..RESAMPLES).map(|_| draw()).collect::<Option<Vec<f64>>>()?;
    figures.sort_by(f64::total_cmp);
    let at = |share: f64| figures[(share * (RESAMPLES - 1) as f64).round() as usize];
    // With very few values the middle of the draws can miss the value: always include it.
    let (low, high) = (at(TAIL).min(value), at(1.0 - TAIL).max(value));
    Some(Estimate { value, low, high })
}

/// Draws with replacement.
struct Draw {
    random: ChaCha8Rng,
    values: Vec<f64>,
}

impl Draw {
    fn new() -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(SEED), values: Vec::new() }
    }

    fn median(&mut self, values: &[f64]) -> Option<f64> {
        self.values.clear();
        for _ in 0..values.len() {
            self.values.push(values[self.random.random_range(0..values.len())]);
        }
        median_of(&mut self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        let estimate = median_estimate(&[2.0; 5]).unwrap();
        assert_eq!(estimate, Estimate { value: 2.0, low: 2.0, high: 2.0 });
        let ratio = ratio_of_medians(&[3.0; 5], &[2.0; 5]).unwrap();
        assert_eq!(ratio, Estimate { value: 1.5, low: 1.5, high: 1.5 });
    }

    /// The bootstrap distribution of a median is known: of five values 1…5, a draw's median is 1 if
    /// at least three of five draws are 1, which has probability 0.058 > 0.025; so is 5.
    #[test]
    fn five_values_span_their_whole_range() {
        let estimate = median_estimate(&[5.0, 3.0, 1.0, 4.0, 2.0]).unwrap();
        assert_eq!(estimate, Estimate { value: 3.0, low: 1.0, high: 5.0 });
    }

    /// For 1…25 the exact 2.5 % and 97.5 % points of the bootstrap median are 8 and 18: the chance
    /// that at least 13 of 25 draws are ≤ 7 is 0.0072, that they are ≤ 8 is 0.0256.
    #[test]
    fn many_values_give_the_known_interval() {
        let values: Vec<f64> = (1..=25).map(f64::from).collect();
        let estimate = median_estimate(&values).unwrap();
        assert_eq!(estimate.value, 13.0);
        assert!((8.0..=9.0).contains(&estimate.low), "{estimate:?}");
        assert!((17.0..=18.0).contains(&estimate.high), "{estimate:?}");
    }

    #[test]
    fn intervals_are_repeatable_and_do_not_depend_on_order() {
        let estimate = |values: &[f64]| median_estimate(values).unwrap();
        let values = [1.0, 1.1, 0.9, 1.3, 1.2, 1.05, 0.97];
        let mut reversed = values;
        reversed.reverse();
        assert_eq!(estimate(&values), estimate(&reversed));
    }

    #[test]
    fn above_one_is_faster() {
        let ratio = ratio_of_medians(&[2.0, 2.1, 1.9], &[1.0, 1.05, 0.95]).unwrap();
        assert_eq!(ratio.value, 2.0);
        assert!(ratio.low > 1.7 && ratio.high < 2.3, "{ratio:?}");
    }

    #[test]
    fn no_ratio_without_times() {
        assert_eq!(ratio_of_medians(&[], &[1.0]), None);
        assert_eq!(ratio_of_medians(&[1.0], &[]), None);
        assert_eq!(ratio_of_medians(&[1.0], &[0.0]), None);
    }
}
