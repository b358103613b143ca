//! The project's folder: papers, results and documents are read from it and written to it.
use flsched_spec::UsageError;
use std::path::{Path, PathBuf};

/// The folder that the user gave, or the working folder or the nearest one above it that has `mark`.
pub fn folder(given: Option<&Path>, mark: &str) -> Result<PathBuf, UsageError> {
    let cannot = |what: String, error: std::io::Error| UsageError(format!("{what}: {error}"));
    if let Some(folder) = given {
        return folder.canonicalize().map_err(|error| cannot(format!("--root {}", folder.display()), error));
    }
    let here =
        std::env::current_dir().map_err(|error| cannot("cannot find the working folder".into(), error))?;
    let found = here.ancestors().find(|folder| folder.join(mark).exists());
    found.map(Path::to_path_buf).ok_or_else(|| {
        UsageError(format!(
            "no {mark} here or in a folder above: change to the project's folder, or use --root DIR"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_with_the_mark_is_found() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(folder(None, "src/project.rs").unwrap(), here);
        assert_eq!(folder(None, "crates/lab").unwrap(), here.ancestors().nth(2).unwrap());
        let error = folder(None, "no/such/mark").unwrap_err().to_string();
        assert!(error.starts_with("no no/such/mark here") && error.contains("--root DIR"), "{error}");
        let error = folder(Some("/no/such".as_ref()), "src").unwrap_err().to_string();
        assert_eq!(error, "--root /no/such: No such file or directory (os error 2)");
    }
}
