//! Copies of a policy that lack one of its mechanisms: what is each of them worth?
//!
//! `results/patched/NAME.patch` changes a file of `policies/`. Its first line describes the difference. The copy becomes
//! the scheduler NAME of `flsched compare --policy`.
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the patches are, under the project's folder.
pub const PATCHES: &str = "results/patched";
/// Where the copies are made. Relative, as the report has the command line and is published.
const COPIES: &str = "target/patched";

/// The copy of this name, under the project's folder.
pub fn file(name: &str) -> PathBuf {
    Path::new(COPIES).join(name).with_extension("bpf.c")
}

/// Makes the copy again, from the policy as it is now.
pub fn make(root: &Path, name: &str) -> Result<()> {
    let patch = Path::new(PATCHES).join(name).with_extension("patch");
    if !root.join(&patch).is_file() {
        bail!("there is no {}", patch.display());
    }
    std::fs::create_dir_all(root.join(COPIES)).with_context(|| format!("cannot make {COPIES}"))?;
    let output = Command::new("patch")
        .args(["-p1", "--batch", "--fuzz=0", "--reject-file=-", "-o"])
        .arg(file(name))
        .arg("-i")
        .arg(&patch)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .context("cannot start `patch`; install it")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout).trim().replace('\n', "; ");
        bail!("{} does not apply any more: {said}", patch.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "int a;\nint b;\nint c;\n";
    const PATCH: &str = "Without b.\n\n--- a/policies/p.bpf.c\n+++ b/policies/p.bpf.c\n@@ -1,3 +1,2 @@\n int a;\n-int b;\n int c;\n";

    fn project() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [("policies/p.bpf.c", POLICY), ("results/patched/no_b.patch", PATCH)] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_copy_is_made_anew_and_the_policy_stays() {
        let folder = project();
        let read = |path: &Path| std::fs::read_to_string(folder.path().join(path)).unwrap();
        for _ in 0..2 {
            make(folder.path(), "no_b").unwrap();
            assert_eq!(read(&file("no_b")), "int a;\nint c;\n");
        }
        assert_eq!(read(Path::new("policies/p.bpf.c")), POLICY);
    }

    #[test]
    fn a_patch_that_is_missing_or_does_not_apply_is_named() {
        let folder = project();
        let error = make(folder.path(), "no_c").unwrap_err().to_string();
        assert!(error.contains("results/patched/no_c.patch"), "{error}");
        std::fs::write(folder.path().join("policies/p.bpf.c"), "int d;\n").unwrap();
        let error = make(folder.path(), "no_b").unwrap_err().to_string();
        assert!(error.contains("no_b.patch does not apply any more"), "{error}");
    }
}
