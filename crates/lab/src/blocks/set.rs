//! `set`: all comparisons of a set, by kernel; what is not measured yet is named.
use super::words::not_measured;
use super::{Context, Picture, Rendered, SUBJECT, picture, required, table};
use crate::command;
use crate::markers::Request;
use crate::sets::{Comparison, Set};
use crate::view::{Selection, View};
use std::path::{Path, PathBuf};

/// Where its pictures go.
const PICTURES: &str = "docs/pictures";

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let name = required(request, "name")?;
    let set = context.sets.get(name).map_err(|error| error.to_string())?;
    let level: usize = match request.get("level") {
        None => 3,
        Some(text) => text
            .parse()
            .ok()
            .filter(|level| (1..=5).contains(level))
            .ok_or_else(|| format!("level=`{text}` is not a whole number from 1 to 5"))?,
    };
    let with_pictures = match request.get("pictures") {
        None | Some("no") => false,
        Some("yes") => true,
        Some(other) => return Err(format!("pictures=`{other}` is neither `yes` nor `no`")),
    };
    let subject = request.get("subject").unwrap_or(SUBJECT);

    let mut text = format!("{}\n", set.about);
    let mut pictures = Vec::new();
    let mut legend = String::new();
    for kernel in kernels(set) {
        if let Some(kernel) = kernel {
            text.push_str(&format!("\n{} Kernel {kernel}\n", "#".repeat(level)));
        }
        for comparison in set.own_comparisons().filter(|it| it.kernel.as_ref() == kernel) {
            text.push_str(&format!("\n{} {}\n\n", "#".repeat(level + 1), comparison.title));
            let part = section(context, comparison, subject, with_pictures)?;
            // Once for all tables that it explains.
            if part.legend.as_ref().is_some_and(|new| *new != legend) {
                legend = part.legend.unwrap_or_default();
                text.push_str(&format!("{legend}\n\n"));
            }
            text.push_str(&part.text);
            text.push('\n');
            pictures.extend(part.picture);
        }
    }
    Ok(Rendered { text, pictures })
}

/// In the order in which they appear.
fn kernels(set: &Set) -> Vec<Option<&String>> {
    let mut kernels: Vec<Option<&String>> = Vec::new();
    for comparison in &set.comparisons {
        if !kernels.contains(&comparison.kernel.as_ref()) {
            kernels.push(comparison.kernel.as_ref());
        }
    }
    kernels
}

/// A comparison, below its heading.
#[derive(Default)]
struct Section {
    legend: Option<String>,
    text: String,
    picture: Option<Picture>,
}

fn section(
    context: &Context<'_>,
    comparison: &Comparison,
    subject: &str,
    with_picture: bool,
) -> Result<Section, String> {
    let file = comparison.file.as_str();
    if !context.store.has(file) {
        let line = command::wrapped(&command::line(comparison));
        return Ok(Section { text: not_measured(&[line]), ..Section::default() });
    }
    let selection = Selection { files: vec![file], subject, ..Selection::default() };
    let view = View::new(context.store, context.sets, &selection)?;
    let legend = Some(table::legend(&view));
    let table = table::without_legend(&view);
    if !with_picture {
        return Ok(Section { legend, text: table, picture: None });
    }
    let path = Path::new(PICTURES).join(PathBuf::from(file).with_extension("svg"));
    let text = format!("{}\n\n{table}", picture::link(&view, context.document, &path));
    Ok(Section { legend, text, picture: Some(Picture { svg: picture::svg(&view)?, path }) })
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use super::*;
    use crate::sets::Sets;
    use crate::view::tests::{on_clock, project, report};

    #[test]
    fn shows_what_is_measured_and_names_what_is_not() {
        let sets = Sets::parse(
            r#"
            [[set]]
            name = "s"
            about = "Four CPUs."
            on = "vm"
            kernels = ["6.18"]
            cpus = 4
            schedulers = ["eevdf", "flsched"]
            [[set.comparison]]
            name = "build"
            title = "A build"
            workloads = ["make:4"]
            [[set.comparison]]
            name = "barrier"
            workloads = ["spin-barrier:32"]
            [set.floor]
            "#,
        )
        .unwrap();
        let build = on_clock(report(&[("make:4:16", &[("eevdf", 1.0), ("flsched", 0.5)])]), "wall");
        let (_folder, store) = project(&[("s-6.18-build.json", &build)]);
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/results.md") };
        let request = |text| Request::parse(text).unwrap();
        let shown = render(&context, &request("set name=s pictures=yes")).unwrap();
        let text = &shown.text;
        assert!(
            text.starts_with("\nFour CPUs.\n\n### Kernel 6.18\n\n#### A build\n\nSeconds; **bold**"),
            "{text}"
        );
        assert_eq!(text.matches("Seconds; **bold**").count(), 1, "{text}");
        assert!(text.contains("| `make:4:16` | 1.00"), "{text}");
        assert!(
            text.contains("#### barrier\n\nNot measured yet:\n\n```sh\nflsched compare --on vm"),
            "{text}"
        );
        assert!(!text.contains("floor"), "{text}");
        assert_eq!(shown.pictures[0].path, Path::new("docs/pictures/s-6.18-build.svg"));
        assert!(render(&context, &request("set name=t")).unwrap_err().contains("unknown set `t`"));
        assert!(render(&context, &request("set name=s level=9")).unwrap_err().contains("from 1 to 5"));
    }
}
