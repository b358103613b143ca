//! `locks` and `costs`: a part of a report of what scheduling itself costs.
use super::{Context, Rendered, SUBJECT, required};
use crate::markers::Request;
use crate::overhead::{parse_costs, parse_locks};
use flsched_probes::{CostsPart, LocksPart, render_costs_part, render_locks_part};
use flsched_spec::UsageError;

/// Columns of a table in the documentation.
const COLUMNS: u16 = 118;
/// Rows of the locks that were taken, unless a marker has `most=…`.
const MOST: usize = 12;

/// `show=totals`, `show=taken` or `show=waits`.
pub fn locks(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    const SHOWN: [&str; 3] = ["totals", "taken", "waits"];
    let report = context.store.read(required(request, "file")?, parse_locks)?;
    let part = match required(request, "show")? {
        "totals" => LocksPart::Totals,
        "waits" => LocksPart::Waits,
        "taken" => LocksPart::Taken {
            scheduler: request.get("scheduler").unwrap_or(SUBJECT),
            most: match request.get("most") {
                Some(most) => most.parse().map_err(|_| format!("most={most} is not a number of rows"))?,
                None => MOST,
            },
        },
        other => return Err(unknown(other, &SHOWN)),
    };
    Ok(fenced(&render_locks_part(&report, part, COLUMNS)?))
}

/// `show=functions` or `show=callbacks`.
pub fn costs(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    const SHOWN: [&str; 2] = ["functions", "callbacks"];
    let report = context.store.read(required(request, "file")?, parse_costs)?;
    let part = match required(request, "show")? {
        "functions" => CostsPart::Functions,
        "callbacks" => CostsPart::Callbacks,
        other => return Err(unknown(other, &SHOWN)),
    };
    Ok(fenced(&render_costs_part(&report, part, COLUMNS)))
}

fn unknown(part: &str, known: &[&str]) -> String {
    let known: Vec<String> = known.iter().map(|name| name.to_string()).collect();
    UsageError::unknown("part", part, &known).to_string()
}

/// As the terminal shows it.
fn fenced(text: &str) -> Rendered {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Rendered { text: format!("```text\n{}\n```", lines.join("\n").trim_end()), pictures: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::tests::COSTS;
    use crate::sets::Sets;
    use crate::store::Store;
    use std::path::Path;

    fn rendered(marker: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("results")).unwrap();
        std::fs::write(folder.path().join("results/c.json"), COSTS).unwrap();
        let store = Store::new(folder.path());
        let sets = Sets::default();
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/x.md") };
        costs(&context, &Request::parse(marker).unwrap()).map(|it| it.text)
    }

    #[test]
    fn shows_a_part_with_its_source() {
        let text = rendered("costs file=c.json show=functions").unwrap();
        assert!(text.starts_with("```text\n") && text.ends_with("\n```"), "{text}");
        assert!(text.contains("1,200 @ 90 (88)") && text.contains("absent"), "{text}");
        assert!(
            text.contains("kernel 6.18.15+deb13-cloud-amd64 · 4 CPUs · flsched 0.1.0 · sleep 1"),
            "{text}"
        );
        assert!(rendered("costs file=c.json show=callbacks").unwrap().contains("7 @ 12"));
    }

    #[test]
    fn says_what_there_is_to_show() {
        let error = rendered("costs file=c.json show=function").unwrap_err();
        assert!(error.contains("did you mean `functions`?"), "{error}");
        assert!(rendered("costs file=d.json show=functions").unwrap_err().contains("does not exist"));
        assert!(rendered("costs file=c.json").unwrap_err().contains("show=… is missing"));
    }
}
