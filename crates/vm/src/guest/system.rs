//! Sets up what programs expect of a machine: file systems, loopback, limits.
use crate::protocol::Cgroup;
use nix::mount::{MsFlags, mount};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Mount {
    kind: &'static str,
    at: &'static str,
    options: &'static str,
    /// Whether a failure ends process 1.
    vital: bool,
}

const fn vital(kind: &'static str, at: &'static str) -> Mount {
    Mount { kind, at, options: "", vital: true }
}

const fn useful(kind: &'static str, at: &'static str, options: &'static str) -> Mount {
    Mount { kind, at, options, vital: false }
}

/// The mounts, in order: a mount inside another one comes after it. /tmp and /run need none, as the root file system is
/// in memory, and a mount would hide files that were copied from the host's /tmp.
const MOUNTS: [Mount; 9] = [
    vital("proc", "/proc"),
    vital("sysfs", "/sys"),
    vital("devtmpfs", "/dev"),
    useful("devpts", "/dev/pts", "mode=0620,ptmxmode=0666"),
    useful("tmpfs", "/dev/shm", "mode=1777"),
    useful("cgroup2", "/sys/fs/cgroup", ""),
    useful("debugfs", "/sys/kernel/debug", ""),
    useful("tracefs", "/sys/kernel/tracing", ""),
    useful("bpf", "/sys/fs/bpf", "mode=0700"),
];

const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Files and what is written to them. Cgroups: enables controllers, so that a user can create groups with CPU weights
/// at once. Loopback: sets the interface's flags with IFF_UP.
const SETTINGS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset"), ("/sys/class/net/lo/flags", "0x49")];

/// The cgroups in which systemd runs a user's commands. The CPU controller is enabled at each level.
const LOGIN_CGROUPS: [&str; 3] = ["user.slice", "user-0.slice", "session-1.scope"];

/// Limit of open files: the kernel's default maximum.
const OPEN_FILES: u64 = 1 << 20;

/// Creates the command's cgroup. Returns the file through which a process enters it; `None`: it stays in the root
/// cgroup.
pub fn cgroup(cgroup: Cgroup) -> io::Result<Option<File>> {
    let mut folder = PathBuf::from("/sys/fs/cgroup");
    if cgroup == Cgroup::Root || !folder.join("cgroup.controllers").exists() {
        return Ok(None);
    }
    for level in LOGIN_CGROUPS {
        fs::write(folder.join("cgroup.subtree_control"), "+cpu")?;
        folder.push(level);
        fs::create_dir_all(&folder)?;
    }
    OpenOptions::new().write(true).open(folder.join("cgroup.procs")).map(Some)
}

/// Prepares the machine. Failures of steps that are not vital are only printed to the console.
pub fn prepare() -> io::Result<()> {
    umask(Mode::from_bits_truncate(0o022));
    for Mount { kind, at, options, vital } in &MOUNTS {
        // This fails if the folder exists, or where only the kernel can create it.
        let _ = fs::create_dir(at);
        let options = Some(*options).filter(|options| !options.is_empty());
        if let Err(error) = mount(Some(*kind), *at, Some(*kind), MsFlags::empty(), options) {
            let error = io::Error::other(format!("cannot mount {kind} at {at}: {error}"));
            if *vital {
                return Err(error);
            }
            eprintln!("flsched: {error}");
        }
    }
    for (target, link) in LINKS {
        report(link, symlink(target, link));
    }
    link_tools();
    for (file, text) in SETTINGS {
        report(file, fs::write(file, text));
    }
    setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES)?;
    // BPF maps may count as locked memory, and benchmarks start many threads.
    setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY)?;
    setrlimit(Resource::RLIMIT_NPROC, RLIM_INFINITY, RLIM_INFINITY)?;
    Ok(())
}

/// A root that was not made on a machine of this processor has busybox without the names of its tools.
fn link_tools() {
    const BUSYBOX: &str = "/usr/bin/busybox";
    if Path::new("/usr/bin/sh").exists() || !Path::new(BUSYBOX).exists() {
        return;
    }
    // It complains of each name that a program of its own has.
    let done = Command::new(BUSYBOX).args(["--install", "-s", "/usr/bin"]).stderr(Stdio::null()).status();
    report("busybox's tools", done.map(drop));
}

fn report(what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        eprintln!("flsched: {what}: {error}");
    }
}

/// Sets the machine's host name.
pub fn set_hostname(name: &str) -> io::Result<()> {
    Ok(nix::unistd::sethostname(name)?)
}

/// The kernel's release, as `uname -r` prints it.
pub fn release() -> io::Result<String> {
    Ok(nix::sys::utsname::uname()?.release().to_string_lossy().into_owned())
}

/// The number of online CPUs.
pub fn cpus_online() -> io::Result<u32> {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN)?;
    Ok(online.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(0))
}
