//! Puts blocks into the documentation, or reports where it is out of date.
use crate::blocks::{self, Context, Picture, kind};
use crate::markers::{self, Block, Request};
use crate::sets::Sets;
use crate::store::Store;
use anyhow::{Context as _, Result};
use flsched_base::files::replace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the documentation should be, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Rendering {
    /// Documents and pictures whose content would change, under the project's folder.
    pub changes: Vec<(PathBuf, String)>,
    /// A line for each block, or picture, that differs from what it would be.
    pub differences: Vec<String>,
    /// A line for each marker that cannot be carried out.
    pub errors: Vec<String>,
}

/// Pictures by path, each with the place that shows it.
pub(crate) type Pictures = BTreeMap<PathBuf, (String, String)>;

/// Renders all documents of the project in this folder, and writes nothing.
pub fn render(root: &Path) -> Result<Rendering> {
    let sets = Sets::load(root)?;
    let store = Store::new(root);
    let mut rendering = Rendering::default();
    let mut pictures = Pictures::new();
    for document in documents(root, false)? {
        let text = std::fs::read_to_string(root.join(&document))
            .with_context(|| format!("cannot read {}", document.display()))?;
        let context = Context { store: &store, sets: &sets, document: &document };
        let rendered = of_document(&context, &text, &mut rendering, &mut pictures);
        if rendered != text {
            rendering.changes.push((document, rendered));
        }
    }
    for (path, (svg, place)) in pictures {
        let old = std::fs::read_to_string(root.join(&path)).ok();
        if old.as_deref() == Some(&svg) {
            continue;
        }
        let state = if old.is_some() { "differs from the reports" } else { "does not exist" };
        rendering.differences.push(format!("{}: {state} ({place})", path.display()));
        rendering.changes.push((path, svg));
    }
    Ok(rendering)
}

