//! `table`: a row for each workload, a column for each scheduler.
use super::words::{commands, failures, header, noise, quantity, verdict_text, workload};
use super::{Context, Rendered, view};
use crate::markers::Request;
use crate::view::{Row, View};
use flsched_compare::report::words::{seconds, short_interval, short_time};
use flsched_compare::result::ArmResult;
use flsched_compare::verdict::Verdict;

/// With more schedulers the cells hold times only, and the subject's ratio has a column of its own.
const WIDE: usize = 6;

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let view = view(context, request)?;
    Ok(Rendered { text: text(&view), pictures: Vec::new() })
}

/// The table with what belongs above and below.
fn text(view: &View) -> String {
    format!("{}\n\n{}", legend(view), without_legend(view))
}

/// For pages with many tables that one legend explains.
pub(super) fn without_legend(view: &View) -> String {
    let report = &view.reports[0];
    let quantity = quantity(report);
    let wide = is_wide(view);
    let has_floor = view.rows.iter().any(|row| row.floor_s.is_some());
    let ratio_of = view.subject.filter(|subject| wide && *subject > 0);

    let mut titles = vec!["workload".to_string()];
    titles.extend(view.schedulers.iter().map(|name| format!("`{name}`")));
    titles.extend(ratio_of.map(|subject| format!("`{}` ×", view.schedulers[subject])));
    titles.extend(has_floor.then(|| floor_title(quantity, report.cpus)));
    titles.push("noise".into());

    let mut lines = head(&titles);
    for row in view.losses_first() {
        let best = row.best();
        let mut cells = vec![workload(row)];
        for (column, cell) in row.cells.iter().enumerate() {
            let is_best = best.contains(&column);
            cells.push(cell.as_ref().map_or("".into(), |cell| match wide {
                true => short_cell(cell, is_best),
                false => full_cell(cell, is_best, quantity),
            }));
        }
        cells.extend(ratio_of.map(|subject| ratio_cell(row, subject, quantity)));
        cells.extend(has_floor.then(|| row.floor_s.map_or("–".into(), seconds)));
        cells.push(noise(row));
        lines.push(line(&cells));
    }
    format!("{}.\n\n{}\n\n{}", capital(&header(&view.reports)), lines.join("\n"), commands(view))
}

