//! The crates' floors, as `docs/explanation/architecture.md` draws them: a crate uses those of lower floors only.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The floor of each crate, 0 the highest. A line of the drawing: what the floor is for, then crates, each with its
/// content after a colon.
fn floors() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(root().join("docs/explanation/architecture.md")).unwrap();
    let drawing = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let crates = |line: &str| -> Vec<String> {
        let parts = line.trim().split("  ").map(str::trim).filter(|part| !part.is_empty());
        parts.skip(1).map(|part| part.split(':').next().unwrap().to_owned()).collect()
    };
    let floor = |(floor, line)| crates(line).into_iter().map(move |name| (name, floor)).collect::<Vec<_>>();
    drawing.lines().enumerate().flat_map(floor).collect()
}

/// The crates that this one uses, except in tests.
fn used(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let tables = ["dependencies", "build-dependencies"].into_iter().filter_map(|table| manifest.get(table));
    let names = tables.flat_map(|table| table.as_table().unwrap().keys());
    names.filter_map(|name| name.strip_prefix("flsched-")).map(str::to_owned).collect()
}

#[test]
fn arrows_point_down() {
    let floors = floors();
    let mut seen = 0;
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let floor = floors.get(&name).unwrap_or_else(|| panic!("the drawing lacks {name}"));
        let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        for other in used(&manifest) {
            assert!(floors[&other] > *floor, "{name} uses {other}, which is not on a lower floor");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen} arrows");
    assert_eq!(floors.len(), fs::read_dir(root().join("crates")).unwrap().count(), "{floors:?}");
}
