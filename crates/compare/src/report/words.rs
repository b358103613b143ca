//! Figures and findings as text, the same in the table and on the page.
use crate::clock::Clock;
use crate::residency::Source;
use crate::result::{ArmResult, FailureKind, Figure, Report, Values};
use crate::verdict::Verdict;
use indicatif::HumanCount;

/// Seconds with about three significant digits.
pub fn seconds(value: f64) -> String {
    format!("{value:.*}", digits(value))
}

/// Seconds without their unit; less than a millisecond, as latencies are, with theirs: `16.1 µs`.
pub fn short_time(value: f64) -> String {
    if value < 0.001 { format!("{} µs", seconds(value * 1e6)) } else { seconds(value) }
}

/// The interval of a number of seconds, with as many digits after the point as the number.
pub fn interval(of: &Figure) -> String {
    let digits = digits(of.median);
    format!("[{:.digits$}–{:.digits$}]", of.low, of.high)
}

/// The interval of [`short_time`], in its unit.
pub fn short_interval(of: &Figure) -> String {
    let unit = if of.median < 0.001 { 1e6 } else { 1.0 };
    interval(&Figure { median: of.median * unit, low: of.low * unit, high: of.high * unit })
}

fn digits(seconds: f64) -> usize {
    match seconds.abs() {
        0.0 => 0,
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.01 => 4,
        s if s >= 0.001 => 5,
        s if s >= 0.000_1 => 6,
        s if s >= 0.000_01 => 7,
        _ => 8,
    }
}

/// A whole number with a comma between thousands.
pub fn count(value: f64) -> String {
    HumanCount(value.round_ties_even() as u64).to_string()
}

/// A figure of any size: whole from 100 on, and below 1 with three digits that count.
pub fn quantity(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => count(value),
        small if small > 0.0 && small < 1.0 => seconds(value),
        _ => format!("{value:.1}"),
    }
}

/// A ratio with two digits after the point, more if it is tiny.
pub fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}×") } else { format!("{value:.2}×") }
}

/// The interval of a ratio.
pub fn ratio_interval(result: &ArmResult) -> Option<String> {
    let (low, high) = result.ratio_to_first_low.zip(result.ratio_to_first_high)?;
    Some(format!("[{low:.2}–{high:.2}]"))
}

/// The clock: what a second means, and the settings of the parallel clock.
pub(super) fn clock(report: &Report) -> String {
    let vm = report.environment.vm.as_ref();
    let settings = vm.and_then(|vm| Some((vm.turn?, vm.pause_ns?, vm.jitter)));
    let memory =
        vm.and_then(|vm| vm.memory_model.as_ref()).map(|of| format!(", memory of {of}")).unwrap_or_default();
    match (report.clock, settings) {
        (Clock::Parallel, None) => "parallel clock (each CPU: 1 instruction = 1 ns)".into(),
        (Clock::Parallel, Some((turn, pause_ns, jitter))) => {
            let turn = match jitter {
                Some(seed) => format!("turns drawn, jitter {seed}"),
                None => format!("turn {turn}"),
            };
            format!("parallel clock (each CPU: 1 instruction = 1 ns; {turn}, pause {pause_ns} ns{memory})")
        }
        (Clock::Work, _) => "work clock (1 instruction of any CPU = 1 ns: work, no time)".into(),
        (Clock::Wall, _) => "wall clock".into(),
        (Clock::Model, _) => "model clock (a simulated machine: as good as its file)".into(),
    }
}

/// The terms for a clock's figures: on the work clock no figure is a time, and no scheduler is
/// faster.
pub(super) struct Terms {
    pub noun: &'static str,
    /// The same with a capital letter.
    pub title: &'static str,
    /// The label of a chart's axis.
    pub axis: &'static str,
    /// For a better scheduler: `1.43× … than`.
    pub better: &'static str,
    /// For a worse scheduler: `1.43× … than`.
    pub worse: &'static str,
    /// For the first scheduler where all others are worse.
    pub best: &'static str,
    /// Where no scheduler is better: `No scheduler was shown to … than`.
    pub be_better: &'static str,
}

const OF_TIME: Terms = Terms {
    noun: "time",
    title: "Time",
    axis: "seconds",
    better: "faster",
    worse: "slower",
    best: "is the fastest of these",
    be_better: "be faster",
};

const OF_WORK: Terms = Terms {
    noun: "work",
    title: "Work",
    axis: "seconds of work",
    better: "less work",
    worse: "more work",
    best: "takes the least work of these",
    be_better: "take less work",
};

