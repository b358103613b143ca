//! The mean frequency of each CPU while it was busy: APERF over MPERF, as the kernel itself measures it. perf reads
//! these registers, which cost nothing while they count.
use crate::environment::online_cpus;
use perf_event::events::x86::{Msr, MsrId};
use perf_event::{Builder, Counter};
use std::time::Instant;

/// One CPU's counters since they were opened.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// APERF: cycles while not idle.
    aperf: u64,
    /// MPERF: cycles at the base frequency while not idle.
    mperf: u64,
    /// TSC: cycles at the base frequency, idle or not.
    tsc: u64,
}

pub(super) struct Frequencies {
    cpus: Vec<(usize, [Counter; 3])>,
}

/// All CPUs' counts at a moment.
pub(super) struct Reading {
    at: Instant,
    counts: Vec<Counts>,
}

impl Frequencies {
    /// Starts to count. If there are no such counters, or access is not permitted, there are no counts.
    pub(super) fn open() -> Self {
        let open = |cpu: usize, id: MsrId| -> std::io::Result<Counter> {
            let mut builder = Builder::new(Msr::new(id)?);
            let mut counter = builder.any_pid().one_cpu(cpu).include_kernel().include_hv().build()?;
            counter.enable()?;
            Ok(counter)
        };
        let open_cpu = |cpu: usize| {
            Ok((cpu, [open(cpu, MsrId::APERF)?, open(cpu, MsrId::MPERF)?, open(cpu, MsrId::TSC)?]))
        };
        let cpus: std::io::Result<Vec<_>> = online_cpus().into_iter().map(open_cpu).collect();
        Self { cpus: cpus.unwrap_or_default() }
    }

    pub(super) fn now(&mut self) -> Option<Reading> {
        let read = |counters: &mut [Counter; 3]| {
            let [aperf, mperf, tsc] = counters;
            Some(Counts { aperf: aperf.read().ok()?, mperf: mperf.read().ok()?, tsc: tsc.read().ok()? })
        };
        let counts: Option<Vec<_>> = self.cpus.iter_mut().map(|(_, counters)| read(counters)).collect();
        Some(Reading { at: Instant::now(), counts: counts.filter(|counts| !counts.is_empty())? })
    }

    /// Mean frequencies since `before`, by name: `busy_mhz` of all CPUs together, and `cpu3_mhz` of each CPU that was
    /// busy for long enough.
    pub(super) fn since(&mut self, before: Option<Reading>) -> Vec<(String, f64)> {
        let (Some(before), Some(now)) = (before, self.now()) else { return Vec::new() };
        let elapsed_us = (now.at - before.at).as_secs_f64() * 1e6;
        let numbers = self.cpus.iter().map(|(cpu, _)| *cpu);
        let grown = before.counts.iter().zip(&now.counts).map(|(then, now)| Counts {
            aperf: now.aperf.wrapping_sub(then.aperf),
            mperf: now.mperf.wrapping_sub(then.mperf),
            tsc: now.tsc.wrapping_sub(then.tsc),
        });
        figures(&numbers.zip(grown).collect::<Vec<_>>(), elapsed_us)
    }
}

/// A CPU must have been busy for this share of the time, or its frequency is not reported.
const BUSY: f64 = 0.001;

fn figures(cpus: &[(usize, Counts)], elapsed_us: f64) -> Vec<(String, f64)> {
    let mhz = |counts: &Counts| {
        let busy = counts.mperf as f64 / counts.tsc.max(1) as f64;
        let base_mhz = counts.tsc as f64 / elapsed_us;
        (busy >= BUSY).then(|| base_mhz * counts.aperf as f64 / counts.mperf as f64)
    };
    let sum = |of: fn(&Counts) -> u64| cpus.iter().map(|(_, counts)| of(counts)).sum::<u64>();
    let all = Counts {
        aperf: sum(|counts| counts.aperf),
        mperf: sum(|counts| counts.mperf),
        tsc: sum(|counts| counts.tsc),
    };
    let base_mhz = all.tsc as f64 / elapsed_us / cpus.len().max(1) as f64;
    let together = (all.mperf > 0).then(|| base_mhz * all.aperf as f64 / all.mperf as f64);
    let each = cpus.iter().filter_map(|(cpu, counts)| Some((format!("cpu{cpu}_mhz"), mhz(counts)?)));
    together.map(|mhz| ("busy_mhz".to_owned(), mhz)).into_iter().chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_frequencies() {
        // One second at a base frequency of 2,000 MHz: one CPU busy throughout at 3,000 MHz, one for a
        // tenth of the time at 1,000 MHz, one that slept.
        let counts = |aperf, mperf| Counts { aperf, mperf, tsc: 2_000_000_000 };
        let cpus = [
            (0, counts(3_000_000_000, 2_000_000_000)),
            (2, counts(100_000_000, 200_000_000)),
            (5, counts(1000, 1000)),
        ];
        let found = figures(&cpus, 1e6);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["busy_mhz", "cpu0_mhz", "cpu2_mhz"]);
        assert_eq!((found[1].1, found[2].1), (3000.0, 1000.0));
        assert!((found[0].1 - 2000.0 * 3.1 / 2.2).abs() < 0.1, "{found:?}");
    }

    #[test]
    fn no_counters_no_figures() {
        assert!(figures(&[], 1e6).is_empty());
        let mut none = Frequencies { cpus: Vec::new() };
        assert!(none.now().is_none());
        assert!(none.since(None).is_empty());
        // This machine may have such counters or not.
        let mut here = Frequencies::open();
        let before = here.now();
        let is_counted = before.is_some();
        assert_eq!(here.since(before).is_empty(), !is_counted);
    }
}
