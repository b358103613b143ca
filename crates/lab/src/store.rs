//! The reports under `results/`.
use flsched_base::reports::{self, Kept};
use flsched_compare::{Clock, Report};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The folder of the reports, under the project's.
pub const FOLDER: &str = "results";

/// Reads each report once.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    folder: PathBuf,
    read: RefCell<BTreeMap<String, Result<Rc<Report>, String>>>,
}

impl Store {
    /// Of the project in this folder.
    pub fn new(root: &Path) -> Self {
        Self { root: root.into(), folder: root.join(FOLDER), read: RefCell::default() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it has been measured.
    pub fn has(&self, file: &str) -> bool {
        self.folder.join(file).is_file()
    }

    /// A finished comparison; or why there is none.
    pub fn get(&self, file: &str) -> Result<Rc<Report>, String> {
        self.read
            .borrow_mut()
            .entry(file.to_string())
            .or_insert_with(|| self.read(file, parse).map(Rc::new))
            .clone()
    }

    /// A report of another kind, which this function reads from its bytes.
    pub fn read<T>(&self, file: &str, parse: fn(&[u8]) -> Result<T, String>) -> Result<T, String> {
        // Those of the papers' rows have a folder of their own.
        if file.strip_prefix("papers/").unwrap_or(file).contains('/') || !file.ends_with(".json") {
            return Err(format!("`{file}` is not the name of a .json file in {FOLDER}/ or {FOLDER}/papers/"));
        }
        let bytes = std::fs::read(self.folder.join(file)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{FOLDER}/{file} does not exist; measure it (flsched-lab measure --only {file})")
            }
            _ => format!("cannot read {FOLDER}/{file}: {error}"),
        })?;
        parse(&bytes).map_err(|error| format!("{FOLDER}/{file} {error}"))
    }
}

/// A finished report from its bytes. The error continues a sentence that begins with the name of the file.
pub fn parse(bytes: &[u8]) -> Result<Report, String> {
    let report: Report = kept(bytes)?;
    match report.complete {
        true => Ok(report),
        false => Err("is not complete: its comparison was interrupted; measure it again".into()),
    }
}

/// A report from its bytes, finished or not. The error continues a sentence that begins with the name of the file.
pub fn kept<T: Kept>(bytes: &[u8]) -> Result<T, String> {
    reports::read(bytes).map_err(|what| what.to_string())
}

/// The clock as the report spells it.
pub fn clock_name(report: &Report) -> String {
    name_of(report.clock)
}

fn name_of(clock: Clock) -> String {
    match serde_json::to_value(clock) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{clock:?}").to_lowercase(),
    }
}

/// Whether its seconds are instructions executed, on whichever CPU: work, not time.
pub fn counts_work(clock: &str) -> bool {
    // The second is what the clock was called before.
    ["work", "instructions"].contains(&clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::report;

    #[test]
    fn only_whole_reports_of_this_version() {
        let mut whole = report(&[("hackbench", &[("eevdf", 1.0)])]);
        let bytes = |report: &Report| reports::bytes(report).unwrap();
        assert_eq!(parse(&bytes(&whole)).unwrap(), whole);
        whole.complete = false;
        assert!(parse(&bytes(&whole)).unwrap_err().contains("not complete"));
        assert!(parse(br#"{"kind": "compare", "version": 99}"#).unwrap_err().contains("version 99"));
        assert!(parse(b"{}").unwrap_err().contains("is not a report of kind `compare`"));
    }

    #[test]
    fn names_the_file_that_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let error = store.get("a.json").unwrap_err();
        assert!(error.starts_with("results/a.json does not exist"), "{error}");
        assert!(store.get("../a.json").unwrap_err().contains("`../a.json`"));
    }
}
