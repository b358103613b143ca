//! `ratio`, `time`, `switches`, `figure`: single figures within a sentence.
use super::{Context, Rendered, required};
use crate::markers::Request;
use crate::view::arm;
use flsched_compare::Report;
use flsched_compare::report::words;
use flsched_compare::result::ArmResult;
use flsched_compare::stats::Estimate;
use flsched_compare::verdict::{Evidence, MIN_RUNS, Noise, Verdict, decide};

/// `1.47× [1.41–1.52]`, over the first scheduler or over another; with `≈ ` before it if the verdict is "can't tell". Over
/// another one, whose own noise was not measured, `[1.41–1.52, noisy]` says that the first one differs from itself by more.
/// Of fewer runs than a verdict takes: `1.47× (1 run)`.
pub(super) fn ratio(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let over = request.get("over");
    figure(context, request, |report, result| {
        let first = report.results.iter().find(|it| it.workload == result.workload);
        let base = match over {
            Some(over) => arm(report, &result.workload, over).map_err(|error| error.to_string())?,
            None => first.ok_or("it has no first scheduler")?,
        };
        let noise = report.noise.get(&result.workload).copied();
        let evidence = result.evidence(base, noise);
        let differs = |noise| decide(&Evidence { noise, ..evidence }).0 != Verdict::CantTell;
        let none = Some(Noise::new(Estimate::exact(1.0)));
        let (mark, sign) = match over {
            _ if differs(noise) => ("", ""),
            Some(_) if differs(none) => ("", ", noisy"),
            _ => ("≈ ", ""),
        };
        Ok(evidence.ratio.map(|it| match evidence.timed_runs {
            1 => format!("{} (1 run)", words::ratio(it.value)),
            few if few < MIN_RUNS => format!("{} ({few} runs)", words::ratio(it.value)),
            _ => format!("{mark}{} [{:.2}–{:.2}{sign}]", words::ratio(it.value), it.low, it.high),
        }))
    })
}

/// `0.385 s`; `62 µs` below a millisecond.
pub(super) fn time(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let text = |time: f64| match time < 1e-3 {
        true => format!("{:.0} µs", time * 1e6),
        false => format!("{} s", words::seconds(time)),
    };
    figure(context, request, |_, result| Ok(result.time_s.map(|time| text(time.median))))
}

/// `2,304`.
pub(super) fn switches(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let count = |result: &ArmResult| result.context_switches.as_ref().map(|it| words::count(it.median));
    figure(context, request, |_, result| Ok(count(result)))
}

/// `383,986`, and below 10 `0.533`: the median of a figure of the workload's own, in the unit that its name ends with.
pub(super) fn own(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let name = required(request, "name")?;
    let text = |value: f64| if value < 10.0 { words::quantity(value) } else { words::count(value) };
    figure(context, request, |_, result| {
        let found = result.figures.iter().find(|it| it.name == name);
        Ok(found.map(|it| text(it.median)))
    })
}

fn figure(
    context: &Context<'_>,
    request: &Request,
    text: impl Fn(&Report, &ArmResult) -> Result<Option<String>, String>,
) -> Result<Rendered, String> {
    let [file, workload, scheduler] = ["file", "workload", "scheduler"].map(|key| required(request, key));
    let (file, workload, scheduler) = (file?, workload?, scheduler?);
    let report = context.store.get(file)?;
    let within = |error: String| format!("{file}: {error}");
    let result = arm(&report, workload, scheduler).map_err(|error| within(error.to_string()))?;
    let text = text(&report, result).map_err(within)?;
    let text = text.ok_or_else(|| within(format!("{scheduler} has no such figure on {workload}")))?;
    Ok(Rendered { text, pictures: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use super::*;
    use crate::sets::Sets;
    use crate::view::tests::{project, report};
    use std::path::Path;

    fn rendered(marker: &str) -> Result<String, String> {
        let measured =
            report(&[("make:4:16", &[("eevdf", 1.0), ("rr", 1.0), ("flsched", 0.5), ("short", 62e-6)])]);
        let (_folder, store) = project(&[("a.json", &measured)]);
        let context = Context { store: &store, sets: &Sets::default(), document: Path::new("README.md") };
        render(&context, &Request::parse(marker).unwrap()).map(|it| it.text)
    }

    #[test]
    fn figures_for_prose() {
        let text = |marker: &str| rendered(marker).unwrap();
        let of = "file=a.json workload=make:4 scheduler=";
        assert!(text(&format!("ratio {of}flsched")).starts_with("2.00× [1.9"));
        assert!(text(&format!("ratio {of}rr")).starts_with("≈ 1.00× ["));
        assert!(text(&format!("ratio {of}rr over=flsched")).starts_with("0.50× [0."));
        assert!(text(&format!("ratio {of}rr over=eevdf")).starts_with("≈ 1.00× ["));
        assert_eq!(text(&format!("time {of}flsched")), "0.500 s");
        assert_eq!(text(&format!("time {of}short")), "62 µs");
        assert_eq!(text(&format!("switches {of}flsched")), "1,234");
        assert_eq!(text(&format!("figure name=wakeup_p99_us {of}flsched")), "88");
    }

    /// A loss to another one than the first is not hidden by the first one's noise, and a gain is not without it.
    #[test]
    fn noise_of_the_first_is_a_sign_beside_others() {
        let mut measured = report(&[("make:4:16", &[("eevdf", 1.0), ("rr", 1.1), ("flsched", 1.2)])]);
        measured.noise.values_mut().for_each(|noise| noise.threshold = 1.5);
        for (few, expected) in [(5, "0.92× [0.9"), (1, "0.92× (1 run)")] {
            measured.results.iter_mut().for_each(|it| it.times_s.truncate(few));
            let (_folder, store) = project(&[("a.json", &measured)]);
            let context = Context { store: &store, sets: &Sets::default(), document: Path::new("README.md") };
            let marker = "ratio file=a.json workload=make:4 scheduler=flsched over=rr";
            let text = render(&context, &Request::parse(marker).unwrap()).unwrap().text;
            assert!(text.starts_with(expected) && (few == 1 || text.ends_with(", noisy]")), "{text}");
        }
    }

    #[test]
    fn says_what_is_missing() {
        let error = |marker| rendered(marker).unwrap_err();
        assert_eq!(error("ratio file=a.json"), "ratio: workload=… is missing");
        assert!(
            error("ratio file=b.json workload=make scheduler=rr").contains("results/b.json does not exist")
        );
        assert!(
            error("ratio file=a.json workload=make:4 scheduler=fifo").contains("unknown scheduler `fifo`")
        );
    }
}
