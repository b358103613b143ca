//! Where the links of the project's documents lead on the site.
use crate::blocks::relative;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// What the site has, and what its pages need besides.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) root: PathBuf,
    /// Documents that are pages.
    pub(crate) documents: BTreeSet<PathBuf>,
    /// Pictures that are rendered.
    pub(crate) pictures: BTreeSet<PathBuf>,
    /// Other files of the project that pages link to, with their text.
    pub(crate) sources: BTreeMap<PathBuf, String>,
}

/// The file of a document's page: the same path, but that README.md is the first page.
pub(crate) fn html_path(document: &Path) -> PathBuf {
    match document == Path::new("README.md") {
        true => PathBuf::from("index.html"),
        false => document.with_extension("html"),
    }
}

impl Links {
    /// Where a link of this document leads; `None`: to nothing that is on the site.
    pub(crate) fn target(&mut self, document: &Path, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with('#') || link.starts_with("mailto:") {
            return Some(link.to_string());
        }
        let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
        let path = normal(&document.parent().unwrap_or(Path::new("")).join(file))?;
        let target = self.file(&path)?;
        let url = relative(&html_path(document), &target).display().to_string();
        Some(if fragment.is_empty() { url } else { format!("{url}#{fragment}") })
    }

    fn file(&mut self, path: &Path) -> Option<PathBuf> {
        let listing = path.join("index.md");
        if self.documents.contains(path) {
            return Some(html_path(path));
        }
        if self.documents.contains(&listing) {
            return Some(html_path(&listing));
        }
        if self.pictures.contains(path) {
            return Some(path.into());
        }
        let page = PathBuf::from(format!("{}.html", path.display()));
        if !self.sources.contains_key(path) {
            let text = std::fs::read_to_string(self.root.join(path)).ok()?;
            self.sources.insert(path.into(), text);
        }
        Some(page)
    }
}

/// Without `.` and `..`; `None`: it leaves the project.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir => out.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_pictures_and_sources() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("policies")).unwrap();
        std::fs::write(folder.path().join("policies/x.bpf.c"), "int x;\n").unwrap();
        let documents = ["README.md", "docs/a.md", "docs/how-to/b.md", "results/index.md"].map(PathBuf::from);
        let mut links = Links {
            root: folder.path().into(),
            documents: documents.into(),
            pictures: [PathBuf::from("docs/pictures/p.svg")].into(),
            sources: BTreeMap::new(),
        };
        let mut target = |link| links.target(Path::new("docs/how-to/b.md"), link);
        assert_eq!(target("../a.md#x").unwrap(), "../a.html#x");
        assert_eq!(target("../../README.md").unwrap(), "../../index.html");
        assert_eq!(target("../../results").unwrap(), "../../results/index.html");
        assert_eq!(target("../pictures/p.svg").unwrap(), "../pictures/p.svg");
        assert_eq!(target("../../policies/x.bpf.c").unwrap(), "../../policies/x.bpf.c.html");
        assert_eq!(target("https://example.org/#x").unwrap(), "https://example.org/#x");
        assert_eq!(target("#here").unwrap(), "#here");
        assert_eq!(target("../../policies"), None, "a folder");
        assert_eq!(target("../../../x.md"), None, "beyond the project");
        assert_eq!(links.sources[Path::new("policies/x.bpf.c")], "int x;\n");
    }
}
