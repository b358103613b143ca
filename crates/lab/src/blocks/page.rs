//! `page`: a link to a page of results. The site has these pages; elsewhere the link leads to how the site is built.
use super::{Context, Rendered, relative, required};
use crate::markers::Request;
use crate::site;
use std::path::Path;

/// The document that says how the site is built, and the heading there.
const HOW: (&str, &str) = ("docs/reference/published-figures.md", "the-site");

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let name = required(request, "name")?;
    site::check(context.sets, context.store, name)?;
    let (document, heading) = HOW;
    let to = relative(context.document, Path::new(document));
    Ok(Rendered { text: format!("[{name}]({}#{heading})", to.display()), pictures: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::super::render;
    use super::*;
    use crate::sets::Sets;
    use crate::view::tests::project;

    #[test]
    fn links_to_pages_that_there_are() {
        let (_folder, store) = project(&[]);
        let comparison =
            "[[set.comparison]]\nname = \"a\"\nschedulers = [\"eevdf\"]\nworkloads = [\"make\"]\n";
        let sets = Sets::parse(&format!("[[set]]\nname = \"s\"\nabout = \"Few.\"\n{comparison}")).unwrap();
        let context = Context { store: &store, sets: &sets, document: Path::new("docs/results/x.md") };
        let text = |marker| render(&context, &Request::parse(marker).unwrap()).map(|it| it.text);
        assert_eq!(text("page name=s").unwrap(), "[s](../reference/published-figures.md#the-site)");
        assert!(text("page name=z").unwrap_err().contains("unknown page of results `z`"));
    }
}