/// The terms for a clock.
pub(super) fn terms(clock: Clock) -> &'static Terms {
    match clock {
        Clock::Work => &OF_WORK,
        Clock::Parallel | Clock::Wall | Clock::Model => &OF_TIME,
    }
}

/// What the time measures; `None`: the duration of the whole run.
pub(super) fn time_is(result: &ArmResult, clock: Clock) -> Option<String> {
    let time_is = result.time_is.as_ref()?;
    Some(match clock {
        Clock::Work => format!("What is shown is the {}", time_is.replacen("time of", "work of", 1)),
        Clock::Parallel | Clock::Wall | Clock::Model => format!("The time is the {time_is}"),
    })
}

/// The workloads, in the order of the command line.
pub fn workloads(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = report.results.iter().map(|it| it.workload.as_str()).collect();
    names.dedup();
    names
}

/// All results of a workload, in the order of the command line. The others are compared with the first.
pub fn results_of<'a>(report: &'a Report, workload: &str) -> Vec<&'a ArmResult> {
    report.results.iter().filter(|result| result.workload == workload).collect()
}

/// The predicate of a sentence on a scheduler's result: `1.43× faster than eevdf [1.40–1.46]`.
pub(super) fn finding(result: &ArmResult, first: &str, terms: &Terms) -> String {
    let Terms { better, worse, .. } = terms;
    let bounds = (result.ratio_to_first, result.ratio_to_first_low, result.ratio_to_first_high);
    match (result.verdict, bounds) {
        (Verdict::Better, (Some(value), Some(low), Some(high))) => {
            format!("{} {better} than {first} [{low:.2}–{high:.2}]", ratio(value))
        }
        // The reciprocal, so that "slower" and "more" have a number above 1 as well.
        (Verdict::Worse, (Some(value), Some(low), Some(high))) => {
            format!("{} {worse} than {first} [{:.2}–{:.2}]", ratio(1.0 / value), 1.0 / high, 1.0 / low)
        }
        (Verdict::Baseline, _) => "what the others are compared with".into(),
        _ => format!("can’t tell from {first}: {}", result.verdict_reason),
    }
}

/// Further figures as text, without those of single CPUs.
pub(super) fn figures(result: &ArmResult) -> Option<String> {
    let figure = |Values { name, median, .. }: &Values| format!("{name} {}", quantity(*median));
    let of_one_cpu = |name: &str| name.starts_with("cpu") && name.ends_with("_mhz");
    let figures: Vec<_> = result.figures.iter().filter(|it| !of_one_cpu(&it.name)).map(figure).collect();
    (!figures.is_empty()).then(|| figures.join(", "))
}

/// The shares of CPU time by frequency, without steps below 1 %.
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

/// Why there is no breakdown, if it failed.
pub(super) fn no_breakdown(result: &ArmResult) -> Option<String> {
    result.why_failed.as_ref().map(|reason| format!("no breakdown of the CPU time: {reason}"))
}

/// Why there is no timeline, if it failed.
pub(super) fn no_timeline(result: &ArmResult) -> Option<String> {
    result.timeline_failed.as_ref().map(|reason| format!("no timeline: {reason}"))
}

/// The published gain for a workload, and beside it the gain of each scheduler over the first here.
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

