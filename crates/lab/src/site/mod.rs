//! The documentation and all results as HTML pages that need no network: `flsched-lab site DIR`.
mod catalog;
mod html;
mod layout;
mod links;

pub use html::Anchors;

pub(crate) use catalog::check;

use crate::blocks::{Context, relative};
use crate::markers::{self, Request};
use crate::render::{self, Pictures, Rendering};
use crate::sets::Sets;
use crate::store::Store;
use anyhow::{Context as _, Result};
use flsched_base::files::{create_folder, replace};
use flsched_spec::UsageError;
use html::Body;
use links::{Links, html_path};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// All files of the site, by path under its folder.
#[derive(Debug, Default)]
pub struct Site {
    pub files: BTreeMap<PathBuf, String>,
    /// A line for each marker that cannot be carried out.
    pub errors: Vec<String>,
}

/// The site of the project in this folder. Writes nothing.
pub fn build(root: &Path) -> Result<Site> {
    let sets = Sets::load(root)?;
    let store = Store::new(root);
    let mut rendering = Rendering::default();
    let mut pictures = Pictures::new();
    let mut documents = results(&sets, &store, &mut rendering, &mut pictures)?;
    documents.extend(written(root, &sets, &store, &mut rendering, &mut pictures)?);
    if !rendering.errors.is_empty() {
        return Ok(Site { errors: rendering.errors, ..Site::default() });
    }
    let mut links = Links {
        root: root.into(),
        documents: documents.keys().cloned().collect(),
        pictures: pictures.keys().cloned().collect(),
        sources: BTreeMap::new(),
    };
    let mut files = html_pages(&documents, &mut links)?;
    for (path, text) in &links.sources {
        let page = PathBuf::from(format!("{}.html", path.display()));
        let name = path.display().to_string();
        let body = layout::source(&name, text);
        files.insert(page.clone(), layout::page(&name, &up(&page), &name, &body));
    }
    files.extend(pictures.into_iter().map(|(path, (svg, _))| (path, svg)));
    files.extend(layout::FILES.map(|(path, text)| (path.into(), text.into())));
    Ok(Site { files, errors: Vec::new() })
}

/// The names of all files of a site, in its folder: what the next one may remove.
const LIST: &str = "site-files.txt";

/// Writes the site into a folder that is empty, missing, or has an older one, whose files it replaces.
pub fn write(site: &Site, folder: &Path) -> Result<()> {
    let older = older(folder)?;
    for path in older.iter().filter(|path| !site.files.contains_key(*path)) {
        remove(&folder.join(path))?;
    }
    let list: String = site.files.keys().map(|path| format!("{}\n", path.display())).collect();
    // First, so that an interrupted site is known as one.
    let files = [(PathBuf::from(LIST), list)];
    for (path, text) in files.iter().map(|(path, text)| (path, text)).chain(&site.files) {
        let full = folder.join(path);
        full.parent()
            .map_or(Ok(()), create_folder)
            .and_then(|()| replace(&full, text.as_bytes()))
            .with_context(|| format!("cannot write {}", full.display()))?;
    }
    Ok(())
}

/// The files of an older site in this folder.
fn older(folder: &Path) -> Result<Vec<PathBuf>> {
    let named = folder.display();
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("cannot read the folder {named}")),
    };
    if is_empty {
        return Ok(Vec::new());
    }
    let list = std::fs::read_to_string(folder.join(LIST)).map_err(|_| {
        UsageError(format!("{named} is neither empty nor an older site (no {LIST}): name another folder"))
    })?;
    let is_inside = |path: &PathBuf| path.components().all(|it| matches!(it, Component::Normal(_)));
    Ok(list.lines().map(PathBuf::from).filter(is_inside).collect())
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The pages of results, filled.
fn results(
    sets: &Sets,
    store: &Store,
    rendering: &mut Rendering,
    pictures: &mut Pictures,
) -> Result<BTreeMap<PathBuf, String>> {
    let pages = catalog::pages(sets, store)?;
    let list = catalog::index(&pages);
    let filled = pages.iter().chain([&list]).map(|page| {
        let document = page.document();
        let context = Context { store, sets, document: &document };
        let text = render::of_document(&context, &page.markdown, rendering, pictures);
        (document, text)
    });
    Ok(filled.collect())
}

/// The documents of the project, with the markers filled and links to the pages of results.
fn written(
    root: &Path,
    sets: &Sets,
    store: &Store,
    rendering: &mut Rendering,
    pictures: &mut Pictures,
) -> Result<BTreeMap<PathBuf, String>> {
    let mut documents = BTreeMap::new();
    for document in render::documents(root, true)? {
        let text = std::fs::read_to_string(root.join(&document))
            .with_context(|| format!("cannot read {}", document.display()))?;
        let context = Context { store, sets, document: &document };
        let text = render::of_document(&context, &text, rendering, pictures);
        let text = with_pages(&document, &text);
        documents.insert(document, text);
    }
    Ok(documents)
}

/// On the site, a link to a page of results leads there, and not to how the site is built.
fn with_pages(document: &Path, text: &str) -> String {
    // What is wrong with the markers is an error of the rendering before.
    let blocks = markers::find(text).unwrap_or_default();
    let mut out = String::new();
    let mut at = 0;
    for block in blocks {
        let name = Request::parse(&block.text).ok().filter(|request| request.kind == "page");
        let Some(name) = name.as_ref().and_then(|request| request.get("name")) else { continue };
        out.push_str(&text[at..block.content.start]);
        out.push_str(&format!("[{name}]({})", relative(document, &catalog::document(name)).display()));
        at = block.content.end;
    }
    out.push_str(&text[at..]);
    out
}

/// Each document as HTML, and the index of the search.
fn html_pages(documents: &BTreeMap<PathBuf, String>, links: &mut Links) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    let mut searched: Vec<(String, String, Body)> = Vec::new();
    for (document, markdown) in documents {
        let body = html::body(markdown, |link| links.target(document, link));
        let path = html_path(document);
        let title = body.sections.iter().find(|it| !it.heading.is_empty());
        let title = title.map_or_else(|| document.display().to_string(), |it| it.heading.clone());
        let text = layout::page(&title, &up(&path), &document.display().to_string(), &body.html);
        searched.push((path.display().to_string(), title, body));
        files.insert(path, text);
    }
    let sections =
        searched.iter().map(|(path, title, body)| (path.as_str(), title.as_str(), &body.sections[..]));
    files.insert(layout::SEARCH_INDEX.into(), layout::search_index(sections)?);
    Ok(files)
}

/// From a page to the site's top.
fn up(page: &Path) -> String {
    "../".repeat(page.components().count() - 1)
}
