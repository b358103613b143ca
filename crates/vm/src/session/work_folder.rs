//! The folder with one VM's files.
use crate::VmError;
use nix::unistd::geteuid;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "flsched-vm-";

/// The file that is locked while the folder is in use. The kernel releases the lock when this process ends.
const LOCK: &str = "lock";

/// A temporary folder. It is removed when this is dropped, or by the next VM if this process was killed.
pub(super) struct WorkFolder {
    folder: TempDir,
    /// The folder's descriptor, for paths whose length does not depend on TMPDIR.
    handle: File,
    _lock: File,
}

impl WorkFolder {
    /// Creates the folder in TMPDIR.
    pub fn open() -> Result<Self, VmError> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        let make = || {
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(&parent)?;
            // The lock file gets its name only after it is locked, so that no other process removes the
            // folder.
            let lock = File::create(folder.path().join("new-lock"))?;
            lock.lock()?;
            fs::rename(folder.path().join("new-lock"), folder.path().join(LOCK))?;
            let handle = File::open(folder.path())?;
            Ok(Self { folder, handle, _lock: lock })
        };
        make().map_err(|error| VmError::work_folder(parent, error))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Listens on a socket in the folder.
    pub fn listen(&self, name: &str) -> io::Result<UnixListener> {
        // The path of a socket has at most 107 bytes, and TMPDIR may be longer.
        let short = PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        UnixListener::bind(short.join(name))
    }
}

/// Removes the folders of this user's VMs whose process was killed.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let folder = entry.path();
        let is_own = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw());
        if is_own && lock_in(&folder).is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// The lock file. Whatever else has its name is left alone: opening a pipe would wait for a writer.
fn lock_in(folder: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(folder.join(LOCK)).ok()?;
    file.metadata().is_ok_and(|it| it.is_file()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unused_folders_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            (File::create(folder.join(LOCK)).unwrap(), folder)
        };
        let (used, in_use) = make("flsched-vm-used");
        used.lock().unwrap();
        let (_, left_over) = make("flsched-vm-dead");
        let (_, foreign) = make("other");
        sweep(parent.path());
        assert!(in_use.exists() && foreign.exists() && !left_over.exists());
    }

    #[test]
    fn what_looks_like_a_lock_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let (pipe, link) = (make("flsched-vm-pipe"), make("flsched-vm-link"));
        nix::unistd::mkfifo(&pipe.join(LOCK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/null", link.join(LOCK)).unwrap();
        sweep(parent.path());
        assert!(pipe.exists() && link.exists());
    }

    #[test]
    fn folders_of_others_are_left_alone() {
        if !geteuid().is_root() {
            return; // Only root can make one.
        }
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("flsched-vm-others");
        fs::create_dir(&folder).unwrap();
        File::create(folder.join(LOCK)).unwrap();
        std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
        sweep(parent.path());
        assert!(folder.exists());
    }

    #[test]
    fn it_is_this_users_and_gone_afterwards() {
        let work_folder = WorkFolder::open().unwrap();
        let path = work_folder.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        let _listener = work_folder.listen("port").unwrap();
        assert!(path.join("port").exists());
        drop(work_folder);
        assert!(!path.exists());
    }
}
