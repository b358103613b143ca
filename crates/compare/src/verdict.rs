//! Better, worse, or can't tell.
//!
//! The rule, for the ratio *time of the first scheduler / time of this one* (on the work clock: work),
//! worded for every clock:
//!
//! 1. Both have at least [`MIN_RUNS`] timed runs; fewer do not show how times vary.
//! 2. The whole interval of the ratio is on one side of 1.
//! 3. The ratio itself is further from 1 than the noise: than the far end of the interval of the A/A pair (the first
//!    scheduler against itself), and than [`MIN_EFFECT`]. Smaller effects have no practical importance, because
//!    another boot of the same machine differs as much.
//! 4. A scheduler that was ejected, or whose runs failed, is never *better*, as it is not known how long the missing
//!    runs would have taken. It can be *worse*. If runs of the first one failed, no other is *worse* than the rest.
//!
//! A scheduler that fails one of these is *can't tell*. The reason is kept with the verdict.
use crate::digits;
use crate::stats::Estimate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Timed runs below which there is no verdict.
pub const MIN_RUNS: usize = 3;
/// The least ratio that counts as a difference.
pub const MIN_EFFECT: f64 = 1.01;

/// The result of comparing a scheduler with the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It takes less time.
    #[serde(rename = "better")]
    Better,
    /// It takes more time.
    #[serde(rename = "worse")]
    Worse,
    /// The runs do not show a difference.
    #[serde(rename = "can't tell")]
    CantTell,
    /// It is the first one, or the first one's second appearance.
    #[serde(rename = "baseline")]
    Baseline,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::CantTell => "can't tell",
            Self::Baseline => "baseline",
        })
    }
}

/// How much times vary between identical runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The A/A pair's ratio: 1, apart from noise.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// A ratio between 1/threshold and threshold counts as noise.
    pub threshold: f64,
}

impl Noise {
    /// From the A/A pair's ratio.
    pub fn new(pair: Estimate) -> Self {
        let threshold = digits::ratio(pair.high.max(1.0 / pair.low).max(MIN_EFFECT));
        Self { ratio: pair.value, low: pair.low, high: pair.high, threshold }
    }

    pub(crate) fn round(&mut self) {
        let Self { ratio, low, high, threshold } = self;
        [ratio, low, high, threshold].into_iter().for_each(|it| *it = digits::ratio(*it));
    }
}

/// The basis of a verdict.
#[derive(Debug, Clone, Copy)]
pub struct Evidence {
    /// Time of the first over time of this, if both have times.
    pub ratio: Option<Estimate>,
    /// Of the workload; `None`: the A/A pair has no times.
    pub noise: Option<Noise>,
    /// The smaller number of timed runs of the two.
    pub timed_runs: usize,
    /// Runs of this scheduler without a time: ejected, failed, hung.
    pub untimed_runs: usize,
    /// The same of the first.
    pub untimed_first: usize,
}

