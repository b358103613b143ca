//! The documentation's figures are those of the reports under `results/`.
use flsched_lab::render::render;
use std::path::Path;

fn check(project: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(project).canonicalize().unwrap();
    let rendering = render(&folder).unwrap();
    let lines = [rendering.errors, rendering.differences].concat();
    let command = format!("flsched-lab render --root {}", folder.display());
    assert!(lines.is_empty(), "run `{command}`:\n{}", lines.join("\n"));
}

#[test]
fn documents_are_up_to_date() {
    check("../..");
}

/// Real reports of a small comparison: a change of their rendering changes these files.
#[test]
fn a_small_project_renders_as_before() {
    check("tests/fixture");
}
