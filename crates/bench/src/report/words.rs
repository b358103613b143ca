//! Figures and findings in words, the same in the table and on the page.
use crate::clock::Clock;
use crate::residency::Source;
use crate::result::{ArmResult, FailureKind, Figure, Report, Values};
use crate::verdict::Verdict;
use indicatif::HumanCount;

/// Seconds with about three significant digits.
pub fn seconds(value: f64) -> String {
    format!("{value:.*}", digits(value))
}

/// The interval of a number of seconds, with as many digits after the point as the number.
pub fn interval(of: &Figure) -> String {
    let digits = digits(of.median);
    format!("[{:.digits$}–{:.digits$}]", of.low, of.high)
}

fn digits(seconds: f64) -> usize {
    match seconds.abs() {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.01 => 4,
        s if s >= 0.001 => 5,
        _ => 6,
    }
}

/// A whole number with a comma between thousands.
pub fn count(value: f64) -> String {
    HumanCount(value.round_ties_even() as u64).to_string()
}

/// A ratio with two digits after the point, more if it is tiny.
pub fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}×") } else { format!("{value:.2}×") }
}

/// The ratio's interval.
pub fn ratio_interval(result: &ArmResult) -> Option<String> {
    let (low, high) = result.ratio_to_first_low.zip(result.ratio_to_first_high)?;
    Some(format!("[{low:.2}–{high:.2}]"))
}

/// What a second is.
pub(super) fn clock(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "wall clock",
        Clock::Instructions => "instructions clock (1 instruction = 1 ns)",
        Clock::Model => "model clock (a simulated machine: as good as its file)",
    }
}

/// The workloads, in the order named.
pub fn workloads(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = report.results.iter().map(|it| it.workload.as_str()).collect();
    names.dedup();
    names
}

/// All results of a workload, in the order named; the first is what the others are compared with.
pub fn results_of<'a>(report: &'a Report, workload: &str) -> Vec<&'a ArmResult> {
    report.results.iter().filter(|result| result.workload == workload).collect()
}

/// A result in a sentence, said of its scheduler: `1.43× faster than eevdf [1.40–1.46]`.
pub(super) fn finding(result: &ArmResult, first: &str) -> String {
    let bounds = (result.ratio_to_first, result.ratio_to_first_low, result.ratio_to_first_high);
    match (result.verdict, bounds) {
        (Verdict::Better, (Some(value), Some(low), Some(high))) => {
            format!("{} faster than {first} [{low:.2}–{high:.2}]", ratio(value))
        }
        // Turned round, so that "slower" goes with a number above 1 too.
        (Verdict::Worse, (Some(value), Some(low), Some(high))) => {
            format!("{} slower than {first} [{:.2}–{:.2}]", ratio(1.0 / value), 1.0 / high, 1.0 / low)
        }
        (Verdict::Baseline, _) => "what the others are compared with".into(),
        _ => format!("can’t tell from {first}: {}", result.verdict_reason),
    }
}

/// Further figures, in words; but for those of each CPU, which are many.
pub(super) fn figures(result: &ArmResult) -> Option<String> {
    let figure = |Values { name, median, .. }: &Values| match median.abs() >= 100.0 {
        true => format!("{name} {}", count(*median)),
        false => format!("{name} {median:.1}"),
    };
    let of_one_cpu = |name: &str| name.starts_with("cpu") && name.ends_with("_mhz");
    let figures: Vec<_> = result.figures.iter().filter(|it| !of_one_cpu(&it.name)).map(figure).collect();
    (!figures.is_empty()).then(|| figures.join(", "))
}

/// Where CPUs spent their time, by frequency: the steps that matter.
pub(super) fn residency(result: &ArmResult) -> Option<String> {
    const LEAST: f64 = 0.01;
    let residency = result.residency.as_ref()?;
    let of = match residency.source {
        Source::Model => "busy time",
        Source::TimeInState => "time, idle or not, as the driver set it",
        Source::Sampled => "time, idle or not, as sampled",
    };
    let shares = residency.shares().into_iter().filter(|(_, share)| *share >= LEAST);
    let steps: Vec<_> = shares.map(|(mhz, share)| format!("{mhz} {:.0}\u{a0}%", 100.0 * share)).collect();
    Some(format!("MHz of the {of}: {}", steps.join(", ")))
}

