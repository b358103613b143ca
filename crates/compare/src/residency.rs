//! For how long CPUs ran at each frequency.
use crate::digits::seconds;
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

/// The times, by frequency: the lowest of the step, in MHz.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "InFile")]
pub struct Residency {
    /// How they are known, and so what they mean.
    pub source: Source,
    /// Of all CPUs together, in seconds.
    pub all_s: BTreeMap<u64, f64>,
    /// Of each CPU by its number; empty: not kept.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpus_s: BTreeMap<usize, BTreeMap<u64, f64>>,
}

/// The time of one CPU at the frequencies of one step.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Time {
    pub cpu: usize,
    /// The lowest frequency of the step.
    pub mhz: u64,
    /// The time in seconds.
    pub s: f64,
}

#[derive(Deserialize)]
struct InFile {
    source: Source,
    #[serde(default)]
    all_s: BTreeMap<u64, f64>,
    #[serde(default)]
    cpus_s: BTreeMap<usize, BTreeMap<u64, f64>>,
    /// Version 1 has these instead.
    #[serde(default)]
    times: Vec<Time>,
}

impl From<InFile> for Residency {
    fn from(InFile { source, all_s, cpus_s, times }: InFile) -> Self {
        Self::of(source, times).unwrap_or(Self { source, all_s, cpus_s })
    }
}

impl Residency {
    /// From these times, in any order and at any frequency; `None` if there are none.
    pub fn of(source: Source, times: impl IntoIterator<Item = Time>) -> Option<Self> {
        let mut cpus_s: BTreeMap<usize, BTreeMap<u64, f64>> = BTreeMap::new();
        for Time { cpu, mhz, s } in times.into_iter().filter(|time| time.s > 0.0) {
            *cpus_s.entry(cpu).or_default().entry(mhz / STEP * STEP).or_default() += s;
        }
        let mut all_s = BTreeMap::new();
        for (mhz, s) in cpus_s.values().flatten() {
            *all_s.entry(*mhz).or_default() += s;
        }
        (!all_s.is_empty()).then_some(Self { source, all_s, cpus_s })
    }

    /// Of several runs together; `None` if none of them has one.
    pub fn sum<'a>(runs: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let source = runs.clone().next()?.source;
        Self::of(source, runs.flat_map(Self::times))
    }

    fn times(&self) -> impl Iterator<Item = Time> {
        let of_cpu = |(cpu, steps): (&usize, &BTreeMap<u64, f64>)| {
            let cpu = *cpu;
            steps.iter().map(move |(mhz, s)| Time { cpu, mhz: *mhz, s: *s }).collect::<Vec<_>>()
        };
        self.cpus_s.iter().flat_map(of_cpu)
    }

    /// To the nanosecond.
    pub(crate) fn round(&mut self) {
        let times = self.all_s.values_mut().chain(self.cpus_s.values_mut().flat_map(BTreeMap::values_mut));
        times.for_each(|s| *s = seconds(*s));
    }

    /// Share of the time of all CPUs together by step.
    pub fn shares(&self) -> BTreeMap<u64, f64> {
        let all: f64 = self.all_s.values().sum();
        self.all_s.iter().map(|(mhz, s)| (*mhz, s / all)).collect()
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
        let cpus = r#"{"0":{"1200":2.0},"1":{"1200":1.5,"3000":0.5}}"#;
        let whole = format!(r#"{{"source":"sampled","all_s":{{"1200":3.5,"3000":0.5}},"cpus_s":{cpus}}}"#);
        assert_eq!(text, whole);
        assert_eq!(serde_json::from_str::<Residency>(&text).unwrap(), sum);
        let times =
            r#"[{"cpu":1,"mhz":3000,"s":0.5},{"cpu":0,"mhz":1200,"s":2.0},{"cpu":1,"mhz":1200,"s":1.5}]"#;
        let of_version_1 = format!(r#"{{"source":"sampled","times":{times}}}"#);
        assert_eq!(serde_json::from_str::<Residency>(&of_version_1).unwrap(), sum);
    }
}
