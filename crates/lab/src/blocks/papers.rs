//! `papers`: what the papers report beside what is measured here.
use super::{Context, Rendered, required};
use crate::markers::Request;
use crate::papers::assess::{Judged, assess};
use crate::papers::page;
use crate::papers::paper;
use crate::papers::results::Results;
use flsched_spec::UsageError;

/// `show=tally` of all papers; `show=cited`, `show=summary` or `show=details` of one.
pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    const SHOWN: [&str; 4] = ["tally", "cited", "summary", "details"];
    let papers = paper::load(context.store.root()).map_err(|error| error.to_string())?;
    let results = Results::new(context.store.root());
    let judged = papers.iter().map(|it| assess(it, &results)).collect::<Result<Vec<_>, _>>();
    let judged = judged.map_err(|error| error.to_string())?;
    let one = || -> Result<&Vec<Judged<'_>>, String> {
        let id = required(request, "paper")?;
        let ids: Vec<&str> = papers.iter().map(|it| it.id.as_str()).collect();
        let index = ids.iter().position(|it| *it == id);
        index.map(|it| &judged[it]).ok_or_else(|| UsageError::unknown("paper", id, &ids).to_string())
    };
    let text = match required(request, "show")? {
        "tally" => page::tally(&judged),
        "cited" => one()?.first().map(|it| it.paper.cited.trim().to_string()).unwrap_or_default(),
        "summary" => page::summary(one()?),
        "details" => page::details(one()?, level(request)?),
        other => return Err(UsageError::unknown("part", other, &SHOWN).to_string()),
    };
    Ok(Rendered { text, pictures: Vec::new() })
}

fn level(request: &Request) -> Result<usize, String> {
    let Some(text) = request.get("level") else { return Ok(3) };
    let level = text.parse().ok().filter(|level| (1..=6).contains(level));
    level.ok_or_else(|| format!("level=`{text}` is not a whole number from 1 to 6"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::Sets;
    use crate::store::Store;
    use std::path::Path;

    const PAPER: &str = r#"
        name = "P"
        cited = "Somebody: *P*."
        subject = { name = "p", here = ["flsched"] }
        [[row]]
        id = "table-1"
        place = "Table 1"
        says = "Nothing is slower."
        certainty = "printed"
        missing = "a tool"
    "#;

    fn rendered(marker: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("results/papers")).unwrap();
        std::fs::write(folder.path().join("results/papers/p.toml"), PAPER).unwrap();
        let store = Store::new(folder.path());
        let sets = Sets::default();
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/x.md") };
        super::super::render(&context, &Request::parse(marker).unwrap()).map(|it| it.text)
    }

    #[test]
    fn shows_parts() {
        assert!(rendered("papers show=tally").unwrap().contains("| P | `flsched` | 1 | 0 | 0 | 1 | 0 | 0 |"));
        assert_eq!(rendered("papers show=cited paper=p").unwrap(), "\nSomebody: *P*.\n");
        assert!(
            rendered("papers show=summary paper=p")
                .unwrap()
                .contains("| [Table 1](#table-1) | Nothing is slower. | missing |")
        );
        let details = "\n#### table-1\n\nTable 1 (printed): Nothing is slower.\n\n**Missing**: a tool.\n";
        assert_eq!(rendered("papers show=details paper=p level=4").unwrap(), details);
    }

    #[test]
    fn says_what_there_is_to_show() {
        assert!(rendered("papers show=tali").unwrap_err().contains("did you mean `tally`?"));
        assert!(rendered("papers show=summary").unwrap_err().contains("paper=… is missing"));
        assert!(rendered("papers show=summary paper=q").unwrap_err().contains("unknown paper `q`"));
        assert!(rendered("papers show=details paper=p level=7").unwrap_err().contains("from 1 to 6"));
    }
}
