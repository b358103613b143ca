//! Files that the user names.
use anyhow::{Context, Result};
use flsched_spec::UsageError;
use std::path::{Path, PathBuf};

/// Whether a file can be written, before the work that it is to hold.
pub fn check(path: &Path) -> Result<()> {
    flsched_base::files::check(path).with_context(|| cannot_write(path))
}

/// Refuses options that name the same file: what is written last would be all that is left.
pub fn check_distinct<'a>(
    named: impl IntoIterator<Item = (&'a str, Option<&'a PathBuf>)>,
) -> Result<(), UsageError> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in named {
        let Some(path) = path else { continue };
        let place = place_of(path);
        if let Some((other, _)) = seen.iter().find(|(_, seen)| *seen == place) {
            return Err(UsageError(format!(
                "{other} and {option} name the same file, {}: one would be written over the other",
                path.display()
            )));
        }
        seen.push((option, place));
    }
    Ok(())
}

/// One path for each file, however it is named. A file that does not exist yet has a folder that does.
fn place_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(named).unwrap_or_else(|| path.to_path_buf())
}

/// Writes a file as a whole or not at all.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    flsched_base::files::replace(path, content).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("old"), "").unwrap();
        std::os::unix::fs::symlink(at("old"), at("link")).unwrap();
        for (one, other, differ) in
            [("new", "./new", false), ("old", "link", false), ("new", "old", true), ("a/../new", "new", true)]
        {
            let (one, other) = (at(one), at(other));
            let named = [("--a", Some(&one)), ("--none", None), ("--b", Some(&other))];
            assert_eq!(check_distinct(named).is_ok(), differ, "{} {}", one.display(), other.display());
        }
    }
}
