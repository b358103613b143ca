//! Where a report goes: written anew after every run, so that an interrupted comparison loses
//! nothing, and each time as a whole, so that nobody ever reads half a report.
use crate::report::html;
use crate::result::Report;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The files a comparison writes.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// The report as data.
    pub json: Option<PathBuf>,
    /// The report as a page.
    pub html: Option<PathBuf>,
}

/// A report that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct OutputError {
    path: PathBuf,
    source: io::Error,
}

impl Outputs {
    /// Writes what is asked for.
    pub fn write(&self, report: &Report) -> Result<(), OutputError> {
        let named = |path: &Path| {
            let path = path.to_path_buf();
            move |source| OutputError { path, source }
        };
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(report).map_err(io::Error::from);
            text.and_then(|text| replace(path, (text + "\n").as_bytes())).map_err(named(path))?;
        }
        if let Some(path) = &self.html {
            replace(path, html::page(report).as_bytes()).map_err(named(path))?;
        }
        Ok(())
    }
}

/// Writes a new file beside the old one and renames it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    // A link keeps pointing to the file, and a device is not replaced by a file.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err(io::Error::other("it exists and is not a file"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".flsched-")
        // As for any other new file: what umask leaves of it.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_leaves_nothing_else_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn keeps_links_and_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(replace(Path::new("/dev/null"), b"x").is_err());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let path = PathBuf::from("/no/such/folder/report.json");
        let error = replace(&path, b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
