//! `growth`: the comparisons of a set side by side, a column for each number of CPUs.
use super::table::{capital, full_cell, head, legend, line};
use super::words::{commands_of, header, noise, not_measured, quantity};
use super::{Context, Rendered, SUBJECT, required};
use crate::command;
use crate::markers::Request;
use crate::view::{Selection, View};
use std::rc::Rc;

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let set = context.sets.get(required(request, "name")?).map_err(|error| error.to_string())?;
    let schedulers = request.list("schedulers").unwrap_or_default();
    let mut views = Vec::new();
    let mut missing = Vec::new();
    for comparison in set.own_comparisons() {
        let file = comparison.file.as_str();
        if !context.store.has(file) {
            missing.push(command::wrapped(&command::line(comparison)));
            continue;
        }
        let schedulers = schedulers.clone();
        let selection = Selection { files: vec![file], schedulers, subject: SUBJECT, ..Selection::default() };
        views.push((file, View::new(context.store, context.sets, &selection)?));
    }
    check(&views)?;
    let views: Vec<View> = views.into_iter().map(|(_, view)| view).collect();
    let mut parts = Vec::new();
    if !views.is_empty() {
        parts.push(table(&views));
    }
    if !missing.is_empty() {
        parts.push(not_measured(&missing));
    }
    Ok(Rendered { text: parts.join("\n\n"), pictures: Vec::new() })
}

/// Do they differ in the number of CPUs, and in nothing else?
fn check(views: &[(&str, View)]) -> Result<(), String> {
    let Some(((first_file, first), others)) = views.split_first() else { return Ok(()) };
    for (file, view) in others {
        let (one, other) = (&first.reports[0], &view.reports[0]);
        let what = match () {
            _ if one.clock != other.clock => "the clock",
            _ if one.kernel != other.kernel => "the kernel",
            _ if first.schedulers != view.schedulers => "the schedulers",
            _ if first.rows.len() != view.rows.len() => "the number of workloads",
            _ => continue,
        };
        return Err(format!("{first_file} and {file} differ in {what}: they cannot be in one table"));
    }
    Ok(())
}

fn table(views: &[View]) -> String {
    let quantity = quantity(&views[0].reports[0]);
    let mut titles = vec!["workload".to_string(), "scheduler".into()];
    titles.extend(views.iter().map(|view| match view.reports[0].cpus {
        1 => "1 CPU".to_string(),
        cpus => format!("{cpus} CPUs"),
    }));
    let mut lines = head(&titles);
    for index in losses_first(views) {
        let rows: Vec<_> = views.iter().map(|view| &view.rows[index]).collect();
        let best: Vec<_> = rows.iter().map(|row| row.best()).collect();
        let mut name = format!("`{}`", template(views, index));
        for (column, scheduler) in views[0].schedulers.iter().enumerate() {
            let mut cells = vec![std::mem::take(&mut name), format!("`{scheduler}`")];
            cells.extend(rows.iter().zip(&best).map(|(row, best)| {
                let cell = row.cells[column].as_ref();
                cell.map_or("".into(), |cell| full_cell(cell, best.contains(&column), quantity))
            }));
            lines.push(line(&cells));
        }
        let mut cells = vec![String::new(), "noise".into()];
        cells.extend(rows.iter().copied().map(noise));
        lines.push(line(&cells));
    }
    let reports: Vec<Rc<_>> = views.iter().flat_map(|view| view.reports.iter().cloned()).collect();
    let head = capital(&header(&reports));
    format!("{}\n\n{head}.\n\n{}\n\n{}", legend(&views[0]), lines.join("\n"), commands_of(reports.iter()))
}

/// Workloads that the subject loses with some number of CPUs come first.
fn losses_first(views: &[View]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..views[0].rows.len()).collect();
    order.sort_by_key(|index| views.iter().map(|view| view.rank(*index)).min());
    order
}

