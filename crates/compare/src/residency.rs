//! For how long CPUs ran at each frequency.
use flsched_sim::core::STEP_MHZ;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Frequencies are given in the simulator's steps, also those of this machine's CPUs.
const STEP: u64 = STEP_MHZ as u64;

/// How the times are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// From the simulator: time in which CPUs were busy.
    Model,
    /// From the kernel's driver, which counts the frequencies that it set, idle time included.
    TimeInState,
    /// From samples of the kernel's state, idle time included.
    Sampled,
}

/// The times of all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Residency {
    /// How they are known, and so what they mean.
    pub source: Source,
    /// By CPU, then frequency.
    pub times: Vec<Time>,
}

/// The time of one CPU at the frequencies of one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// The CPU's number.
    pub cpu: usize,
    /// The lowest frequency of the step.
    pub mhz: u64,
    /// The time in seconds.
    pub s: f64,
}

impl Residency {
    /// From these times, in any order and at any frequency; `None` if there are none.
    pub fn of(source: Source, times: impl IntoIterator<Item = Time>) -> Option<Self> {
        let mut steps: BTreeMap<(usize, u64), f64> = BTreeMap::new();
        for Time { cpu, mhz, s } in times {
            *steps.entry((cpu, mhz / STEP * STEP)).or_default() += s;
        }
        let times: Vec<Time> =
            steps.into_iter().filter(|(_, s)| *s > 0.0).map(|((cpu, mhz), s)| Time { cpu, mhz, s }).collect();
        (!times.is_empty()).then_some(Self { source, times })
    }

    /// Of several runs together; `None` if none of them has one.
    pub fn sum<'a>(runs: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let source = runs.clone().next()?.source;
        Self::of(source, runs.flat_map(|run| run.times.iter().copied()))
    }

    /// Share of the time of all CPUs together by step.
    pub fn shares(&self) -> BTreeMap<u64, f64> {
        let all: f64 = self.times.iter().map(|time| time.s).sum();
        let mut shares = BTreeMap::new();
        for time in &self.times {
            *shares.entry(time.mhz).or_default() += time.s / all;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_by_step() {
        let run = |times: &[(usize, u64, f64)]| {
            let times = times.iter().map(|&(cpu, mhz, s)| Time { cpu, mhz, s });
            Residency::of(Source::Sampled, times)
        };
        let runs = [run(&[(1, 1250, 1.0), (0, 1299, 2.0), (1, 1200, 0.5)]), run(&[(1, 3000, 0.5)]), run(&[])];
        assert_eq!(runs[2], None);
        let sum = Residency::sum(runs.iter().flatten()).unwrap();
        assert_eq!(Some(&sum), run(&[(0, 1200, 2.0), (1, 1200, 1.5), (1, 3000, 0.5)]).as_ref());
        assert_eq!(sum.shares(), BTreeMap::from([(1200, 0.875), (3000, 0.125)]));
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<Residency>(&text).unwrap(), sum);
    }
}
