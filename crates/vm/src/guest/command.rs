//! Starts the command.
use super::system;
use crate::protocol::{Assignment, Outcome};
use nix::errno::Errno;
use nix::sys::signal::SigSet;
use nix::unistd::setsid;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts the command with pipes for its input and output; `None` if there is none to start.
pub fn spawn(assignment: &Assignment) -> Option<Result<Child, Outcome>> {
    let (program, arguments) = assignment.argv.split_first()?;
    // The folder with the path of the host's working folder; it is empty if no file in it was copied.
    let directory = match std::fs::create_dir_all(&assignment.directory) {
        Ok(()) => Path::new(&assignment.directory),
        Err(_) => Path::new("/"),
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(assignment.env.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The file is opened before the fork, as little is allowed between fork and exec.
    let group = match system::cgroup(assignment.cgroup) {
        Ok(group) => group,
        Err(error) => return Some(Err(why(&error))),
    };
    // SAFETY: between fork and exec only async-signal-safe calls are made.
    unsafe { command.pre_exec(move || as_a_session(&group)) };
    Some(command.spawn().map_err(|error| why(&error)))
}

/// Prepares the child before exec. It gets a session, so that signals reach the command with all its children and the
/// scheduler treats them as one autogroup. It enters the cgroup. It unblocks the signals that process 1 has blocked.
fn as_a_session(group: &Option<File>) -> io::Result<()> {
    setsid()?;
    if let Some(mut group) = group.as_ref() {
        group.write_all(b"0")?; // 0: the caller
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

fn why(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Outcome::NotFound,
        other => Outcome::NotExecutable(other.unwrap_or(Errno::EIO as i32)),
    }
}