/// The workload's name, with what grows with the CPUs as a product: `spin-barrier:{8*cpus}:50:12500`.
fn template(views: &[View], index: usize) -> String {
    let names: Vec<Vec<&str>> =
        views.iter().map(|view| view.rows[index].workload.split(':').collect()).collect();
    let field = |(position, text): (usize, &&str)| {
        if names.iter().all(|name| name.get(position) == Some(text)) {
            return text.to_string();
        }
        let factor = |(view, name): (&View, &Vec<&str>)| {
            let number: u32 = name.get(position)?.parse().ok()?;
            let cpus = view.reports[0].cpus;
            number.is_multiple_of(cpus).then_some(number / cpus)
        };
        let factors: Vec<Option<u32>> = views.iter().zip(&names).map(factor).collect();
        match factors[0].filter(|_| factors.iter().all(|it| *it == factors[0])) {
            Some(1) => "{cpus}".into(),
            Some(factor) => format!("{{{factor}*cpus}}"),
            None => "…".into(),
        }
    };
    names[0].iter().enumerate().map(field).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use super::*;
    use crate::sets::Sets;
    use crate::view::tests::{on_clock, project, report};
    use flsched_compare::Report;
    use std::path::Path;

    const SETS: &str = r#"
        [[set]]
        name = "g"
        about = "More and more CPUs."
        on = "vm"
        kernels = ["6.18"]
        schedulers = ["eevdf", "flsched"]
        workloads = ["make:{cpus}", "spin-barrier:{8*cpus}:50"]
        [[set.comparison]]
        name = "four"
        cpus = 4
        [[set.comparison]]
        name = "eight"
        cpus = 8
        [[set.comparison]]
        name = "sixteen"
        cpus = 16
    "#;

    fn measured(cpus: u32, flsched: f64) -> Report {
        let names = [format!("make:{cpus}:16"), format!("spin-barrier:{}:50:12500", 8 * cpus)];
        let made = report(&[
            (&names[0], &[("eevdf", 1.0), ("flsched", 0.5)]),
            (&names[1], &[("eevdf", 1.0), ("flsched", flsched)]),
        ]);
        Report { cpus, ..on_clock(made, "wall") }
    }

    fn rendered(reports: &[(&str, &Report)]) -> Result<String, String> {
        let sets = Sets::parse(SETS).unwrap();
        let (_folder, store) = project(reports);
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/results.md") };
        render(&context, &Request::parse("growth name=g").unwrap()).map(|it| it.text)
    }

    #[test]
    fn a_column_for_each_number_of_cpus() {
        let (four, eight) = (measured(4, 0.5), measured(8, 2.0));
        let text = rendered(&[("g-6.18-four.json", &four), ("g-6.18-eight.json", &eight)]).unwrap();
        assert!(text.contains("· kernel 6.18.15 · 4, 8 CPUs ·"), "{text}");
        assert!(text.contains("| workload | scheduler | 4 CPUs | 8 CPUs |\n"), "{text}");
        assert!(text.contains("| `spin-barrier:{8*cpus}:50:12500` | `eevdf` |"), "{text}");
        assert!(text.contains("| `make:{cpus}:16` | `eevdf` |"), "{text}");
        assert!(text.find("`spin").unwrap() < text.find("`make").unwrap(), "losses first\n{text}");
        assert!(text.contains("|  | `flsched` | **0.500**<br>2.00×"), "{text}");
        assert!(text.contains("2.00<br>0.50× [0.49–0.51] slower |\n|  | noise | 0.99–1.02 |"), "{text}");
        assert!(text.contains("Not measured yet:\n\n```sh\nflsched compare"), "{text}");
        assert!(text.contains("--cpus 16"), "{text}");
    }

    #[test]
    fn what_is_not_the_same_but_for_the_cpus_is_refused() {
        let (four, eight) = (measured(4, 0.5), on_clock(measured(8, 0.5), "parallel"));
        let error = rendered(&[("g-6.18-four.json", &four), ("g-6.18-eight.json", &eight)]).unwrap_err();
        assert!(error.contains("differ in the clock"), "{error}");
    }
}
