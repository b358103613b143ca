//! The rooms of the crate, as `src/lib.rs` lists them from the bottom up: none uses one that comes after it.
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What `src/lib.rs` makes known by another name.
const RENAMED: [(&str, &str); 7] = [
    ("Error", "error"),
    ("Violation", "error"),
    ("DEADLOCK", "error"),
    ("WATCHDOG", "error"),
    ("Setup", "setup"),
    ("Simulation", "run"),
    ("load", "load"),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// In the order of the list.
fn rooms() -> Vec<String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let room = Regex::new(r"(?m)^//! - \[`(\w+)`\]").unwrap();
    room.captures_iter(&text).map(|it| it[1].to_owned()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Without comments and tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The rooms that this code names.
fn used(code: &str) -> BTreeSet<String> {
    let path = Regex::new(r"\bcrate::(?:(\w+)|\{([^}]*)\})").unwrap();
    let names = path.captures_iter(code).flat_map(|it| {
        let all = it.get(1).or(it.get(2)).unwrap().as_str();
        all.split(',').map(|name| name.split("::").next().unwrap().trim().to_owned()).collect::<Vec<_>>()
    });
    let room = |name: String| RENAMED.iter().find(|it| it.0 == name).map_or(name, |it| it.1.to_owned());
    names.map(room).collect()
}

#[test]
fn rooms_use_those_before_them_only() {
    let rooms = rooms();
    let place = |room: &str| rooms.iter().position(|it| it == room);
    let mut back = Vec::new();
    for path in files(&source()) {
        let inside = path.strip_prefix(source()).unwrap();
        let name = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if name == "lib" || inside.ends_with("tests.rs") {
            continue;
        }
        let here = place(name).unwrap_or_else(|| panic!("src/lib.rs does not list {name}"));
        for other in used(&code(&path)) {
            match place(&other) {
                Some(there) if there <= here => {}
                Some(_) => back.push(format!("{} uses {other}", inside.display())),
                None => panic!("{}: there is no room {other}", inside.display()),
            }
        }
    }
    assert!(back.is_empty(), "{back:#?}");
}

#[test]
fn arrows_are_found() {
    let code = "use crate::core::{Core, CpuId};\nuse crate::{Error, Setup, run::TaskCounts};\ncrate::load(x)";
    assert_eq!(used(code), ["core", "error", "load", "run", "setup"].map(String::from).into());
}
