//! Which scheduler to use for a command: what a comparison says, in five lines.
//!
//! The rule. Only a scheduler whose verdict is *better* is advised. Of these, the easiest one to use whose interval
//! overlaps that of the fastest: a variable in the environment takes less than another class of the kernel, and that
//! less than root and a policy. If none is better, the advice is to change nothing.
use super::words;
use crate::contender::Contender;
use crate::result::{ArmResult, Report};
use crate::verdict::Verdict;
use crate::{Scheduler, Target, Waits};
use flsched_spec::{Kernel, UsageError};
use std::fmt;

/// What is tried: the scheduler in use, then the others, the easiest to use first.
pub const CONTENDERS: &str = "eevdf,eevdf+sleep,batch,batch+sleep,flsched,flsched+sleep";

/// The advice: sentences, each with what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    lines: Vec<(&'static str, String)>,
}

impl Advice {
    /// From a comparison of [`CONTENDERS`] on one command; `is_set` are the user's own variables. The error is the
    /// reason why there is none.
    pub fn new(report: &Report, command: &[String], is_set: impl Fn(&str) -> bool) -> Result<Self, String> {
        let first = report.results.first().ok_or("nothing was measured")?;
        if first.time_s.is_none() {
            let reason = words::losses(first).unwrap_or_else(|| "it was not run".into());
            return Err(format!("no run under {} has a time: {reason}", first.scheduler));
        }
        let chosen = choose(report);
        let mut lines = vec![
            ("Advice", headline(report, chosen)),
            ("Certainty", certainty(report, chosen)),
            ("Others", others(report, chosen)),
        ];
        let contender = contender(chosen.unwrap_or(first))?;
        lines.push(("Command", command_line(&contender, command, is_set)));
        lines.push(("Limits", limits(report)));
        Ok(Self { lines })
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(about, text)| writeln!(out, "{about}: {text}"))
    }
}

/// The threshold of the noise: smaller ratios are not seen. `None`: it is not known.
fn noise(report: &Report) -> Option<f64> {
    report.noise.values().next().map(|noise| noise.threshold)
}

/// The largest gain that was measured and not believed, or the noise: a smaller one would not have been seen.
fn unseen(report: &Report, noise: f64) -> f64 {
    let doubted = report.results.iter().filter(|result| result.verdict == Verdict::CantTell);
    doubted.filter_map(|result| result.ratio_to_first_high).fold(noise, f64::max)
}

/// In the order of [`CONTENDERS`].
fn choose(report: &Report) -> Option<&ArmResult> {
    let better = || report.results.iter().filter(|result| result.verdict == Verdict::Better);
    let ratio = |result: &&ArmResult| result.ratio_to_first.unwrap_or(0.0);
    let fastest = better().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    better().find(|result| result.ratio_to_first_high >= fastest.ratio_to_first_low)
}

fn headline(report: &Report, chosen: Option<&ArmResult>) -> String {
    let first = &report.results[0].scheduler;
    match chosen {
        Some(result) => format!("use {}: {}", result.scheduler, finding(report, result)),
        None => format!("keep what you have: nothing tried was shown to be faster than {first}"),
    }
}

fn certainty(report: &Report, chosen: Option<&ArmResult>) -> String {
    let first = &report.results[0];
    let Some(noise) = noise(report) else {
        return format!("unknown; too few runs of {} have a time", first.scheduler);
    };
    let percent = |ratio: f64| format!("{:.0} %", 100.0 * (ratio - 1.0));
    let runs = format!(
        "{} runs each; {} differs from itself by up to {}",
        report.runs,
        first.scheduler,
        percent(noise)
    );
    let mut text = match chosen {
        Some(result) if result.ratio_to_first_low > Some(noise) => {
            format!("high; the whole interval is beyond the noise ({runs})")
        }
        Some(_) => format!(
            "moderate; the gain is beyond the noise, but the lower end of its interval is not, and what is found by \
             several trials tends to be less the next time ({runs}; --runs {} would narrow it)",
            3 * report.runs
        ),
        None => format!("a gain below {} may not have been seen ({runs})", percent(unseen(report, noise))),
    };
    // Its slow runs may be those that are missing.
    if let Some(losses) = words::losses(first) {
        text += &format!("; {}: {losses}", first.scheduler);
    }
    text
}