/// Runs without a time, and the reason of the last of them; reasons of ejections take precedence.
pub(super) fn losses(result: &ArmResult) -> Option<String> {
    let ejections = || result.failed.iter().filter(|failure| failure.kind == FailureKind::Ejected);
    let tried = || result.failed.iter().filter(|failure| failure.kind != FailureKind::NotTried);
    let last = ejections().next_back().or_else(|| tried().next_back()).or(result.failed.last())?;
    let count =
        |kinds: &[FailureKind]| result.failed.iter().filter(|failure| kinds.contains(&failure.kind)).count();
    let parts = [
        ("ejected by the kernel", count(&[FailureKind::Ejected])),
        ("failed", count(&[FailureKind::Failed])),
        ("hung", count(&[FailureKind::Hung])),
        ("not tried", count(&[FailureKind::NotTried])),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{what} in {count} of {} runs", result.runs))
        .collect();
    Some(format!("{}: {}", parts.join(", "), last.reason))
}

/// What [`losses`] says if it is the same of all schedulers, as of a workload that is not installed.
pub(super) fn loss_of_all(results: &[&ArmResult]) -> Option<String> {
    let mut all = results.iter().map(|result| losses(result));
    let first = all.next()??;
    let more = all.len() > 0;
    (all.all(|it| it.as_ref() == Some(&first)) && more).then_some(first)
}

/// Whether it is the second copy of the first scheduler.
pub(super) fn is_again(result: &ArmResult) -> bool {
    result.scheduler.ends_with(" (again)")
}

/// The scheduler's version without its name. `None` for the kernel's schedulers: the report names the kernel once.
pub(super) fn own_version(result: &ArmResult) -> Option<&str> {
    let version = result.scheduler_version.as_deref()?;
    match version.split_once(' ') {
        Some(("kernel", _)) => None,
        // A peer's `--version` prints `scx_NAME VERSION`.
        Some((name, rest)) if result.scheduler.starts_with(name) => Some(rest),
        _ => Some(version),
    }
}

/// Schedulers with their versions.
pub(super) fn versions(report: &Report) -> String {
    let mut names: Vec<String> = Vec::new();
    for result in report.results.iter().filter(|result| !is_again(result)) {
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

/// In how many runs the scheduler was proved to be in force.
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
    use crate::report::html::tests::sample;

    #[test]
    fn the_work_clock_compares_work_and_not_speed() {
        let mut result = sample().results[0].clone();
        result.ratio_to_first = Some(1.31);
        (result.ratio_to_first_low, result.ratio_to_first_high) = (Some(1.30), Some(1.32));
        result.verdict = Verdict::Better;
        let said = |result: &ArmResult, clock| finding(result, "eevdf", terms(clock));
        assert_eq!(said(&result, Clock::Work), "1.31× less work than eevdf [1.30–1.32]");
        assert_eq!(said(&result, Clock::Parallel), "1.31× faster than eevdf [1.30–1.32]");
        result.verdict = Verdict::Worse;
        result.ratio_to_first = Some(0.5);
        (result.ratio_to_first_low, result.ratio_to_first_high) = (Some(0.4), Some(0.8));
        assert_eq!(said(&result, Clock::Work), "2.00× more work than eevdf [1.25–2.50]");
        assert_eq!(said(&result, Clock::Wall), "2.00× slower than eevdf [1.25–2.50]");
    }

    #[test]
    fn a_workloads_own_time_is_explained() {
        let mut result = sample().results[0].clone();
        assert_eq!(time_is(&result, Clock::Work), None);
        result.time_is = Some("time of a million operations".into());
        let said = |clock| time_is(&result, clock).unwrap();
        assert_eq!(said(Clock::Parallel), "The time is the time of a million operations");
        assert_eq!(said(Clock::Work), "What is shown is the work of a million operations");
    }

    #[test]
    fn the_parallel_clock_names_its_settings() {
        let mut report = sample();
        let said = "parallel clock (each CPU: 1 instruction = 1 ns; turn 1000, pause 140 ns)";
        assert_eq!(clock(&report), said);
        report.environment.vm.as_mut().unwrap().jitter = Some(7);
        assert!(clock(&report).ends_with("; turns drawn, jitter 7, pause 140 ns)"), "{}", clock(&report));
        report.environment.vm.as_mut().unwrap().memory_model = Some("server".into());
        assert!(clock(&report).ends_with("pause 140 ns, memory of server)"), "{}", clock(&report));
        report.clock = Clock::Work;
        assert!(clock(&report).starts_with("work clock") && !clock(&report).contains("140"));
    }

    #[test]
    fn figures() {
        assert_eq!(seconds(0.3781), "0.378");
        assert_eq!(seconds(12.34), "12.3");
        assert_eq!(seconds(0.00123), "0.00123");
        assert_eq!(seconds(0.000056), "0.0000560");
        assert_eq!([0.0161, 0.000_016_14, 0.000_35].map(short_time), ["0.0161", "16.1 µs", "350 µs"]);
        assert_eq!(interval(&Figure { median: 0.0238, low: 0.00503, high: 0.125 }), "[0.0050–0.1250]");
        assert_eq!(count(25012.0), "25,012");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(1234567.0), "1,234,567");
        assert_eq!([250_120.0, 8.66, 0.0, 0.020_004].map(quantity), ["250,120", "8.7", "0.0", "0.0200"]);
        assert_eq!(ratio(1.428), "1.43×");
        assert_eq!(ratio(0.0123), "0.012×");
    }
}
