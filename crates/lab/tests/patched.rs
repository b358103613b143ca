//! The patches under `results/patched/` fit the policies as they are now, and all of them are measured.
use flsched_lab::patched::{PATCHES, make};
use flsched_lab::sets::Sets;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_patch_applies_and_is_measured() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let files = root.join(PATCHES).read_dir().unwrap();
    let names: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let sets = Sets::load(&root).unwrap();
    assert_eq!(names, sets.patched().cloned().collect());
    for name in &names {
        make(&root, name).unwrap();
    }
}
