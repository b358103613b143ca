//! What every system has: folders, users, the loader's configuration, a shell and its tools.
use super::host_files::HostFiles;
use super::tree::Node;
use crate::VmError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folders that programs, or the mounts of process 1, expect.
const FOLDERS: [(&str, u32); 12] = [
    ("/dev", 0o755),
    ("/proc", 0o555),
    ("/sys", 0o555),
    ("/run", 0o755),
    ("/root", 0o700),
    ("/tmp", 0o1777),
    ("/usr/bin", 0o755),
    ("/usr/lib", 0o755),
    ("/usr/sbin", 0o755),
    ("/var/lib", 0o755),
    ("/var/log", 0o755),
    ("/var/tmp", 0o1777),
];

/// Links on a merged-usr host, folders on an older one.
const MAYBE_MERGED: [&str; 4] = ["/bin", "/sbin", "/lib", "/lib64"];

/// Where the loader searches for libraries outside its two standard folders.
const LOADER_CONFIGURATION: [&str; 3] = ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"];

const FILES: [(&str, &str); 5] = [
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("/etc/hosts", "127.0.0.1 localhost flsched-vm\n::1 localhost\n"),
    ("/etc/hostname", "flsched-vm\n"),
];

/// Adds all that, wherever the user's own files leave room.
pub(super) fn add(files: &mut HostFiles) -> Result<(), VmError> {
    if !files.is_foreign() {
        add_hosts(files)?;
    }
    let tree = files.tree();
    for (path, mode) in FOLDERS {
        tree.insert(path, Node::Folder { mode });
    }
    for (path, text) in FILES {
        tree.insert(path, Node::bytes(0o644, text));
    }
    // The kernel opens it for process 1 before process 1 can mount anything.
    tree.insert("/dev/console", Node::CharDevice { mode: 0o600, major: 5, minor: 1 });
    // In a root of its own the machine itself links busybox's tools: this machine cannot ask that busybox for them.
    if files.is_foreign() { Ok(()) } else { add_tools(files) }
}

/// What of this machine's own system its programs need.
fn add_hosts(files: &mut HostFiles) -> Result<(), VmError> {
    for path in MAYBE_MERGED.map(Path::new).into_iter().filter(|path| path.exists()) {
        files.add(path)?;
    }
    for path in LOADER_CONFIGURATION.map(Path::new).into_iter().filter(|path| path.exists()) {
        files.add_all(path)?;
    }
    Ok(())
}

/// A shell and the usual small tools: busybox's if the host has it, else the host's shell alone.
fn add_tools(files: &mut HostFiles) -> Result<(), VmError> {
    let Ok(busybox) = which::which("busybox") else {
        let shell = Path::new("/bin/sh");
        return if shell.exists() { files.add_program(shell).map(drop) } else { Ok(()) };
    };
    files.add_program(&busybox)?;
    for tool in applets(&busybox) {
        // If the host's own program of that name was copied, it takes precedence.
        let taken = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
            .iter()
            .any(|folder| files.tree().contains(&Path::new(folder).join(&tool)));
        if !taken {
            files.tree().insert(Path::new("/usr/bin").join(&tool), Node::Symlink(busybox.clone()));
        }
    }
    if !Path::new("/bin").is_symlink() {
        // Not a merged-usr host: scripts still begin with `#!/bin/sh`.
        files.tree().insert("/bin/sh", Node::Symlink(busybox));
    }
    Ok(())
}

fn applets(busybox: &Path) -> Vec<PathBuf> {
    let listed = Command::new(busybox).arg("--list").stdin(Stdio::null()).output();
    let Ok(listed) = listed else { return Vec::new() };
    String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter(|name| !name.is_empty() && !name.contains('/'))
        .map(PathBuf::from)
        .collect()
}
