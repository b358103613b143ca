//! Recordings beside their replays: what a load came to in both, and how far apart that is.
use crate::Figures;
use crate::figures::middle;
use flsched_base::reports::Kept;
use serde::{Deserialize, Serialize};

/// Figures that differ by less than this share agree.
pub const TOLERANCE: f64 = 0.15;
/// By how much an entry's deviation may exceed the recorded one: recordings differ.
const SLACK: f64 = 0.1;

/// All entries of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replays {
    pub kernel: String,
    /// The clock of the emulated machine.
    pub clock: String,
    /// Its number of CPUs.
    pub cpus: u32,
    /// Recordings of each load under each scheduler.
    pub recordings: u32,
    /// Replays of each recording, each with a seed of its own.
    pub seeds: u32,
    /// By load; of each, the scheduler under which it was recorded first.
    pub entries: Vec<Entry>,
}

impl Kept for Replays {
    const KIND: &'static str = "recordings";
    const VERSION: u32 = 2;
}

/// A load under a scheduler. The recordings under EEVDF are replayed, so the replay under another scheduler is a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub load: String,
    pub command: String,
    pub scheduler: String,
    /// Medians of the recordings.
    pub recorded: Figures,
    /// Medians of the replays.
    pub simulated: Figures,
    /// How replays compare with their own recordings, under the scheduler that was recorded. Two recordings of the same load
    /// can differ by a half, and so do their replays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios: Option<Ratios>,
}

/// Simulated over recorded, of what a replay has to match.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratios {
    pub switches: f64,
    /// Utilisation of the CPUs.
    pub utilisation: f64,
    /// 99th percentile of the wake-up latency.
    pub p99: f64,
}

impl Ratios {
    fn of(recorded: &Figures, simulated: &Figures) -> Self {
        Self {
            switches: simulated.switches as f64 / recorded.switches as f64,
            utilisation: simulated.utilisation / recorded.utilisation,
            p99: simulated.latency_p99_us / recorded.latency_p99_us,
        }
    }

    /// The medians over all replays of each one's ratio to its own recording; there is at least one.
    pub fn median(recorded: &[Figures], simulated: &[Figures]) -> Self {
        let all: Vec<Self> =
            recorded.iter().zip(simulated).map(|(there, here)| Self::of(there, here)).collect();
        Self {
            switches: middle(&all, |it| it.switches, f64::total_cmp),
            utilisation: middle(&all, |it| it.utilisation, f64::total_cmp),
            p99: middle(&all, |it| it.p99, f64::total_cmp),
        }
    }

    pub fn named(self) -> [(&'static str, f64); 3] {
        [("switches", self.switches), ("utilisation", self.utilisation), ("p99", self.p99)]
    }
}

impl Entry {
    /// How replays compare with their own recordings, or else the medians of both.
    pub fn ratios(&self) -> Ratios {
        self.ratios.unwrap_or_else(|| Ratios::of(&self.recorded, &self.simulated))
    }

    /// The same with what is nearest to each other in the ranges of all recordings and all replays.
    pub fn nearest(&self, recorded: &[Figures], simulated: &[Figures]) -> Self {
        let mut entry = Self { ratios: None, ..self.clone() };
        let (there, here) = (&mut entry.recorded, &mut entry.simulated);
        there.switches = within(here.switches, recorded, |it| it.switches);
        here.switches = within(there.switches, simulated, |it| it.switches);
        there.utilisation = within(here.utilisation, recorded, |it| it.utilisation);
        here.utilisation = within(there.utilisation, simulated, |it| it.utilisation);
        there.latency_p99_us = within(here.latency_p99_us, recorded, |it| it.latency_p99_us);
        here.latency_p99_us = within(there.latency_p99_us, simulated, |it| it.latency_p99_us);
        entry
    }

