//! The user's own programs of the NAS Parallel Benchmarks, in their OpenMP or serial form: each in a folder,
//! called NAME.CLASS or NAME.CLASS.x. They check their results and print their times.
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Problem sizes of NPB, the smallest first.
const CLASSES: &str = "SWABCDEF";

/// One of the programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NpbProgram {
    /// The path of the program.
    pub program: PathBuf,
    /// `OMP_NUM_THREADS`; `None`: as in the user's environment, or as many as there are CPUs.
    pub threads: Option<u32>,
}

impl NpbProgram {
    /// All programs of a folder, by name. `threads` sets `OMP_NUM_THREADS`; without it, they have as many as
    /// in the user's environment, or as there are CPUs.
    pub fn in_folder(folder: &Path, threads: Option<u32>) -> Result<Vec<Self>, UsageError> {
        let wrong = |what: String| UsageError(format!("--npb {}: {what}", folder.display()));
        let entries = std::path::absolute(folder).and_then(|folder| folder.read_dir());
        let entries = entries.map_err(|error| wrong(error.to_string()))?;
        let mut programs: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| is_program(path)).collect();
        programs.sort();
        if programs.is_empty() {
            let message = "no executable file in it is called NAME.CLASS or NAME.CLASS.x, as cg.A.x; \
                           NPB's makefiles put them into its bin folder";
            return Err(wrong(message.into()));
        }
        Ok(programs.into_iter().map(|program| Self { program, threads }).collect())
    }
}

/// `NAME.CLASS` or `NAME.CLASS.x`, and executable.
fn is_program(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let Some((name, class)) = name.strip_suffix(".x").unwrap_or(name).split_once('.') else { return false };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let is_class = class.len() == 1 && CLASSES.contains(class);
    is_name
        && is_class
        && path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

impl fmt::Display for NpbProgram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.program.file_name().unwrap_or_default().display();
        match self.threads {
            Some(threads) => write!(out, "npb:{name}:{threads}"),
            None => write!(out, "npb:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in files {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    #[test]
    fn programs_by_their_names() {
        let folder = folder(&[
            ("cg.A.x", 0o755),
            ("bt.S", 0o755),
            ("bt-mz.W.x", 0o755),
            ("ep.B.x", 0o644),
            ("lu.A.16", 0o755),
            ("cg.A.log", 0o755),
            ("README", 0o755),
        ]);
        let found = NpbProgram::in_folder(folder.path(), Some(8)).unwrap();
        let names: Vec<_> = found.iter().map(NpbProgram::to_string).collect();
        assert_eq!(names, ["npb:bt-mz.W.x:8", "npb:bt.S:8", "npb:cg.A.x:8"]);
    }

    #[test]
    fn empty_and_missing_folders() {
        let error = |path: &Path| NpbProgram::in_folder(path, None).unwrap_err().to_string();
        let empty = folder(&[("notes.txt", 0o644)]);
        assert!(error(empty.path()).contains("called NAME.CLASS"), "{}", error(empty.path()));
        let missing = error(Path::new("/no/such"));
        assert!(missing.starts_with("--npb /no/such: No such file"), "{missing}");
    }
}