/// Applies the rule; the text is the reason.
pub fn decide(evidence: &Evidence) -> (Verdict, String) {
    let cant_tell = |reason: String| (Verdict::CantTell, reason);
    let Some(ratio) = evidence.ratio else {
        return cant_tell("nothing to compare: one of the two has no measured run".into());
    };
    if evidence.timed_runs < MIN_RUNS {
        return cant_tell(format!(
            "{} measured run(s); a verdict takes at least {MIN_RUNS}",
            evidence.timed_runs
        ));
    }
    let Some(noise) = evidence.noise else {
        return cant_tell("the noise is not known: the A/A pair has no measured runs".into());
    };
    let verdict = match (ratio.low > 1.0, ratio.high < 1.0) {
        (true, _) => Verdict::Better,
        (_, true) => Verdict::Worse,
        _ => {
            return cant_tell(format!(
                "the interval {:.3}–{:.3} holds 1: no difference shown",
                ratio.low, ratio.high
            ));
        }
    };
    if ratio.value.max(1.0 / ratio.value) <= noise.threshold {
        return cant_tell(format!(
            "the ratio {:.3} is within the noise 1/{n:.3}–{n:.3}",
            ratio.value,
            n = noise.threshold
        ));
    }
    if verdict == Verdict::Better && evidence.untimed_runs > 0 {
        return cant_tell(format!(
            "{} run(s) without a figure: better in the others does not count",
            evidence.untimed_runs
        ));
    }
    if verdict == Verdict::Worse && evidence.untimed_first > 0 {
        return cant_tell(format!(
            "{} run(s) of the first one without a figure: worse than the others does not count",
            evidence.untimed_first
        ));
    }
    let reason = format!(
        "the interval {:.3}–{:.3} lies on one side of 1, the ratio {:.3} beyond the noise 1/{n:.3}–{n:.3}",
        ratio.low,
        ratio.high,
        ratio.value,
        n = noise.threshold
    );
    (verdict, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    fn evidence(ratio: Estimate) -> Evidence {
        let noise = Noise::new(estimate(1.0, 0.97, 1.02));
        Evidence { ratio: Some(ratio), noise: Some(noise), timed_runs: 5, untimed_runs: 0, untimed_first: 0 }
    }

    fn verdict(evidence: &Evidence) -> Verdict {
        decide(evidence).0
    }

    #[test]
    fn clear_differences() {
        assert_eq!(verdict(&evidence(estimate(1.43, 1.40, 1.46))), Verdict::Better);
        assert_eq!(verdict(&evidence(estimate(0.70, 0.68, 0.71))), Verdict::Worse);
    }

    #[test]
    fn an_interval_with_one_in_it() {
        assert_eq!(verdict(&evidence(estimate(1.2, 0.99, 1.5))), Verdict::CantTell);
    }

    #[test]
    fn noise_counts_on_both_sides() {
        let noise = Noise::new(estimate(1.0, 0.97, 1.02));
        assert!((noise.threshold - 1.0 / 0.97).abs() < 1e-8, "nine digits");
        assert_eq!(verdict(&evidence(estimate(1.03, 1.02, 1.04))), Verdict::CantTell);
        assert_eq!(verdict(&evidence(estimate(0.975, 0.97, 0.98))), Verdict::CantTell);
        assert_eq!(verdict(&evidence(estimate(1.04, 1.02, 1.05))), Verdict::Better);
    }

    #[test]
    fn a_small_effect_is_none_even_without_noise() {
        let noise = Some(Noise::new(estimate(1.0, 1.0, 1.0)));
        let evidence = Evidence { noise, ..evidence(estimate(1.005, 1.004, 1.006)) };
        assert_eq!(verdict(&evidence), Verdict::CantTell);
    }

    #[test]
    fn too_little_evidence() {
        let clear = evidence(estimate(2.0, 1.9, 2.1));
        assert_eq!(verdict(&Evidence { timed_runs: 2, ..clear }), Verdict::CantTell);
        assert_eq!(verdict(&Evidence { noise: None, ..clear }), Verdict::CantTell);
        assert_eq!(verdict(&Evidence { ratio: None, ..clear }), Verdict::CantTell);
    }

    /// On the work clock no figure is a time, and no scheduler is faster.
    #[test]
    fn reasons_hold_on_every_clock() {
        let clear = evidence(estimate(2.0, 1.9, 2.1));
        for evidence in [
            clear,
            evidence(estimate(0.5, 0.4, 0.6)),
            evidence(estimate(1.2, 0.99, 1.5)),
            evidence(estimate(1.03, 1.02, 1.04)),
            Evidence { timed_runs: 2, ..clear },
            Evidence { noise: None, ..clear },
            Evidence { ratio: None, ..clear },
            Evidence { untimed_runs: 1, ..clear },
            Evidence { untimed_first: 1, ..evidence(estimate(0.5, 0.4, 0.6)) },
        ] {
            let (_, reason) = decide(&evidence);
            for word in ["time", "faster", "slower"] {
                assert!(!reason.contains(word), "{reason}");
            }
        }
    }

    #[test]
    fn an_ejected_scheduler_is_never_better_but_can_be_worse() {
        let better = evidence(estimate(2.0, 1.9, 2.1));
        assert_eq!(verdict(&Evidence { untimed_runs: 1, ..better }), Verdict::CantTell);
        let worse = evidence(estimate(0.5, 0.4, 0.6));
        assert_eq!(verdict(&Evidence { untimed_runs: 1, ..worse }), Verdict::Worse);
    }

    /// Its slow runs may be those that are missing.
    #[test]
    fn nobody_is_worse_than_what_the_first_one_has_left() {
        let worse = evidence(estimate(0.5, 0.4, 0.6));
        assert_eq!(verdict(&Evidence { untimed_first: 1, ..worse }), Verdict::CantTell);
        let better = evidence(estimate(2.0, 1.9, 2.1));
        assert_eq!(verdict(&Evidence { untimed_first: 1, ..better }), Verdict::Better);
    }
}
