//! `sweep`: how times depend on one number, as a picture and a table. `ahead`: with which of its values a scheduler is ahead of
//! another.
use super::picture::{out, relative};
use super::table::capital;
use super::{Context, Picture, Rendered, required};
use crate::command;
use crate::markers::Request;
use crate::sweeps::parse;
use flsched_compare::report::words::seconds;
use flsched_sim::sweep::{Curve, Report, svg};

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let report = context.store.read(required(request, "file")?, parse)?;
    let path = out(request)?;
    let alt = format!("time over {}: {}", report.setting, place(&report)).replace(['[', ']'], "");
    let link = format!("![{alt}]({})", relative(context.document, &path).display());
    let text = format!(
        "{link}\n\n<details><summary>In seconds, and the command</summary>\n\n{}\n\n```sh\n{}\n```\n\n</details>",
        table(&report),
        command::wrapped(&report.command_line)
    );
    Ok(Rendered { text, pictures: vec![Picture { svg: svg(&report)?, path }] })
}

/// What it was measured on.
fn place(report: &Report) -> String {
    let runs = match report.runs {
        1 => format!("1 run of each, seed {}", report.seed),
        runs => {
            format!("medians of {runs} runs of each, seeds {} to {}", report.seed, report.seed + runs - 1)
        }
    };
    format!(
        "clock model · model of {} · {} · {runs} · flsched {}",
        report.machine, report.workload, report.flsched_version
    )
}

/// A row for each value, a column for each scheduler.
fn table(report: &Report) -> String {
    let names = report.curves.iter().map(|curve| format!(" `{}` |", curve.scheduler));
    let mut text =
        format!("{}. Medians, with the least and the most of the runs.\n\n", capital(&place(report)));
    text += &format!(
        "| `{}` |{}\n|---|{}\n",
        report.setting,
        names.collect::<String>(),
        "---|".repeat(report.curves.len())
    );
    for (index, value) in report.values.iter().enumerate() {
        let cells = report.curves.iter().map(|curve| {
            let (median, low, high) = curve.at(index);
            match report.runs {
                1 => format!(" {} |", seconds(median)),
                _ => format!(" {} [{}–{}] |", seconds(median), seconds(low), seconds(high)),
            }
        });
        text += &format!("| {value} |{}\n", cells.collect::<String>());
    }
    text.trim_end().to_owned()
}

/// Where each run is faster than each run of the other one.
pub(super) fn ahead(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let file = required(request, "file")?;
    let report = context.store.read(file, parse)?;
    let curve = |key: &str| -> Result<&Curve, String> {
        let name = required(request, key)?;
        report.curve(name).ok_or_else(|| format!("{file}: it has no scheduler `{name}`"))
    };
    let (one, other) = (curve("scheduler")?, curve("over")?);
    let is_ahead: Vec<bool> = (0..report.values.len()).map(|at| one.at(at).2 < other.at(at).1).collect();
    Ok(Rendered { text: values_where(&report.values, &is_ahead), pictures: Vec::new() })
}

/// Those values, in words.
fn values_where(values: &[String], chosen: &[bool]) -> String {
    let first = chosen.iter().position(|it| *it);
    let last = chosen.iter().rposition(|it| *it);
    let (Some(first), Some(last)) = (first, last) else { return "with no value".into() };
    match chosen[first..=last].iter().all(|it| *it) {
        true if last - first + 1 == values.len() => "with every value".into(),
        true if last == first => format!("with {}", values[first]),
        true if last + 1 == values.len() => format!("from {} on", values[first]),
        true if first == 0 => format!("up to {}", values[last]),
        true => format!("from {} to {}", values[first], values[last]),
        false => {
            let each = values.iter().zip(chosen).filter(|(_, it)| **it).map(|(value, _)| value.as_str());
            format!("with {}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use super::*;
    use crate::sets::Sets;
    use crate::sweeps::tests::report;
    use crate::view::tests::project;
    use std::path::Path;

    fn rendered(marker: &str) -> Result<Rendered, String> {
        let (folder, store) = project(&[]);
        let bytes = flsched_base::reports::bytes(&report()).unwrap();
        std::fs::write(folder.path().join("results/s.json"), bytes).unwrap();
        let context = Context { store: &store, sets: &Sets::default(), document: Path::new("docs/x.md") };
        render(&context, &Request::parse(marker).unwrap())
    }

    #[test]
    fn shows_a_picture_and_all_numbers() {
        let rendered = rendered("sweep file=s.json out=docs/pictures/s.svg").unwrap();
        let text = &rendered.text;
        assert!(text.contains("](pictures/s.svg)") && text.contains("seeds 1 to 2"), "{text}");
        assert!(text.contains("| 200 | 1.50 [1.50–1.50] | 1.20 [1.20–1.20] |"), "{text}");
        assert!(text.contains("flsched sim sweep --machine knc-31s1p"), "{text}");
        let svg = &rendered.pictures[0].svg;
        assert!(["tick_hz", "fifo", "medians of 2 seeds"].iter().all(|word| svg.contains(word)), "{svg}");
    }

    #[test]
    fn says_with_which_values_one_is_ahead() {
        let text = |marker: &str| rendered(marker).map(|it| it.text);
        assert_eq!(text("ahead file=s.json scheduler=fifo over=cfs").unwrap(), "from 200 on");
        assert_eq!(text("ahead file=s.json scheduler=cfs over=fifo").unwrap(), "with no value");
        assert!(text("ahead file=s.json scheduler=rr over=cfs").unwrap_err().contains("no scheduler `rr`"));
        let of = |chosen: &[bool]| values_where(&["1", "2", "3", "4"].map(String::from), chosen);
        assert_eq!(of(&[true; 4]), "with every value");
        assert_eq!(of(&[true, true, false, false]), "up to 2");
        assert_eq!(of(&[false, true, true, false]), "from 2 to 3");
        assert_eq!(of(&[true, false, false, true]), "with 1, 4");
        assert_eq!(of(&[false, true, false, false]), "with 2");
    }
}
