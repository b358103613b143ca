//! `knobs`: each policy's knobs, lists of processes and statistics, as its source documents them.
use super::table::{head, line};
use super::{Context, Rendered};
use crate::markers::Request;
use flsched_spec::{Knob, Policy};

pub(super) fn render(_: &Context<'_>, _: &Request) -> Result<Rendered, String> {
    let sections: Vec<String> = Policy::all().into_iter().map(section).collect();
    Ok(Rendered { text: sections.join("\n\n"), pictures: Vec::new() })
}

fn section(policy: &Policy) -> String {
    let knobs = policy.knobs.iter().map(|knob| {
        [code(&knob.name), values(knob), code(&knob.show(knob.default)), cell(&knob.doc)].to_vec()
    });
    let lists = policy.lists.iter().map(|list| {
        [code(&list.name), format!("at most {} process ids", list.most), "–".into(), cell(&list.doc)].to_vec()
    });
    let statistics = policy.statistics.iter().map(|it| [code(&it.name), cell(&it.doc)].to_vec());
    format!(
        "## {}\n\n{}\n\n{}",
        policy.name,
        table(&["knob", "values", "default", "meaning"], knobs.chain(lists)),
        table(&["statistic", "event that is counted"], statistics)
    )
}

fn values(knob: &Knob) -> String {
    match knob.names.is_empty() {
        true => format!("{} to {}", knob.min, knob.max),
        false => knob.names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", "),
    }
}

fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let titles: Vec<String> = titles.iter().map(|title| title.to_string()).collect();
    let mut lines = head(&titles);
    lines.extend(rows.map(|cells| line(&cells)));
    lines.join("\n")
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_every_knob_list_and_statistic() {
        for policy in Policy::all() {
            let text = section(policy);
            let knobs = policy.knobs.iter().map(|it| (&it.name, &it.doc));
            let lists = policy.lists.iter().map(|it| (&it.name, &it.doc));
            let statistics = policy.statistics.iter().map(|it| (&it.name, &it.doc));
            for (name, doc) in knobs.chain(lists).chain(statistics) {
                let row = text.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
                assert!(row.is_some_and(|row| row.contains(&cell(doc))), "{name}: {text}");
            }
        }
    }

    #[test]
    fn shows_ranges_and_names() {
        let text = section(Policy::find("flsched").unwrap());
        assert!(text.starts_with("## flsched\n\n| knob |"), "{text}");
        assert!(text.contains("| `slice_us` | 1000 to 10000000 | `100000` |"), "{text}");
        let text = section(Policy::find("smove").unwrap());
        assert!(text.contains("| `strategy` | `smove`, `local`, `off` | `smove` |"), "{text}");
    }
}