    /// Those that agree no longer, or are further apart than when `before` was recorded.
    pub fn worse_than(&self, before: Option<&Self>) -> Vec<&'static str> {
        // A figure that is missing on one side is as far off as can be.
        let deviation = |ratio: f64| match ratio > 0.0 {
            true => ratio.max(1.0 / ratio) - 1.0,
            false => f64::INFINITY,
        };
        let before =
            before.map_or([0.0; 3], |before| before.ratios().named().map(|(_, ratio)| deviation(ratio)));
        let now = self.ratios().named().into_iter().zip(before);
        let is_worse = |ratio: f64, before: f64| deviation(ratio) > TOLERANCE.max(before + SLACK);
        now.filter(|((_, ratio), before)| is_worse(*ratio, *before)).map(|((name, _), _)| name).collect()
    }
}

/// The value in the range of this figure that is nearest to a given one.
fn within<T: Copy + PartialOrd>(value: T, all: &[Figures], of: fn(&Figures) -> T) -> T {
    let values = || all.iter().map(of);
    let least = values().reduce(|a, b| if b < a { b } else { a });
    let most = values().reduce(|a, b| if b > a { b } else { a });
    match (least, most) {
        (Some(least), _) if value < least => least,
        (_, Some(most)) if value > most => most,
        _ => value,
    }
}

impl Replays {
    /// The entry of a load under a scheduler.
    pub fn find(&self, load: &str, scheduler: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.load == load && entry.scheduler == scheduler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(switches: u64, latency_p99_us: f64) -> Entry {
        let figures = |switches, latency_p99_us| Figures {
            elapsed_s: 1.0,
            switches,
            migrations: 0,
            utilisation: 0.5,
            latency_p50_us: 1.0,
            latency_p99_us,
        };
        let (load, command, scheduler) = ("a".into(), "a".into(), "eevdf".into());
        let (recorded, simulated) = (figures(100, 100.0), figures(switches, latency_p99_us));
        Entry { load, command, scheduler, recorded, simulated, ratios: None }
    }

    #[test]
    fn a_replay_is_held_against_its_own_recording() {
        let of = |switches, p99| entry(switches, p99).simulated;
        // Each replay has as many switches as its recording, and half of its p99.
        let recorded = [of(80, 100.0), of(150, 110.0), of(300, 40.0)];
        let simulated = [of(80, 50.0), of(150, 55.0), of(290, 20.0)];
        let ratios = Ratios::median(&recorded, &simulated);
        assert_eq!(ratios, Ratios { switches: 1.0, utilisation: 1.0, p99: 0.5 });
        let whole = Entry { ratios: Some(ratios), ..entry(170, 140.0) };
        assert_eq!(whole.ratios(), ratios);
        assert_eq!(whole.worse_than(None), ["p99"]);
        assert_eq!(whole.nearest(&recorded, &simulated).ratios, None);
    }

    #[test]
    fn ranges_that_overlap_agree() {
        let of = |switches, p99| entry(switches, p99).simulated;
        let (recorded, simulated) = ([of(80, 100.0), of(150, 110.0)], [of(140, 130.0), of(190, 150.0)]);
        let nearest = entry(170, 140.0).nearest(&recorded, &simulated);
        assert_eq!((nearest.recorded.switches, nearest.simulated.switches), (150, 150));
        assert_eq!((nearest.recorded.latency_p99_us, nearest.simulated.latency_p99_us), (110.0, 130.0));
        assert_eq!(nearest.worse_than(None), ["p99"]);
    }

    #[test]
    fn an_entry_may_differ_as_much_as_it_did() {
        assert!(entry(114, 88.0).worse_than(None).is_empty());
        assert_eq!(entry(116, 86.0).worse_than(None), ["switches", "p99"]);
        assert!(entry(139, 100.0).worse_than(Some(&entry(130, 100.0))).is_empty());
        assert_eq!(entry(141, 100.0).worse_than(Some(&entry(130, 100.0))), ["switches"]);
        assert_eq!(entry(100, f64::NAN).worse_than(None), ["p99"]);
    }
}
