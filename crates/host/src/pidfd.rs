//! Waits for the end of a child process without polling.
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// Becomes readable when the process ends.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

impl Pidfd {
    /// For a child that has not been reaped yet.
    pub fn of(child: &Child) -> io::Result<Self> {
        // SAFETY: no memory is involved; the result is a new descriptor without another owner.
        unsafe {
            match libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd as libc::c_int))),
            }
        }
    }

    /// Waits for the end for this time at most; a signal also ends the wait. True: the process has
    /// ended.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut watched = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // Whole milliseconds, and never less than asked for.
        let timeout = PollTimeout::try_from(at_most.saturating_add(Duration::from_millis(1)));
        matches!(poll(&mut watched, timeout.unwrap_or(PollTimeout::MAX)), Ok(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn is_seen_when_it_comes() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let end = Pidfd::of(&child).unwrap();
        assert!(!end.wait(Duration::from_millis(1)));
        child.kill().unwrap();
        assert!(end.wait(Duration::from_secs(30)));
        child.wait().unwrap();
    }
}