/// Writes what [`render`] found to change.
pub fn write(root: &Path, rendering: &Rendering) -> Result<()> {
    for (path, content) in &rendering.changes {
        let full = root.join(path);
        if let Some(folder) = full.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        replace(&full, content.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// README.md and all of docs/, under the project's folder; for the site, all documents of the top folder.
pub(crate) fn documents(root: &Path, all: bool) -> Result<Vec<PathBuf>> {
    let folder = glob::Pattern::escape(&root.to_string_lossy());
    let patterns = [if all { "*.md" } else { "README.md" }, "docs/**/*.md"];
    let mut documents = Vec::new();
    for pattern in patterns {
        for path in glob::glob(&format!("{folder}/{pattern}"))? {
            documents.push(path?.strip_prefix(root)?.to_path_buf());
        }
    }
    Ok(documents)
}

/// The document with all blocks filled; blocks with errors stay as they are.
pub(crate) fn of_document(
    context: &Context<'_>,
    text: &str,
    rendering: &mut Rendering,
    pictures: &mut Pictures,
) -> String {
    let document = context.document.display();
    let blocks = match markers::find(text) {
        Ok(blocks) => blocks,
        Err((line, what)) => {
            rendering.errors.push(format!("{document}:{line}: {what}"));
            return text.to_string();
        }
    };
    let mut out = String::new();
    let mut at = 0;
    for block in blocks {
        let place = format!("{document}:{}: {}", block.line, block.text);
        let old = &text[block.content.clone()];
        out.push_str(&text[at..block.content.start]);
        at = block.content.end;
        let rendered = of_block(context, &block).and_then(|rendered| {
            rendered.pictures.into_iter().try_for_each(|it| keep(pictures, it, &place))?;
            Ok(rendered.text)
        });
        match rendered {
            Ok(new) => {
                if new != old {
                    rendering.differences.push(format!("{place}: differs from the reports"));
                }
                out.push_str(&new);
            }
            Err(error) => {
                rendering.errors.push(format!("{place}: {error}"));
                out.push_str(old);
            }
        }
    }
    out.push_str(&text[at..]);
    out
}

fn of_block(context: &Context<'_>, block: &Block) -> Result<blocks::Rendered, String> {
    let request = Request::parse(&block.text).map_err(|error| error.to_string())?;
    let inline = kind(&request).map_err(|error| error.to_string())?.inline;
    match (inline, block.starts_line) {
        (true, true) => {
            Err("a line that begins with a marker is HTML to Markdown: put a word before it".into())
        }
        (false, false) => {
            Err(format!("a {} needs lines of its own: begin a line with the marker", request.kind))
        }
        _ => blocks::render(context, &request),
    }
}

/// Two blocks may show the same picture, but not different ones under one name.
fn keep(pictures: &mut Pictures, picture: Picture, place: &str) -> Result<(), String> {
    match pictures.get(&picture.path) {
        Some((svg, other)) if *svg != picture.svg => {
            Err(format!("{} is another picture in {other}", picture.path.display()))
        }
        _ => {
            pictures.insert(picture.path, (picture.svg, place.to_string()));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{project, report};
    use flsched_compare::Report;

    const SETS: &str = "[[set]]\nname = \"s\"\nabout = \"a\"\nschedulers = [\"eevdf\"]\n\
                        [[set.comparison]]\nname = \"c\"\nworkloads = [\"make\"]\n";

    fn measured() -> Report {
        report(&[("make:4:16", &[("eevdf", 1.0), ("flsched", 0.5)])])
    }

    fn with_documents(readme: &str, other: &str) -> tempfile::TempDir {
        let (folder, _) = project(&[("a.json", &measured())]);
        let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        write("results/sets.toml", SETS);
        write("README.md", readme);
        write("docs/x.md", other);
        folder
    }

    #[test]
    fn writes_once_and_then_nothing() {
        let folder = with_documents(
            "It is <!-- results: time file=a.json workload=make:4 scheduler=eevdf -->?<!-- /results -->.\n",
            "<!-- results: picture file=a.json out=docs/pictures/a.svg -->\n<!-- /results -->\nend\n",
        );
        let first = render(folder.path()).unwrap();
        assert!(first.errors.is_empty(), "{:?}", first.errors);
        assert_eq!(first.differences.len(), 3, "{:?}", first.differences);
        assert!(first.differences[0].starts_with("README.md:1: time file=a.json"));
        assert!(first.differences[2].starts_with("docs/pictures/a.svg: does not exist (docs/x.md:1"));
        write(folder.path(), &first).unwrap();
        let read = |file| std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(read("README.md").contains("-->1.00 s<!--"));
        assert!(read("docs/x.md").contains("\n![work of each workload"), "{}", read("docs/x.md"));
        let again = render(folder.path()).unwrap();
        assert!(again.differences.is_empty() && again.changes.is_empty(), "{again:?}");
        std::fs::write(folder.path().join("docs/pictures/a.svg"), "old").unwrap();
        assert!(render(folder.path()).unwrap().differences[0].contains("differs"));
    }

    #[test]
    fn errors_name_the_place_and_spare_the_rest() {
        let folder = with_documents(
            "<!-- results: time file=a.json workload=make:4 scheduler=eevdf --><!-- /results -->\n\
             x <!-- results: table file=a.json --><!-- /results -->\n\
             <!-- results: table file=b.json -->\nkept\n<!-- /results -->\n\
             <!-- results: nothing -->\n<!-- /results -->\n",
            "<!-- results: table file=a.json -->\n",
        );
        let rendering = render(folder.path()).unwrap();
        let starts = [
            "README.md:1: time",
            "README.md:2: table",
            "README.md:3: table",
            "README.md:6: nothing",
            "docs/x.md:1: ",
        ];
        assert_eq!(rendering.errors.len(), starts.len(), "{:?}", rendering.errors);
        for (error, start) in rendering.errors.iter().zip(starts) {
            assert!(error.starts_with(start) && !error.contains('\n'), "{error}");
        }
        assert!(rendering.errors[2].contains("results/b.json does not exist"));
        assert!(rendering.changes.is_empty());
    }

    #[test]
    fn one_name_is_one_picture() {
        let folder = with_documents(
            "",
            "<!-- results: picture file=a.json out=docs/a.svg -->\n<!-- /results -->\n\
             <!-- results: picture file=a.json out=docs/a.svg schedulers=eevdf -->\n<!-- /results -->\n\
             <!-- results: picture file=a.json out=../a.svg -->\n<!-- /results -->\n",
        );
        let errors = render(folder.path()).unwrap().errors;
        assert!(errors[0].contains("docs/a.svg is another picture in docs/x.md:1"), "{errors:?}");
        assert!(errors[1].contains("is not like docs/pictures/NAME.svg"), "{errors:?}");
    }
}
