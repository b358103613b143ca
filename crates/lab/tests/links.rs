//! Every relative link of README.md and docs/ leads to a file of the project, and to a heading there.
use flsched_lab::site::Anchors;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The links of a document, and the anchors of its headings.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        let mut anchors = Anchors::default();
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    page.anchors.insert(anchors.next(&heading.take().unwrap_or_default()));
                }
                _ => {}
            }
        }
        page
    }
}

/// The pages of the top folder and all pages of docs/, by path.
fn pages(root: &Path) -> BTreeMap<PathBuf, Page> {
    let found = ["*.md", "docs/**/*.md"].into_iter().flat_map(|pattern| {
        let pattern = root.join(pattern);
        glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap)
    });
    let read = |path: PathBuf| (path.clone(), Page::parse(&std::fs::read_to_string(path).unwrap()));
    found.map(read).collect()
}

/// Why a link of this page leads nowhere; `None`: it is not relative, or is right.
fn broken(pages: &BTreeMap<PathBuf, Page>, page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_path_buf(),
        file => match page.parent()?.join(file).canonicalize() {
            Ok(target) => target,
            Err(error) => return Some(format!("{}: {link}: {error}", page.display())),
        },
    };
    let anchors = pages.get(&target).map(|page| &page.anchors);
    match fragment.is_empty() || anchors.is_some_and(|it| it.contains(fragment)) {
        true => None,
        false => Some(format!("{}: {link}: there is no such heading", page.display())),
    }
}

#[test]
fn every_relative_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let pages = pages(&root);
    let links = pages.iter().flat_map(|(path, page)| page.links.iter().map(move |link| (path, link)));
    let broken: Vec<String> = links.filter_map(|(path, link)| broken(&pages, path, link)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn headings_and_links_are_found() {
    let page = Page::parse("# The `sim`, 4 CPUs\n\n| [a](b.md#c) |\n|---|\n\n## Limits\n\n## Limits\n");
    assert_eq!(page.links, ["b.md#c"]);
    let anchors = ["limits", "limits-1", "the-sim-4-cpus"].map(String::from);
    assert_eq!(page.anchors, BTreeSet::from(anchors));
}

#[test]
fn a_wrong_link_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("docs")).unwrap();
    std::fs::write(root.join("README.md"), "# Top\n").unwrap();
    let page = root.join("docs/x.md");
    std::fs::write(&page, "text\n").unwrap();
    let pages = pages(&root);
    for right in ["../README.md", "../README.md#top", "https://example.org/#x"] {
        assert_eq!(broken(&pages, &page, right), None);
    }
    for wrong in ["README.md", "../README.md#bottom", "#top"] {
        assert!(broken(&pages, &page, wrong).unwrap().contains(wrong));
    }
}