/// What others have published for a workload, and beside it what each scheduler gains here over the first.
pub(super) fn published(report: &Report, workload: &str) -> Option<String> {
    let published = report.published.get(workload)?;
    let results = results_of(report, workload);
    let first = results.first()?;
    let gain = |result: &&ArmResult| {
        let ratio = result.ratio_to_first.filter(|_| result.verdict != Verdict::Baseline)?;
        Some(format!("{} {:+.2} %", result.scheduler, 100.0 * (ratio - 1.0)))
    };
    let gains: Vec<_> = results.iter().filter_map(gain).collect();
    let here = match gains.is_empty() {
        true => String::new(),
        false => format!("; here over {}: {}", first.scheduler, gains.join(", ")),
    };
    Some(format!("published gain {:+.2} % ({}){here}", published.gain_percent, published.what))
}

/// What must not be overlooked: runs without a time, and why. An ejection before anything else.
pub(super) fn losses(result: &ArmResult) -> Option<String> {
    let ejections = || result.failed.iter().filter(|failure| failure.kind == FailureKind::Ejected);
    let tried = || result.failed.iter().filter(|failure| failure.kind != FailureKind::NotTried);
    let last = ejections().next_back().or_else(|| tried().next_back())?;
    let count =
        |kinds: &[FailureKind]| result.failed.iter().filter(|failure| kinds.contains(&failure.kind)).count();
    let parts = [
        ("ejected by the kernel", count(&[FailureKind::Ejected])),
        ("failed", count(&[FailureKind::Failed])),
        ("hung", count(&[FailureKind::Hung])),
        ("not tried any more", count(&[FailureKind::NotTried])),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{what} in {count} of {} runs", result.runs))
        .collect();
    Some(format!("{}: {}", parts.join(", "), last.reason))
}

/// The scheduler's version without its name, unless it is the kernel's, which is stated once for all.
pub(super) fn own_version(result: &ArmResult) -> Option<&str> {
    let version = result.scheduler_version.as_deref()?;
    match version.split_once(' ') {
        Some(("kernel", _)) => None,
        // A peer answers `scx_NAME VERSION`.
        Some((name, rest)) if result.scheduler.starts_with(name) => Some(rest),
        _ => Some(version),
    }
}

/// Schedulers with their versions.
pub(super) fn versions(report: &Report) -> String {
    let mut names: Vec<String> = Vec::new();
    for result in report.results.iter().filter(|result| !result.scheduler.ends_with(" (again)")) {
        let name = match own_version(result) {
            Some(version) => format!("{} {version}", result.scheduler),
            None => result.scheduler.clone(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// In how many of all runs the scheduler was provably in force.
pub(super) fn proof(report: &Report) -> String {
    let sum = |of: &dyn Fn(&ArmResult) -> usize| report.results.iter().map(of).sum::<usize>();
    let verified = sum(&|result| result.attached_proof.verified);
    let of = sum(&|result| result.attached_proof.of);
    match verified == of {
        true => format!("scheduler in force throughout in all {of} runs"),
        false => format!("scheduler in force throughout in {verified} of {of} runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        assert_eq!(seconds(0.3781), "0.378");
        assert_eq!(seconds(12.34), "12.3");
        assert_eq!(seconds(0.00123), "0.00123");
        assert_eq!(seconds(0.000056), "0.000056");
        assert_eq!(interval(&Figure { median: 0.0238, low: 0.00503, high: 0.125 }), "[0.0050–0.1250]");
        assert_eq!(count(25012.0), "25,012");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(1234567.0), "1,234,567");
        assert_eq!(ratio(1.428), "1.43×");
        assert_eq!(ratio(0.0123), "0.012×");
    }
}
