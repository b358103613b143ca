//! `losses`: the rows of whole sets where another scheduler is faster than the subject, worst first.
//!
//! Sets can share a workload. It is one row for each kernel and number of CPUs, the worst of those measured.
use super::table::{head, line, time};
use super::words::{failures, quantity, workload};
use super::{Context, Rendered, SUBJECT, required};
use crate::markers::Request;
use crate::view::{Row, Selection, View};
use flsched_compare::report::words::ratio;
use flsched_compare::result::ArmResult;
use flsched_compare::stats::Estimate;
use flsched_compare::verdict::{MIN_EFFECT, Verdict, decide};
use std::collections::BTreeSet;

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    required(request, "sets")?;
    let subject = request.get("subject").unwrap_or(SUBJECT);
    let (mut rows, mut lost) = (BTreeSet::new(), Vec::new());
    for name in request.list("sets").unwrap_or_default() {
        let set = context.sets.get(name).map_err(|error| error.to_string())?;
        for comparison in set.own_comparisons().filter(|it| context.store.has(&it.file)) {
            let selection = Selection { files: vec![&comparison.file], subject, ..Selection::default() };
            let view = View::new(context.store, context.sets, &selection)?;
            if quantity(&view.reports[0]) == "work" {
                return Err(format!("{}: on its clock no scheduler is faster", comparison.file));
            }
            let kernel = comparison.kernel.as_deref().unwrap_or(&view.reports[0].kernel);
            let place = format!("{kernel}, {}", view.reports[0].cpus);
            rows.extend(view.rows.iter().map(|row| (place.clone(), workload(row))));
            lost.extend(view.rows.iter().filter_map(|row| Loss::of(&view, row, subject, &place)));
        }
    }
    let by_ratio = |one: &Loss, other: &Loss| one.ratio.value.total_cmp(&other.ratio.value);
    // Of one row the worst comes first: a loss beyond the noise is worse than one within it.
    let by_row = |loss: &Loss| (loss.row(), !loss.is_beyond_noise);
    lost.sort_by(|one, other| by_row(one).cmp(&by_row(other)).then(by_ratio(one, other)));
    lost.dedup_by_key(|it| it.row());
    lost.sort_by(by_ratio);
    Ok(Rendered { text: text(&lost, rows.len(), subject), pictures: Vec::new() })
}

/// A row that is lost.
struct Loss {
    place: String,
    workload: String,
    own: String,
    other: String,
    /// Time of the other / time of the subject.
    ratio: Estimate,
    is_beyond_noise: bool,
}

impl Loss {
    /// The worst of the row: of those beyond the noise, else of all. `None`: the subject is behind no other. Of arms that
    /// differ in how threads wait (`flsched+sleep`) the subject has its fastest.
    fn of(view: &View, row: &Row, subject: &str, place: &str) -> Option<Self> {
        let is_own = |name: &str| name.split('+').next() == Some(subject);
        let arms =
            || view.schedulers.iter().zip(&row.cells).filter_map(|(name, cell)| Some((name, cell.as_ref()?)));
        let median = |arm: &ArmResult| arm.time_s.map_or(f64::INFINITY, |time| time.median);
        let own = arms()
            .filter(|(name, _)| is_own(name))
            .map(|(_, arm)| arm)
            .min_by(|one, other| median(one).total_cmp(&median(other)))?;
        let others = arms().filter(|(name, arm)| !is_own(name) && arm.failed.is_empty());
        let lost = others.filter_map(|(name, other)| Self::to(name, other, own, row, place));
        lost.min_by(|one, other| {
            let is_within = |loss: &Self| !loss.is_beyond_noise;
            is_within(one).cmp(&is_within(other)).then(one.ratio.value.total_cmp(&other.ratio.value))
        })
    }

