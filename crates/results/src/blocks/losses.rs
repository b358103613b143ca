//! `losses`: where the subject is worse than the first scheduler, as a list.
use super::words::{failures, quantity, ratio_text};
use super::{Context, Rendered, SUBJECT, view};
use crate::markers::Request;
use crate::view::View;
use flsched_compare::verdict::Verdict;
use flsched_spec::UsageError;

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let view = view(context, request)?;
    let subject = view.subject.ok_or_else(|| {
        UsageError::unknown("scheduler", request.get("subject").unwrap_or(SUBJECT), &view.schedulers)
            .to_string()
    })?;
    Ok(Rendered { text: text(&view, subject), pictures: Vec::new() })
}

/// A line for each workload that was lost.
fn text(view: &View, subject: usize) -> String {
    let more = if quantity(&view.reports[0]) == "work" { "more work" } else { "slower" };
    let line = |row: &&crate::view::Row| {
        let cell = row.cells[subject].as_ref()?;
        let lost = (cell.verdict == Verdict::Worse).then(|| ratio_text(cell)).flatten();
        let lost = lost.map(|ratio| format!("{ratio}, {more} than `{}`", view.first()));
        let parts: Vec<String> = [lost, failures(cell)].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("- `{}`: {}", row.workload, parts.join("; ")))
    };
    let lines: Vec<String> = view.losses_first().iter().filter_map(line).collect();
    match lines.is_empty() {
        true => format!("- none of {} workloads", view.rows.len()),
        false => lines.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::Sets;
    use crate::view::Selection;
    use crate::view::tests::{eject, on_clock, project, report};

    #[test]
    fn lists_what_was_lost() {
        let mut measured = report(&[
            ("a", &[("eevdf", 1.0), ("flsched", 0.5)]),
            ("b", &[("eevdf", 1.0), ("flsched", 1.25)]),
        ]);
        let list = |measured| {
            let (_folder, store) = project(&[("a.json", &on_clock(measured, "wall"))]);
            let selection = Selection { files: vec!["a.json"], subject: "flsched", ..Selection::default() };
            let view = View::new(&store, &Sets::default(), &selection).unwrap();
            text(&view, view.subject.unwrap())
        };
        assert_eq!(list(measured.clone()), "- `b`: 0.80× [0.79–0.81], slower than `eevdf`");
        eject(&mut measured, "flsched");
        assert!(list(measured).starts_with("- `a`: ejected in 1 of 5 runs\n- `b`: 0.80"));
        let won = report(&[("a", &[("eevdf", 1.0), ("flsched", 0.5)])]);
        assert_eq!(list(won), "- none of 1 workloads");
    }
}
