//! What an application needs of this machine: programs, files, and the packages that have them.
use crate::workload::Needs;
use flsched_spec::app::AppFile;
use std::ffi::OsString;
use std::path::PathBuf;

/// Programs that the scripts of any application may use; every Debian system has them.
const TOOLS: [&str; 14] = [
    "sh", "awk", "cat", "chmod", "chown", "cp", "grep", "id", "ln", "mkdir", "nproc", "seq", "sleep", "sort",
];

/// An application lacks a program or a file on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("app:{app} needs {what}, which this machine does not have; on Debian: apt-get install {packages}")]
pub struct Missing {
    pub app: String,
    /// The first program or file that was not found.
    pub what: String,
    /// The packages, as one passes them to apt-get.
    pub packages: String,
}

/// What this machine lacks for an application; `None`: nothing.
pub fn missing(app: &AppFile) -> Option<Missing> {
    find(app).err()
}

/// Finds the programs and files of an application, or the first one that is missing.
pub(super) fn find(app: &AppFile) -> Result<Needs, Missing> {
    let missing =
        |what: &str| Missing { app: app.name.clone(), what: format!("`{what}`"), packages: packages(app) };
    let mut programs = Vec::new();
    for name in TOOLS.into_iter().chain(app.programs.iter().map(String::as_str)) {
        programs.push(program(name).ok_or_else(|| missing(name))?);
    }
    let mut files = Vec::new();
    for pattern in &app.files {
        let found = matches(pattern);
        if found.is_empty() {
            return Err(missing(pattern));
        }
        files.extend(found);
    }
    files.extend(app.optional.iter().flat_map(|pattern| matches(pattern)));
    Ok(Needs { programs, files })
}

/// The first of each choice.
fn packages(app: &AppFile) -> String {
    let first = |choice: &String| choice.split('|').next().unwrap_or_default().trim().to_owned();
    app.packages.iter().map(first).collect::<Vec<_>>().join(" ")
}

/// In `PATH`, or the last that a pattern finds; `a | b`: the first of them that is there.
fn program(names: &str) -> Option<PathBuf> {
    names.split('|').map(str::trim).find_map(|name| match name.contains('/') {
        true => matches(name).pop().filter(|path| which::which(path).is_ok()),
        false => which::which(name).ok(),
    })
}

fn matches(pattern: &str) -> Vec<PathBuf> {
    let paths = glob::glob(pattern).map(|paths| paths.flatten().collect());
    paths.unwrap_or_default()
}

/// `PATH` with the folders of an application's programs first.
pub(super) fn path(app: &AppFile) -> OsString {
    let users = std::env::var_os("PATH").unwrap_or_default();
    let patterns = app.programs.iter().filter(|name| name.contains('/'));
    let folders = patterns.filter_map(|name| Some(program(name)?.parent()?.to_owned()));
    let all: Vec<PathBuf> = folders.chain(std::env::split_paths(&users)).collect();
    std::env::join_paths(all).unwrap_or(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(programs: &str, files: &str) -> AppFile {
        let text = format!(
            "what = ''\nsource = ''\nlicence = ''\npackages = ['one', 'two | three']\n\
             programs = [{programs}]\nfiles = [{files}]\nrun = ''\nchecks = []\n"
        );
        AppFile::parse("some", &text).unwrap()
    }

    #[test]
    fn what_is_missing_is_named_with_its_packages() {
        let error = missing(&app("'ls', 'no-such-program'", "")).unwrap().to_string();
        assert_eq!(
            error,
            "app:some needs `no-such-program`, which this machine does not have; on Debian: apt-get install one two"
        );
        let error = missing(&app("'ls'", "'/no/such/*'")).unwrap().to_string();
        assert!(error.contains("`/no/such/*`"), "{error}");
        let error = missing(&app("'/no/such/*/ls'", "")).unwrap().to_string();
        assert!(error.contains("`/no/such/*/ls`"), "{error}");
    }

    #[test]
    fn patterns_find_programs_and_files() {
        let app = app("'no-such | ls', '/bin/l[s]'", "'/etc/host*'");
        let found = find(&app).unwrap();
        assert!(found.programs.contains(&"/bin/ls".into()), "{:?}", found.programs);
        assert!(found.files.contains(&"/etc/hosts".into()) && missing(&app).is_none());
        let path = path(&app);
        assert_eq!(std::env::split_paths(&path).next().unwrap(), PathBuf::from("/bin"));
    }
}
