//! The report as a table for the terminal.
use super::view::{Row, Value, View, Workload};
use super::why;
use super::words::Terms;
use crate::result::Report;
use crate::verdict::Verdict;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table, Width,
    presets,
};
use std::fmt::Write;

/// The columns' names; the second one depends on the clock.
const HEADER: [&str; 7] = ["scheduler", "", "× first", "verdict", "switches", "migrations", "ejected"];

/// Largest width that is reserved for a scheduler's name, in columns.
const MAX_NAME: u16 = 24;

/// Properties of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Its width in columns.
    pub width: u16,
    /// Whether it shows colours.
    pub color: bool,
}

/// One table for each workload, with the information needed to read it.
pub fn render(report: &Report, style: Style) -> String {
    let view = View::new(report);
    let mut text = String::new();
    for workload in &view.workloads {
        add_workload(&mut text, workload, &view, style);
    }
    text.push('\n');
    for line in caption(&view) {
        add(&mut text, &line, style);
    }
    text
}

fn add_workload(text: &mut String, workload: &Workload<'_>, view: &View<'_>, style: Style) {
    let _ = writeln!(text, "\n{}\n{}", workload.name, table(&workload.rows, style, view.terms));
    if let Some(time_is) = &workload.time_is {
        let _ = writeln!(text, "{time_is}; medians of its other figures:");
    }
    if let Some(published) = &workload.published {
        add(text, published, style);
    }
    if let Some(breakdown) = why::table(&workload.rows, style.width) {
        let _ = writeln!(text, "\n{breakdown}");
        for shares in workload.rows.iter().filter_map(|row| row.shares.as_ref()) {
            add(text, &format!("{}: {}", shares.scheduler, shares.counts), style);
        }
    }
    for row in &workload.rows {
        for line in &row.figures {
            add(text, &format!("{}: {line}", row.scheduler), style);
        }
        for loss in &row.losses {
            add(text, &format!("! {}: {loss}", row.scheduler), style);
        }
    }
    if let Some(loss) = &workload.loss_of_all {
        add(text, &format!("! all: {loss}"), style);
    }
}

/// A line, or several if it is long.
fn add(text: &mut String, line: &str, style: Style) {
    let _ = writeln!(text, "{}", wrap(line, style.width, "  "));
}

fn table(rows: &[Row<'_>], style: Style, terms: &Terms) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width);
    if style.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let mut header = HEADER.map(String::from);
    header[1] = format!("{} s", terms.noun);
    table.set_header(header.iter().enumerate().map(|(index, name)| aligned(name, index)));
    for row in rows {
        let cells = [
            row.scheduler.to_string(),
            Value::cell(row.time.as_ref()),
            Value::cell(row.ratio.as_ref()),
            row.verdict.to_string(),
            row.switches.clone(),
            row.migrations.clone(),
            if row.ejected > 0 { format!("{}/{}", row.ejected, row.runs) } else { "0".into() },
        ];
        table.add_row(cells.iter().enumerate().map(|(index, text)| {
            let cell = aligned(text, index);
            if style.color { coloured(cell, HEADER[index], row) } else { cell }
        }));
    }
    // Names are wrapped only if they are very long; figures are wrapped at their spaces.
    let longest = rows.iter().map(|row| row.scheduler.chars().count()).max().unwrap_or(0);
    if let Some(names) = table.column_mut(0) {
        let width = u16::try_from(longest).unwrap_or(u16::MAX).min(MAX_NAME) + 2;
        names.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
    }
    // Two spaces between columns and none around them: then the table fits into 100 columns.
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 < HEADER.len() { 2 } else { 0 }));
    }
    table
}

/// A cell: names are aligned to the left, figures to the right.
fn aligned(text: &str, column: usize) -> Cell {
    let alignment = match column {
        0 | 3 => CellAlignment::Left,
        _ => CellAlignment::Right,
    };
    Cell::new(text).set_alignment(alignment)
}

fn coloured(cell: Cell, column: &str, row: &Row<'_>) -> Cell {
    match (column, row.verdict) {
        ("verdict", Verdict::Better) => cell.fg(Color::Green).add_attribute(Attribute::Bold),
        ("verdict", Verdict::Worse) => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        ("ejected", _) if row.ejected > 0 => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        ("scheduler", _) if row.is_again => cell.add_attribute(Attribute::Dim),
        _ => cell,
    }
}

