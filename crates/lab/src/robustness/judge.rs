//! What in a report is a fault.
use super::report::{Arm, BASE, BASE_AGAIN, Entry, Kind, Run, is_policy};
use flsched_compare::stats::{Estimate, ratio_of_medians};
use std::fmt;

/// With less of EEVDF's throughput than this, a scheduler fails.
const LEAST_SHARE: f64 = 0.5;
/// A task waits for the rest of a tick in addition to the bound.
const TICK_MS: f64 = 4.0;
/// So many runnable tasks on a CPU wait no longer than the knob `max_delay_us` says.
const FEW: f64 = 16.0;
const DELAY_MS: f64 = 100.0;

/// A fault of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub kind: Kind,
    pub load: String,
    /// Instances a CPU.
    pub per_cpu: u32,
    pub scheduler: String,
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, load, per_cpu, scheduler, text } = self;
        write!(f, "{scheduler}, {load} with {per_cpu} a CPU: {}: {text}", kind.text())
    }
}

/// The longest wait that a policy's documentation allows if so many tasks are runnable, all of them on one CPU in the
/// worst case. `None`: it promises nothing.
pub fn bound_ms(scheduler: &str, runnable: u32) -> Option<f64> {
    let few = (f64::from(runnable) / FEW).max(1.0);
    let bound = match scheduler {
        "flsched" => (DELAY_MS * few).min(10_000.0),
        "smove" => (DELAY_MS * few).min(20_000.0),
        // A turn of `slice_us` for each of its level.
        "rr2" => (DELAY_MS * f64::from(runnable.max(1))).min(20_000.0),
        _ => return None,
    };
    Some(bound + TICK_MS)
}

/// The throughput under this scheduler over EEVDF's in the same boots.
pub fn ratio(entry: &Entry, scheduler: &str) -> Option<Estimate> {
    let [base, this] = [BASE, scheduler].map(|name| entry.arm(name).map(Arm::rates));
    // Of rates, not of times: what is better is above.
    ratio_of_medians(&this?, &base?)
}

/// All faults of the policies under this load; and of the load itself, if it does not even work under EEVDF.
pub fn faults(entry: &Entry) -> Vec<Fault> {
    let failed = entry.arm(BASE).filter(|arm| arm.rates().is_empty()).and_then(|arm| {
        let mut troubles = arm.runs.iter().flat_map(|run| &run.troubles);
        troubles.find(|trouble| trouble.kind == Kind::Failed)
    });
    if let Some(trouble) = failed {
        let text = trouble.text.clone();
        let (load, per_cpu, scheduler) = (entry.load.clone(), entry.per_cpu, BASE.into());
        return vec![Fault { kind: Kind::Failed, load, per_cpu, scheduler, text }];
    }
    let policies = entry.arms.iter().filter(|arm| is_policy(&arm.scheduler));
    policies.flat_map(|arm| faults_of(entry, arm)).collect()
}

fn faults_of(entry: &Entry, arm: &Arm) -> Vec<Fault> {
    let fault = |kind, text| Fault {
        kind,
        load: entry.load.clone(),
        per_cpu: entry.per_cpu,
        scheduler: arm.scheduler.clone(),
        text,
    };
    let base = entry.arm(BASE).into_iter().chain(entry.arm(BASE_AGAIN));
    let base_runs: Vec<&Run> = base.flat_map(|arm| &arm.runs).collect();
    // What happens under EEVDF, too, is not the policy's fault.
    let is_usual = |kind| base_runs.iter().flat_map(|run| &run.troubles).any(|trouble| trouble.kind == kind);
    let mut faults: Vec<Fault> = Vec::new();
    for trouble in arm.runs.iter().flat_map(|run| &run.troubles) {
        let is_new = faults.iter().all(|fault| fault.kind != trouble.kind);
        if is_new && !is_usual(trouble.kind) {
            faults.push(fault(trouble.kind, trouble.text.clone()));
        }
    }
    faults.extend(wait_fault(entry, arm, &base_runs).map(|text| fault(Kind::Wait, text)));
    faults.extend(throughput_fault(entry, arm).map(|text| fault(Kind::Throughput, text)));
    faults
}