    /// `None`: the subject is not behind this scheduler, or the intervals of the two overlap.
    fn to(name: &str, other: &ArmResult, own: &ArmResult, row: &Row, place: &str) -> Option<Self> {
        let evidence = own.evidence(other, row.noise);
        let ratio = evidence.ratio;
        let is_beyond_noise = decide(&evidence).0 == Verdict::Worse;
        // The noise is that of the first scheduler, which may be noisier than both of these.
        let is_behind = ratio.is_some_and(|it| it.high < 1.0 && it.value < 1.0 / MIN_EFFECT);
        if !is_beyond_noise && !is_behind && own.failed.is_empty() {
            return None;
        }
        Some(Self {
            place: place.into(),
            workload: workload(row),
            own: [Some(time(own, false)), failures(own)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("<br>"),
            other: format!("`{name}` {}", time(other, false)),
            ratio: ratio.unwrap_or(Estimate::exact(0.0)),
            is_beyond_noise,
        })
    }

    fn row(&self) -> (String, String) {
        (self.place.clone(), self.workload.clone())
    }
}

fn text(lost: &[Loss], rows: usize, subject: &str) -> String {
    let titles = ["kernel, CPUs", "workload", &format!("`{subject}`"), "faster", "×"].map(String::from);
    let mut lines = head(&titles);
    lines.extend(lost.iter().map(|loss| {
        let sign = if loss.is_beyond_noise { "" } else { ", noisy" };
        let ratio =
            format!("{} [{:.2}–{:.2}]{sign}", ratio(loss.ratio.value), loss.ratio.low, loss.ratio.high);
        line(&[loss.place.clone(), loss.workload.clone(), loss.own.clone(), loss.other.clone(), ratio])
    }));
    let sum = format!("{} of {rows} rows", lost.len());
    match lost.is_empty() {
        true => format!("{sum}."),
        false => format!(
            "{sum}. Seconds, medians; ×: time of the faster one / time of `{subject}`, with its \
             interval; of several faster ones the worst loss; noisy: the row's first scheduler differs from itself by more than that.\n\n{}",
            lines.join("\n")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use super::*;
    use crate::sets::Sets;
    use crate::view::tests::{eject, on_clock, project, report};
    use flsched_compare::Report;
    use std::path::Path;

    const SETS: &str = r#"
        [[set]]
        name = "s"
        about = "Four CPUs."
        on = "vm"
        kernels = ["6.18"]
        cpus = 4
        schedulers = ["eevdf", "rr", "flsched"]
        [[set.comparison]]
        name = "all"
        workloads = ["make:4"]
        [[set.comparison]]
        name = "not-measured"
        workloads = ["make:8"]
        [[set]]
        name = "t"
        like = "s"
        about = "Again."
        [[set.comparison]]
        name = "all"
        workloads = ["make:4"]
    "#;

    fn list(measured: &Report, clock: &str) -> Result<String, String> {
        let sets = Sets::parse(SETS).unwrap();
        let (_folder, store) = project(&[("s-6.18-all.json", &on_clock(measured.clone(), clock))]);
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/results.md") };
        render(&context, &Request::parse("losses sets=s").unwrap()).map(|it| it.text)
    }

    #[test]
    fn whoever_is_faster_counts_and_the_worst_comes_first() {
        let mut measured = report(&[
            ("won", &[("eevdf", 1.0), ("rr", 0.6), ("flsched", 0.5)]),
            ("tied", &[("eevdf", 1.0), ("rr", 0.495), ("flsched", 0.5)]),
            ("lost", &[("eevdf", 1.0), ("rr", 0.4), ("flsched", 0.5)]),
            ("worse", &[("eevdf", 1.0), ("rr", 1.5), ("flsched", 2.0)]),
        ]);
        let text = list(&measured, "wall").unwrap();
        assert!(text.starts_with("\n2 of 4 rows. Seconds"), "{text}");
        assert!(text.contains("| 6.18, 4 | `lost` | 0.500 | `rr` 0.400 | 0.80× [0.79–0.81] |"), "{text}");
        assert!(text.contains("| 6.18, 4 | `worse` | 2.00 | `eevdf` 1.00 | 0.50× [0.49–0.51] |"), "{text}");
        assert!(text.find("`worse`").unwrap() < text.find("`lost`").unwrap(), "{text}");
        eject(&mut measured, "rr");
        assert!(!list(&measured, "wall").unwrap().contains("`lost`"), "one that is ejected has not won");
        eject(&mut measured, "flsched");
        assert!(list(&measured, "wall").unwrap().contains("`won` | 0.500<br>ejected in 1 of 5 runs |"));
    }

    #[test]
    fn a_workload_of_two_sets_is_one_row_the_worst_of_both() {
        let times = |flsched| [("eevdf", 1.0), ("rr", 1.5), ("flsched", flsched)];
        let (first, second) = (times(2.0), times(4.0));
        let files = [
            ("s-6.18-all.json", &on_clock(report(&[("a", &first), ("b", &times(0.5))]), "wall")),
            ("t-6.18-all.json", &on_clock(report(&[("a", &second)]), "wall")),
        ];
        let (_folder, store) = project(&files);
        let sets = Sets::parse(SETS).unwrap();
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/results.md") };
        let text = render(&context, &Request::parse("losses sets=s,t").unwrap()).unwrap().text;
        assert!(text.starts_with("\n1 of 2 rows. Seconds"), "{text}");
        assert!(text.contains("| 6.18, 4 | `a` | 4.00 | `eevdf` 1.00 | 0.25×"), "{text}");
    }

    /// The noise is `eevdf`'s.
    #[test]
    fn what_is_within_the_noise_is_listed_with_a_sign() {
        let mut measured = report(&[("lost", &[("eevdf", 1.0), ("rr", 0.4), ("flsched", 0.5)])]);
        measured.noise.get_mut("lost").unwrap().threshold = 1.5;
        let text = list(&measured, "wall").unwrap();
        assert!(
            text.contains("| 6.18, 4 | `lost` | 0.500 | `rr` 0.400 | 0.80× [0.79–0.81], noisy |"),
            "{text}"
        );
    }

    /// The fastest one's interval includes that of the subject.
    #[test]
    fn a_noisy_winner_hides_no_loss_to_another() {
        let mut measured = report(&[("lost", &[("eevdf", 0.45), ("rr", 0.4), ("flsched", 0.5)])]);
        measured.results.iter_mut().find(|it| it.scheduler == "rr").unwrap().times_s =
            vec![0.3, 0.4, 0.4, 0.6, 0.6];
        let text = list(&measured, "wall").unwrap();
        assert!(text.contains("| 6.18, 4 | `lost` | 0.500 | `eevdf` 0.450 | 0.90×"), "{text}");
    }

    #[test]
    fn the_best_way_of_waiting_counts() {
        let ways = [("eevdf", 1.0), ("eevdf+sleep", 0.7), ("flsched", 0.9), ("flsched+sleep", 0.6)];
        assert_eq!(list(&report(&[("a", &ways)]), "wall").unwrap(), "\n0 of 1 rows.\n");
    }

    #[test]
    fn where_the_clock_counts_work_nothing_is_faster() {
        let error = list(&report(&[("a", &[("eevdf", 1.0), ("flsched", 2.0)])]), "instructions").unwrap_err();
        assert!(error.contains("no scheduler is faster"), "{error}");
    }
}