/// Everything that a result must name besides itself.
fn caption(view: &View<'_>) -> Vec<String> {
    let View { clock_words, kernel, cpus, runs, seed, versions, proof, .. } = view;
    let place = view.place.as_ref().map(|place| format!(" {place}")).unwrap_or_default();
    let mut lines = vec![
        format!(
            "{clock_words} · kernel {kernel} · {cpus} CPUs{place} · {runs} runs of each, interleaved, seed {seed}"
        ),
        format!("{versions} · {proof}"),
    ];
    if !view.noise.is_empty() {
        lines.push(format!("noise (the first scheduler against itself): {}", view.noise.join(", ")));
    }
    let Terms { noun, better, .. } = view.terms;
    lines.push(format!(
        "× first: {noun} of the first scheduler / {noun} of this one, above 1 is {better}; \
         medians [interval]"
    ));
    if view.has_shares {
        lines.push(why::LEGEND.into());
    }
    lines.extend(view.policy_files.iter().cloned());
    lines.extend(view.warnings.iter().map(|warning| format!("! {warning}")));
    if !view.complete {
        lines.push("! incomplete: not all runs were done".into());
    }
    lines
}

/// Wraps a line at spaces and indents all but the first part.
fn wrap(line: &str, width: u16, indent: &str) -> String {
    let width = usize::from(width).max(20);
    let mut text = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push('\n');
            text.push_str(indent);
            column = indent.chars().count();
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::{broken_down, sample};
    use flsched_spec::workload::Published;

    fn render_at(width: u16, color: bool) -> String {
        render(&sample(), Style { width, color })
    }

    #[test]
    fn fits_the_terminal() {
        for width in [80, 100, 120] {
            let text = render_at(width, false);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(width), "{longest} > {width}\n{text}");
        }
    }

    #[test]
    fn names_stay_whole() {
        let mut report = sample();
        let name = "eevdf:slice_us=100000";
        report.results.iter_mut().for_each(|result| result.scheduler = name.into());
        let text = render(&report, Style { width: 80, color: false });
        assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{text}");
    }

    #[test]
    fn no_colour_codes_unless_asked_for() {
        assert!(!render_at(100, false).contains('\x1b'));
        assert!(render_at(100, true).contains('\x1b'));
    }

    #[test]
    fn says_everything_that_a_result_must_name() {
        let text = render_at(1000, false);
        for needed in [
            "parallel clock",
            "turn 1000, pause 140 ns",
            "time s",
            "above 1 is faster",
            "kernel 6.18.15",
            "4 CPUs",
            "5 runs of each",
            "seed 42",
            "noise",
            "better",
            "worse",
            "can't tell",
            "25,028",
            "ejected by the kernel in 1 of 5 runs",
        ] {
            assert!(text.contains(needed), "{needed} is missing in\n{text}");
        }
    }

    #[test]
    fn work_is_no_time() {
        let mut report = sample();
        report.clock = crate::clock::Clock::Work;
        let text = render(&report, Style { width: 100, color: false });
        for needed in ["work clock", "work s", "work of the first scheduler", "above 1 is less work"] {
            assert!(text.contains(needed), "{needed} is missing in\n{text}");
        }
        for wrong in ["time s", "faster", "slower"] {
            assert!(!text.contains(wrong), "{wrong} in\n{text}");
        }
    }

    #[test]
    fn sets_the_published_gain_beside_ours() {
        let mut report = sample();
        let workload = report.results[0].workload.clone();
        let published = Published { what: "RR2 over RR, Table I, test 2".into(), gain_percent: 16.02 };
        report.published.insert(workload, published);
        let text = render(&report, Style { width: 1000, color: false });
        let line = text.lines().find(|line| line.starts_with("published gain")).expect("a line");
        assert!(line.contains("+16.02 % (RR2 over RR, Table I, test 2); here over eevdf: "), "{line}");
    }

    #[test]
    fn the_breakdown_stands_below_its_workload() {
        for width in [80, 100] {
            let text = render(&broken_down(), Style { width, color: false });
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(width), "{longest} > {width}\n{text}");
            let mut lines = text.lines().skip_while(|line| !line.contains("vain"));
            let words = |line: Option<&str>| -> Vec<String> {
                line.unwrap_or_default().split_whitespace().map(String::from).collect()
            };
            let names = words(lines.next());
            let row = words(lines.find(|line| line.starts_with("flsched ")));
            let figure = |name: &str| names.iter().position(|it| it == name).map(|index| row[index].as_str());
            for (name, value) in [("user", "60.0"), ("vain", "4.0"), ("kern", "15.0"), ("idle", "25.0")] {
                assert_eq!(figure(name), Some(value), "{name}\n{text}");
            }
            assert!(text.contains("probe it was 5.0 % longer"), "{text}");
        }
    }

    #[test]
    fn a_failed_breakdown_is_reported() {
        let mut report = sample();
        report.results[0].why_failed = Some("no BTF".into());
        let text = render(&report, Style { width: 100, color: false });
        assert!(text.contains("! eevdf: no breakdown of the CPU time: no BTF"), "{text}");
    }

    #[test]
    fn wraps_at_spaces() {
        assert_eq!(wrap("aaaa bbbb cccc dddd eeee ffff", 20, "  "), "aaaa bbbb cccc dddd\n  eeee ffff");
    }
}
