//! The site of this project: every report is on a page, and every link leads to a file of the site, and to a heading there.
use flsched_lab::site::{Site, build, write};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Of this project; the tests only look at it.
static SITE: LazyLock<Site> = LazyLock::new(|| {
    let site = build(&root()).unwrap();
    assert!(site.errors.is_empty(), "{}", site.errors.join("\n"));
    site
});

/// What pages link to, as written, and their anchors.
#[derive(Debug)]
struct Pages<'a> {
    site: &'a Site,
    anchors: BTreeMap<&'a Path, BTreeSet<&'a str>>,
    link: Regex,
}

impl<'a> Pages<'a> {
    fn of(site: &'a Site) -> Self {
        let id = Regex::new(r#" id="([^"]*)""#).unwrap();
        let anchors = site.files.iter().map(|(path, text)| {
            let found = id.captures_iter(text).map(|it| it.get(1).unwrap().as_str());
            (path.as_path(), found.collect())
        });
        Self { site, anchors: anchors.collect(), link: Regex::new(r#" (?:href|src)="([^"]*)""#).unwrap() }
    }

    /// A line for each link that leads nowhere.
    fn broken(&self) -> Vec<String> {
        let pages =
            self.site.files.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "html"));
        let links = pages.flat_map(|(path, text)| {
            self.link.captures_iter(text).map(move |it| (path, it.get(1).unwrap().as_str()))
        });
        let wrong = links.filter(|(page, link)| !self.leads_somewhere(page, link));
        wrong.map(|(page, link)| format!("{}: {link}", page.display())).collect()
    }

    fn leads_somewhere(&self, page: &Path, link: &str) -> bool {
        if link.starts_with("https://") || link.starts_with("http://") {
            return true;
        }
        let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => page.to_path_buf(),
            file => normal(&page.parent().unwrap().join(file)),
        };
        let Some(anchors) = self.anchors.get(target.as_path()) else { return false };
        fragment.is_empty() || anchors.contains(fragment)
    }
}

fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut out, part| {
        match part {
            Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
        out
    })
}

#[test]
fn every_link_of_the_site_leads_somewhere() {
    let site = &*SITE;
    assert!(site.files.contains_key(Path::new("index.html")));
    assert!(site.files.contains_key(Path::new("results/parallel-4.html")));
    let broken = Pages::of(site).broken();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_report_is_on_a_page() {
    let site = &*SITE;
    let sets = std::fs::read_to_string(root().join("results/sets.toml")).unwrap();
    let list = &site.files[Path::new("results/index.html")];
    for name in Regex::new("(?m)^name = \"([^\"]*)\"").unwrap().captures_iter(&sets) {
        // Comparisons have names, too; a set is followed by what it is about.
        let (all, name) = (name.get(0).unwrap(), &name[1]);
        if sets[all.end()..].trim_start().starts_with("about") {
            assert!(list.contains(&format!("href=\"{name}.html\"")), "set {name} has no page");
        }
    }
    let page = &site.files[Path::new("results/quick.html")];
    for wanted in ["<h1", "--clock parallel", "kernel 6.18", "4 CPUs", "5 runs", "<img", "<table"] {
        assert!(page.contains(wanted), "results/quick.html has no {wanted}");
    }
}

#[test]
fn pages_need_no_network_and_the_search_finds_them() {
    let site = &*SITE;
    let asked = Regex::new(r#"(?:<script|<link|<img)[^>]*(?:src|href)="https?:"#).unwrap();
    let index = &site.files[Path::new("search-index.js")];
    for (path, text) in &site.files {
        assert!(!asked.is_match(text), "{} asks the network", path.display());
        let is_source = text.contains("<h1><code>");
        if path.extension().is_some_and(|it| it == "html") && !is_source {
            let entry = format!("\"page\":\"{}\"", path.display());
            assert!(index.contains(&entry), "the search does not know {}", path.display());
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let mut site = Site::default();
    let page =
        "<a href=\"b.html#c\">x</a> <h2 id=\"here\"> <a href=\"#here\"> <a href=\"https://example.org\">";
    site.files.insert("a.html".into(), page.into());
    assert_eq!(Pages::of(&site).broken(), ["a.html: b.html#c"]);
    site.files.insert("b.html".into(), "<h1 id=\"d\">".into());
    assert_eq!(Pages::of(&site).broken(), ["a.html: b.html#c"]);
    site.files.insert("b.html".into(), "<h1 id=\"c\">".into());
    assert!(Pages::of(&site).broken().is_empty());
}

#[test]
fn only_files_of_an_older_site_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("site");
    let site = |file: &str| Site { files: [(file.into(), "text".into())].into(), errors: Vec::new() };
    write(&site("docs/a.html"), &at).unwrap();
    std::fs::write(at.join("mine"), "kept").unwrap();
    write(&site("docs/b.html"), &at).unwrap();
    assert!(!at.join("docs/a.html").exists() && at.join("docs/b.html").is_file());
    assert_eq!(std::fs::read_to_string(at.join("mine")).unwrap(), "kept");

    std::fs::write(at.join("site-files.txt"), "../other/mine\n/etc/none\n").unwrap();
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("mine"), "kept").unwrap();
    write(&site("docs/b.html"), &at).unwrap();
    let error = write(&site("a.html"), &other).unwrap_err().to_string();
    assert!(error.contains("neither empty nor an older site"), "{error}");
    assert_eq!(std::fs::read_to_string(other.join("mine")).unwrap(), "kept");
}