/// Those that are not advised: first those with failed runs, then by what they lose.
fn others(report: &Report, chosen: Option<&ArmResult>) -> String {
    let is_other = |result: &&ArmResult| {
        result.verdict != Verdict::Baseline
            && chosen.is_none_or(|chosen| chosen.scheduler != result.scheduler)
    };
    let mut others: Vec<_> = report.results.iter().filter(is_other).collect();
    others.sort_by(|a, b| {
        let ratio = |it: &ArmResult| it.ratio_to_first.unwrap_or(0.0);
        a.failed.is_empty().cmp(&b.failed.is_empty()).then(ratio(a).total_cmp(&ratio(b)))
    });
    let one = |result: &&ArmResult| {
        let losses = words::losses(result).map(|losses| format!(" ({losses})")).unwrap_or_default();
        format!("{} {}{losses}", result.scheduler, finding(report, result))
    };
    others.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn finding(report: &Report, result: &ArmResult) -> String {
    let interval = || words::ratio_interval(result).unwrap_or_default();
    match (result.verdict, result.ratio_to_first) {
        (Verdict::Better | Verdict::Worse, _) => {
            words::finding(result, &report.results[0].scheduler, words::terms(report.clock))
        }
        (_, Some(ratio)) => format!("can’t tell, {} {}", words::ratio(ratio), interval()),
        (_, None) => "no time".into(),
    }
}

fn contender(result: &ArmResult) -> Result<Contender, String> {
    let read = Contender::parse_list(std::slice::from_ref(&result.scheduler), Target::Host);
    Ok(read.map_err(|UsageError(error)| error)?.remove(0))
}

/// What to type to get the same.
fn command_line(contender: &Contender, command: &[String], is_set: impl Fn(&str) -> bool) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut push = |all: &[&str]| words.extend(all.iter().map(|word| word.to_string()));
    if let Scheduler::Policy(spec) = &contender.scheduler {
        push(&["sudo", "flsched", "run", "--policy", &spec.to_string()]);
        if let Some(waits) = contender.waits {
            push(&["--waits", waits.name()]);
        }
        push(&["--"]);
    } else {
        let settings = contender.waits.map(|waits| variables(waits, is_set)).unwrap_or_default();
        if !settings.is_empty() {
            push(&["env"]);
            words.extend(settings);
        }
        if matches!(&contender.scheduler, Scheduler::Kernel(spec) if spec.kernel == Kernel::Batch) {
            words.extend(["chrt", "--batch", "0"].map(String::from));
        }
    }
    words.extend(command.iter().cloned());
    shell_words::join(words)
}

fn variables(waits: Waits, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let set = waits.choose(is_set);
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
    };
    set.environment().map(text).collect()
}

