//! Writes a file as a whole or not at all: a reader never gets half of it, and an interruption leaves the old
//! one. An error says what to do, where that is known.
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Writes a new file beside the old one and renames it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (mut file, path) = new_beside(path)?;
    file.as_file_mut().write_all(content).map_err(with_remedy)?;
    file.persist(path)?;
    Ok(())
}

/// Creates a folder, and those above it that are missing.
pub fn create_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path).map_err(with_remedy)
}

/// Whether [`replace`] can write there, for callers that only later know what to write.
pub fn check(path: &Path) -> io::Result<()> {
    new_beside(path).map(drop)
}

/// An empty file in the folder of `path`, and the path that it is to have.
fn new_beside(path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    // A link keeps pointing to the file.
    let path = match really(path, 0) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let Some(name) = path.file_name() else { return Err(error) };
            really(folder_of(path), libc::O_DIRECTORY).map_err(with_remedy)?.join(name)
        }
        known => known.map_err(with_remedy)?,
    };
    // A device is not replaced by a file.
    if path.symlink_metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_symlink()) {
        return Err(io::Error::other("it exists and is not a file"));
    }
    let folder = folder_of(&path);
    // Errors of `tempfile_in` would name the temporary file, which means nothing to the user.
    let file = tempfile::Builder::new().prefix(".flsched-").make_in(folder, |path| File::create_new(path));
    Ok((file.map_err(with_remedy)?, path))
}

/// The path of what is there, without links. Only the kernel follows them, and only once: it does not let root follow
/// another user's link in /tmp (fs.protected_symlinks).
fn really(path: &Path, flags: libc::c_int) -> io::Result<PathBuf> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)?;
    // The kernel would add to the path of a file that is gone meanwhile.
    if file.metadata()?.nlink() == 0 {
        return Err(ErrorKind::NotFound.into());
    }
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The same error, with what the user can do about it.
fn with_remedy(error: io::Error) -> io::Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there",
        ErrorKind::ReadOnlyFilesystem => "choose a folder that can be written to",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
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
        check(&path).unwrap();
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
        assert!(check(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_link_to_nothing_is_replaced_and_one_to_a_folder_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (inner, link) = (folder.path().join("inner"), folder.path().join("link"));
        std::fs::create_dir(&inner).unwrap();
        std::os::unix::fs::symlink(&inner, &link).unwrap();
        replace(&link.join("report.json"), b"new").unwrap();
        assert_eq!(std::fs::read(inner.join("report.json")).unwrap(), b"new");
        assert!(check(&link).unwrap_err().to_string().contains("not a file"));
        let dangling = folder.path().join("dangling");
        std::os::unix::fs::symlink("/no/such/file", &dangling).unwrap();
        replace(&dangling, b"new").unwrap();
        assert!(dangling.symlink_metadata().unwrap().is_file());
    }

    /// In a folder like /tmp, where any user can leave a link.
    #[test]
    fn root_follows_no_link_of_another_user_in_a_shared_folder() {
        use std::os::unix::fs::{PermissionsExt, lchown, symlink};
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
        let (file, link) = (folder.path().join("file"), shared.join("report.json"));
        std::fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        let is_protected =
            std::fs::read_to_string("/proc/sys/fs/protected_symlinks").is_ok_and(|text| text.trim() == "1");
        // Only root can give a link away.
        if is_protected && lchown(&link, Some(1234), Some(1234)).is_ok() {
            assert_eq!(replace(&link, b"new").unwrap_err().kind(), ErrorKind::PermissionDenied);
            assert_eq!(std::fs::read(&file).unwrap(), b"old");
        }
    }

    #[test]
    fn an_error_that_has_a_remedy_names_it() {
        let remedy = |errno| with_remedy(io::Error::from_raw_os_error(errno)).to_string();
        assert_eq!(remedy(28), "No space left on device (os error 28); free space there");
        assert!(remedy(30).ends_with("; choose a folder that can be written to"));
        assert_eq!(remedy(13), "Permission denied (os error 13)");
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let path = Path::new("/no/such/folder/report.json");
        for error in [replace(path, b"x").unwrap_err(), check(path).unwrap_err()] {
            assert_eq!(error.to_string(), "No such file or directory (os error 2)");
        }
    }
}
