//! The files of a machine in a tarball. Nothing of it is unpacked: what is needed is kept in memory, the rest is skipped.
use super::Files;
use crate::Error;
use flate2::read::MultiGzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek};
use std::path::{Component, Path};
use tar::{Archive, Entry};

/// Of all entries, uncompressed: 4,096 CPUs with all their files, each of which tar takes for a page, have half of it.
const MOST_BYTES: u64 = 8 << 30;
/// Of one file: a list of 65,536 CPUs.
const MOST_OF_A_FILE: u64 = 512 << 10;
/// Of the files that are kept.
const MOST_FILES: usize = 1 << 20;
const HOW: &str = "see \"Send a machine's topology\" in docs/how-to/model-my-machine.md";

pub(super) struct Tarball(BTreeMap<String, String>);

impl Files for Tarball {
    fn text(&self, path: &str) -> Option<String> {
        self.0.get(path).cloned()
    }

    fn numbered(&self, folder: &str, name: &str) -> Vec<usize> {
        let start = format!("{folder}/{name}");
        let below = self.0.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
        let number = |path: &str| path[start.len()..].split('/').next()?.parse().ok();
        let numbers: BTreeSet<usize> = below.filter_map(|(path, _)| number(path)).collect();
        numbers.into_iter().collect()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tarball {
    fn from(files: [(&str, &str); N]) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect())
    }
}

#[cfg(test)]
impl From<BTreeMap<String, String>> for Tarball {
    fn from(files: BTreeMap<String, String>) -> Self {
        Self(files)
    }
}

#[cfg(test)]
impl Tarball {
    pub(super) fn put(&mut self, path: &str, text: &str) {
        self.0.insert(path.to_owned(), text.to_owned());
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }
}

pub(super) fn open(path: &Path) -> Result<Tarball, Error> {
    let failed = |cause: io::Error| Error::File { path: path.display().to_string(), cause };
    let wrong = |what: String| Error::usage(format!("{}: {what}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(wrong(format!("it is no regular file, and so no tarball; {HOW}")));
    }
    let mut start = Vec::new();
    file.by_ref().take(6).read_to_end(&mut start).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let file = BufReader::new(file);
    let plain: Box<dyn Read> = match start.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        [0xfd, b'7', b'z', ..] | [b'B', b'Z', b'h', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err(wrong(format!("it is compressed, but not by gzip; {HOW}")));
        }
        _ => Box::new(file),
    };
    read(plain).map_err(|found| match found {
        Found::Io(cause) => failed(cause),
        Found::Wrong(what) => wrong(what),
    })
}

enum Found {
    /// Of the file, not of what it holds.
    Io(io::Error),
    Wrong(String),
}

/// An error of the tar crate, or of the decoder.
fn broken(error: io::Error) -> Found {
    match error.kind() {
        // An error of the system has a number; those of the libraries, about what they read, have none.
        _ if error.raw_os_error().is_some() => Found::Io(error),
        ErrorKind::UnexpectedEof => {
            Found::Wrong(format!("it ends too early, so a part of it is lost; {HOW}"))
        }
        // Their messages quote what they read, which may be anything.
        _ => Found::Wrong(format!("it is not a tarball, or it is damaged; {HOW}")),
    }
}

fn read(plain: impl Read) -> Result<Tarball, Found> {
    let mut archive = Archive::new(plain.take(MOST_BYTES));
    let mut files = BTreeMap::new();
    // Raw: an entry that only names the next one, at any length, is not read into memory. Paths of sysfs are short.
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let Some(name) = name_of(&entry)? else { continue };
        if entry.size() > MOST_OF_A_FILE || files.len() >= MOST_FILES {
            return Err(Found::Wrong(format!(
                "{name} is larger than a file of /sys can be, or there are too many"
            )));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        if (bytes.len() as u64) < entry.size() {
            return Err(Found::Wrong(format!("it ends within {name}, so a part of it is lost; {HOW}")));
        }
        // The kernel says that each file is a page long; tar fills up with zeros what it did not get.
        let text = String::from_utf8_lossy(&bytes);
        files.insert(name, text.trim_end_matches('\0').trim().to_owned());
    }
    if archive.into_inner().limit() == 0 {
        return Err(Found::Wrong(format!("it is larger than {} GiB, uncompressed; {HOW}", MOST_BYTES >> 30)));
    }
    if files.is_empty() {
        return Err(Found::Wrong(format!("it has no file of /sys/devices/system/cpu; {HOW}")));
    }
    Ok(Tarball(files))
}

/// The entry's path below `/sys/devices/system` if it is a file that is needed.
fn name_of(entry: &Entry<'_, impl Read>) -> Result<Option<String>, Found> {
    let path = entry.path().map_err(broken)?;
    if path.components().any(|part| part == Component::ParentDir) {
        let what = format!("it has the path {}, with `..`: not from /sys; {HOW}", path.display());
        return Err(Found::Wrong(what));
    }
    if !entry.header().entry_type().is_file() {
        return Ok(None);
    }
    let parts: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let below = parts.iter().position(|part| ["cpu", "node"].contains(part)).map(|at| &parts[at..]);
    let is_needed = match below.unwrap_or_default() {
        ["cpu", "online"] => true,
        ["cpu", _, "topology", file] => ["core_cpus_list", "thread_siblings_list"].contains(file),
        ["cpu", _, "cache", _, file] => ["level", "type", "shared_cpu_list"].contains(file),
        ["node", _, file] => ["cpulist", "distance"].contains(file),
        _ => false,
    };
    Ok(is_needed.then(|| below.unwrap_or_default().join("/")))
}