fn limits(report: &Report) -> String {
    let place = match report.on {
        Target::Vm => format!(
            "measured on {} emulated CPUs without caches, kernel {}. On a machine with Linux 6.12 or newer, \
             `sudo flsched advise --on host -- CMD` measures the machine itself",
            report.cpus, report.kernel
        ),
        Target::Host | Target::Sim => format!(
            "measured on {} CPUs, kernel {}, beside the load of that moment; other input can give another answer",
            report.cpus, report.kernel
        ),
    };
    std::iter::once(&place).chain(&report.warnings).map(String::as_str).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::sample;
    use crate::result::{Failure, FailureKind};
    use crate::stats::Estimate;
    use crate::verdict::{Evidence, Noise, decide};

    /// A report in which these contenders have these ratios, in the order of [`CONTENDERS`].
    fn report(ratios: &[(&str, f64)]) -> Report {
        let mut report = sample();
        let first = report.results[0].clone();
        let noise = Noise::new(Estimate { value: 1.0, low: 0.97, high: 1.03 });
        report.noise = [(first.workload.clone(), noise)].into();
        let measured = |name: &str, ratio: f64| {
            let estimate = Estimate { value: ratio, low: ratio * 0.98, high: ratio * 1.02 };
            let evidence = Evidence {
                ratio: Some(estimate),
                noise: Some(noise),
                timed_runs: 5,
                untimed_runs: 0,
                untimed_first: 0,
            };
            let (verdict, verdict_reason) = decide(&evidence);
            ArmResult {
                scheduler: name.into(),
                ratio_to_first: Some(ratio),
                ratio_to_first_low: Some(estimate.low),
                ratio_to_first_high: Some(estimate.high),
                verdict,
                verdict_reason,
                ..first.clone()
            }
        };
        let others = ratios.iter().map(|(name, ratio)| measured(name, *ratio));
        report.results = std::iter::once(first.clone()).chain(others).collect();
        report
    }

    fn advice(ratios: &[(&str, f64)]) -> String {
        let command = ["./a.out".to_owned(), "two words".to_owned()];
        Advice::new(&report(ratios), &command, |_| false).unwrap().to_string()
    }

    #[test]
    fn the_fastest_is_advised_with_its_command() {
        let text = advice(&[("eevdf+sleep", 1.0), ("batch", 0.9), ("flsched", 1.4), ("flsched+sleep", 1.5)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[0], "Advice: use flsched+sleep: 1.50× faster than eevdf [1.47–1.53]");
        assert!(lines[1].starts_with("Certainty: high; "), "{text}");
        assert!(
            lines[2].starts_with(
                "Others: batch 1.11× slower than eevdf [1.09–1.13]; eevdf+sleep can’t tell, 1.00×"
            ),
            "{text}"
        );
        assert_eq!(
            lines[3],
            "Command: sudo flsched run --policy flsched --waits sleep -- ./a.out 'two words'"
        );
        assert!(lines[4].contains("emulated"), "{text}");
    }

    #[test]
    fn of_two_that_are_equally_fast_the_easier_one_is_advised() {
        let text = advice(&[("eevdf+sleep", 1.2), ("flsched", 1.22)]);
        assert!(text.starts_with("Advice: use eevdf+sleep: 1.20×"), "{text}");
        assert!(text.contains("\nCommand: env 'OMP_WAIT_POLICY=passive' 'KMP_BLOCKTIME=0' "), "{text}");
        let text = advice(&[("batch", 1.2), ("flsched", 1.3)]);
        assert!(text.starts_with("Advice: use flsched: "), "{text}");
        let text = advice(&[("batch", 1.2), ("flsched", 1.2)]);
        assert!(text.contains("\nCommand: chrt --batch 0 ./a.out 'two words'\n"), "{text}");
    }

    #[test]
    fn a_gain_near_the_noise_is_less_sure() {
        assert!(advice(&[("batch", 1.045)]).contains("\nCertainty: moderate; "));
    }

    #[test]
    fn where_nothing_is_better_nothing_changes() {
        let text = advice(&[("batch", 1.01), ("flsched", 0.9)]);
        assert!(text.starts_with("Advice: keep what you have: "), "{text}");
        assert!(text.contains("Certainty: a gain below 3 % may not have been seen"), "{text}");
        assert!(text.contains("Others: flsched 1.11× slower"), "{text}");
        assert!(text.contains("\nCommand: ./a.out 'two words'\n"), "{text}");
    }

    /// Its slow runs may be those that are missing; and one that is left shows no noise.
    #[test]
    fn what_the_first_one_lacks_is_said() {
        let mut lossy = report(&[("batch", 0.9)]);
        lossy.results[0].failed =
            vec![Failure { run: 1, kind: FailureKind::Hung, reason: "it took more than 300 s".into() }];
        let text = Advice::new(&lossy, &["x".into()], |_| false).unwrap().to_string();
        assert!(text.contains("; eevdf: ") && text.contains("300 s"), "{text}");
        lossy.noise.clear();
        let text = Advice::new(&lossy, &["x".into()], |_| false).unwrap().to_string();
        assert!(text.contains("\nCertainty: unknown; "), "{text}");
    }

    #[test]
    fn without_a_time_of_the_first_there_is_no_advice() {
        let mut report = report(&[("batch", 1.2)]);
        report.results[0].time_s = None;
        let error = Advice::new(&report, &["x".into()], |_| false).unwrap_err();
        assert!(error.starts_with("no run under eevdf has a time: "), "{error}");
    }
}