fn is_wide(view: &View) -> bool {
    view.schedulers.len() > WIDE
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Where the clock counts work, more CPUs save nothing.
fn floor_title(quantity: &str, cpus: u32) -> String {
    match quantity {
        "work" => "floor: work on one CPU".into(),
        _ => format!("floor: work on one CPU / {cpus}"),
    }
}

/// What the cells mean.
pub(super) fn legend(view: &View) -> String {
    let first = view.first();
    let quantity = quantity(&view.reports[0]);
    let figures = match quantity {
        "work" => "Seconds of work (10⁹ instructions each)",
        _ => "Seconds",
    };
    let better = if quantity == "work" { "does less work" } else { "is faster" };
    let sign = if is_wide(view) { "≈" } else { "*≈*" };
    format!(
        "{figures}; **bold**: the least of the row, and all within its noise. ×: {quantity} of `{first}` / {quantity} \
         of this scheduler, with its interval; above 1, this one {better}. {sign}: no difference beyond the \
         noise. Noise: `{first}` / `{first}`, from separate runs."
    )
}

/// The first two lines of a table.
pub(super) fn head(titles: &[String]) -> Vec<String> {
    vec![line(titles), format!("|{}", "---|".repeat(titles.len()))]
}

pub(super) fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

pub(super) fn time(cell: &ArmResult, is_best: bool) -> String {
    match cell.time_s {
        Some(time) if is_best => format!("**{}**", short_time(time.median)),
        Some(time) => short_time(time.median),
        None => "–".into(),
    }
}

pub(super) fn full_cell(cell: &ArmResult, is_best: bool, quantity: &str) -> String {
    let below = match cell.verdict {
        Verdict::Baseline => cell.time_s.as_ref().map(short_interval),
        _ => verdict_text(cell, quantity),
    };
    let parts = [Some(time(cell, is_best)), below, failures(cell)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("<br>")
}

fn short_cell(cell: &ArmResult, is_best: bool) -> String {
    let mark = if cell.verdict == Verdict::CantTell && cell.time_s.is_some() { "≈ " } else { "" };
    let parts = [Some(format!("{mark}{}", time(cell, is_best))), failures(cell)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("<br>")
}

fn ratio_cell(row: &Row, subject: usize, quantity: &str) -> String {
    row.cells[subject].as_ref().and_then(|cell| verdict_text(cell, quantity)).unwrap_or_else(|| "–".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::Sets;
    use crate::view::Selection;
    use crate::view::tests::{eject, on_clock, project, report};
    use flsched_compare::Report;

    fn rendered(measured: &Report, floor: Option<&Report>) -> String {
        let mut files = vec![("a.json", measured)];
        files.extend(floor.map(|floor| ("floor.json", floor)));
        let (_folder, store) = project(&files);
        let floor = floor.map(|_| "floor.json");
        let selection =
            Selection { files: vec!["a.json"], subject: "flsched", floor, ..Selection::default() };
        text(&View::new(&store, &Sets::default(), &selection).unwrap())
    }

    fn row<'a>(text: &'a str, workload: &str) -> &'a str {
        text.lines().find(|line| line.starts_with(&format!("| `{workload}`"))).expect("a row")
    }

    #[test]
    fn narrow_tables_have_ratios_beside_times() {
        let mut measured = report(&[
            ("hackbench:process-pipe:4:100", &[("eevdf", 0.652), ("batch", 0.655), ("flsched", 0.385)]),
            ("make:4:16", &[("eevdf", 1.0), ("batch", 0.5), ("flsched", 1.25)]),
        ]);
        eject(&mut measured, "batch");
        let text = rendered(&on_clock(measured, "wall"), None);
        assert!(text.contains("\n\nClock wall · kernel 6.18.15 · 4 CPUs · 5 runs of each"), "{text}");
        assert!(text.contains("2026-11-22 · flsched 0.1.0."), "{text}");
        let messages = row(&text, "hackbench:process-pipe:4:100");
        assert!(messages.contains("| **0.385**<br>1.69× [1.6"), "{messages}");
        assert!(messages.contains("| 0.655<br>*≈ 1.00× [0.9"), "{messages}");
        assert!(messages.contains("*<br>ejected in 1 of 5 runs |"), "{messages}");
        assert!(messages.ends_with("| 0.99–1.02 |"), "{messages}");
        let build = row(&text, "make:4:16");
        assert!(build.contains("1.25<br>0.80× [0.79–0.81] slower"), "{build}");
        assert!(text.find("`make").unwrap() < text.find("`hackbench").unwrap(), "losses first\n{text}");
        assert!(text.contains("```sh\nflsched compare --on vm\n```"), "{text}");
    }

    #[test]
    fn the_floor_has_a_column() {
        let measured = report(&[
            ("spin-barrier:32:50:12500", &[("eevdf", 0.4), ("flsched", 0.3)]),
            ("requests", &[("eevdf", 0.4), ("flsched", 0.3)]),
        ]);
        let mut alone = report(&[("spin-barrier:1:50:12500", &[("eevdf", 0.02)])]);
        alone.cpus = 1;
        let text = rendered(&on_clock(measured.clone(), "wall"), Some(&on_clock(alone.clone(), "wall")));
        assert!(text.contains("| floor: work on one CPU / 4 |"), "{text}");
        assert!(row(&text, "spin-barrier:32:50:12500").contains("| 0.160 |"), "{text}");
        assert!(row(&text, "requests").contains("| – |"), "{text}");
        let text = rendered(&measured, Some(&alone));
        assert!(row(&text, "spin-barrier:32:50:12500").contains("| 0.640 |"), "{text}");
        assert!(
            text.contains("above 1, this one does less work") && text.contains("| floor: work on one CPU |"),
            "{text}"
        );
    }

    #[test]
    fn wide_tables_have_times_and_one_ratio() {
        let schedulers = ["eevdf", "batch", "fifo", "rr", "flsched", "scx_a", "scx_b"];
        let times: Vec<_> =
            schedulers.iter().enumerate().map(|(n, name)| (*name, 1.0 - 0.1 * n as f64)).collect();
        let text = rendered(&on_clock(report(&[("a", &times)]), "wall"), None);
        assert!(text.contains("| `scx_b` | `flsched` × | noise |"), "{text}");
        assert!(row(&text, "a").contains("| 0.600 | 0.500 | **0.400** | 1.67× [1."), "{text}");
    }
}