fn wait_fault(entry: &Entry, arm: &Arm, base_runs: &[&Run]) -> Option<String> {
    let bound = bound_ms(&arm.scheduler, arm.runnable())?;
    let base = base_runs.iter().map(|run| run.longest_wait_ms).fold(0.0, f64::max);
    // No bound holds beside real-time tasks. Twice EEVDF's wait is what they may cost.
    let allowed = bound.max(if entry.realtime { 2.0 * base } else { base });
    let wait = arm.longest_wait_ms();
    let runnable = arm.runnable();
    (wait > allowed).then(|| {
        format!(
            "{wait:.0} ms with at most {runnable} runnable tasks; bound {bound:.0} ms, EEVDF {base:.0} ms"
        )
    })
}

fn throughput_fault(entry: &Entry, arm: &Arm) -> Option<String> {
    let ratio = ratio(entry, &arm.scheduler);
    let Some(ratio) = ratio else {
        // A load that has a rate under EEVDF must have one here, too.
        let has = |name: &str| entry.arm(name).is_some_and(|arm| !arm.rates().is_empty());
        return (has(BASE) && !has(&arm.scheduler)).then(|| "it reported no operation".into());
    };
    let again = self::ratio(entry, BASE_AGAIN).map_or(1.0, |again| again.value.min(1.0));
    (ratio.value < LEAST_SHARE * again)
        .then(|| format!("{:.2} of EEVDF's; EEVDF again: {again:.2}", ratio.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robustness::report::Trouble;

    fn run(rate: f64, longest_wait_ms: f64) -> Run {
        Run { rate: Some(rate), longest_wait_ms, runnable: 8, troubles: Vec::new() }
    }

    fn entry(arms: &[(&str, Run)]) -> Entry {
        let arm = |(name, run): &(&str, Run)| Arm { scheduler: (*name).into(), runs: vec![run.clone()] };
        Entry {
            load: "pipe".into(),
            per_cpu: 4,
            command: String::new(),
            realtime: false,
            arms: arms.iter().map(arm).collect(),
        }
    }

    fn kinds(entry: &Entry) -> Vec<Kind> {
        faults(entry).into_iter().map(|fault| fault.kind).collect()
    }

    #[test]
    fn half_of_the_slower_eevdf_is_enough() {
        let with = |again, rate| {
            entry(&[(BASE, run(100.0, 1.0)), ("flsched", run(rate, 1.0)), (BASE_AGAIN, run(again, 1.0))])
        };
        assert_eq!(kinds(&with(100.0, 51.0)), []);
        assert_eq!(kinds(&with(100.0, 49.0)), [Kind::Throughput]);
        assert_eq!(kinds(&with(90.0, 46.0)), []);
        assert_eq!(kinds(&with(110.0, 49.0)), [Kind::Throughput]);
        let mut silent = with(100.0, 1.0);
        silent.arms[1].runs[0].rate = None;
        assert_eq!(kinds(&silent), [Kind::Throughput]);
    }

    #[test]
    fn a_wait_may_be_as_long_as_the_bound_or_as_eevdfs() {
        let with = |base, wait| entry(&[(BASE, run(1.0, base)), ("flsched", run(1.0, wait))]);
        assert_eq!(kinds(&with(1.0, 103.0)), []);
        assert_eq!(kinds(&with(1.0, 105.0)), [Kind::Wait]);
        assert_eq!(kinds(&with(200.0, 199.0)), []);
        let realtime = Entry { realtime: true, ..with(200.0, 399.0) };
        assert_eq!(kinds(&realtime), []);
        assert_eq!(bound_ms("flsched", 32), Some(204.0));
        assert_eq!(bound_ms("flsched", 9000), Some(10_004.0));
        assert_eq!(bound_ms("scx_rusty", 1), None);
    }

    #[test]
    fn a_warning_that_eevdf_has_too_is_nobodys_fault() {
        let trouble = Trouble { kind: Kind::KernelLog, text: "WARNING: at x".into() };
        let with_trouble = Run { troubles: vec![trouble], ..run(1.0, 1.0) };
        let only_here = entry(&[(BASE, run(1.0, 1.0)), ("rr2", with_trouble.clone())]);
        assert_eq!(kinds(&only_here), [Kind::KernelLog]);
        let failed = Trouble { kind: Kind::Failed, text: "no stress workers invoked".into() };
        let fails = Run { rate: None, troubles: vec![failed], ..run(1.0, 1.0) };
        let unusable = entry(&[(BASE, fails), ("flsched", run(0.1, 900.0))]);
        assert_eq!(kinds(&unusable), [Kind::Failed]);
        let everywhere = entry(&[(BASE, with_trouble.clone()), ("rr2", with_trouble)]);
        assert_eq!(kinds(&everywhere), []);
    }
}
