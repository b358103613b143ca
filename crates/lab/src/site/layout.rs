//! What is around a page's text, and the search.
use super::html::Section;
use maud::{DOCTYPE, PreEscaped, html};
use serde::Serialize;

/// Of all pages, at the site's top.
pub(crate) const FILES: [(&str, &str); 2] =
    [("site.css", include_str!("site.css")), ("search.js", include_str!("search.js"))];
/// What the search looks through.
pub(crate) const SEARCH_INDEX: &str = "search-index.js";

/// A whole page. `up` leads to the site's top: empty, or like `../`.
pub(crate) fn page(title: &str, up: &str, source: &str, body: &str) -> String {
    let links =
        [("index.html", "FLSCHED"), ("docs/README.html", "All pages"), ("results/index.html", "All results")];
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) @if title != "FLSCHED" { " · FLSCHED" } }
                link rel="stylesheet" href={ (up) "site.css" };
            }
            body {
                header {
                    nav aria-label="site" {
                        @for (path, name) in links { a href={ (up) (path) } { (name) } }
                    }
                    input id="search" type="search" placeholder="Search" aria-label="Search all pages" autocomplete="off"
                        data-up=(up);
                    div id="found" role="region" aria-label="found" aria-live="polite" hidden {}
                }
                main { (PreEscaped(body)) }
                footer { p { "Rendered from " code { (source) } " by flsched-lab " (env!("CARGO_PKG_VERSION")) "." } }
                script src={ (up) "search.js" } {}
            }
        }
    };
    markup.into_string()
}

/// A file of the project that a page links to, as text.
pub(crate) fn source(path: &str, text: &str) -> String {
    html! { h1 { code { (path) } } pre tabindex="0" { code { (text) } } }.into_string()
}

#[derive(Serialize)]
struct Entry<'a> {
    page: &'a str,
    title: &'a str,
    heading: &'a str,
    anchor: &'a str,
    text: String,
}

/// A script that a page loads when somebody searches: pages opened as files cannot read other files.
pub(crate) fn search_index<'a>(
    pages: impl Iterator<Item = (&'a str, &'a str, &'a [Section])>,
) -> serde_json::Result<String> {
    let mut entries = Vec::new();
    for (page, title, sections) in pages {
        entries.extend(
            sections.iter().filter(|it| !it.text.trim().is_empty() || !it.heading.is_empty()).map(|it| {
                Entry {
                    page,
                    title,
                    heading: &it.heading,
                    anchor: &it.anchor,
                    text: it.text.split_whitespace().collect::<Vec<_>>().join(" "),
                }
            }),
        );
    }
    Ok(format!("window.flschedSearch({});\n", serde_json::to_string(&entries)?))
}
