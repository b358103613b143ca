//! Waits for the end of a child process.
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between two checks where the kernel gives no descriptor of the process.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Pause between two checks whether to stop. Long, so as not to disturb what is measured.
const STOP_INTERVAL: Duration = Duration::from_millis(250);

/// Waits for a child's end. When `stop` is set, the child gets SIGTERM, once, and is still waited for.
pub fn wait_or_terminate(child: &mut Child, stop: &AtomicBool) -> io::Result<ExitStatus> {
    let mut stopped = false;
    loop {
        if let Some(status) = wait_for(child, STOP_INTERVAL)? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !stopped {
            stopped = true;
            let _ = kill(Pid::from_raw(child.id() as libc::pid_t), Signal::SIGTERM);
        }
    }
}

/// Waits for a child's end for this time at most; a signal also ends the wait. `None`: the child still runs.
pub fn wait_for(child: &mut Child, at_most: Duration) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    match open_pidfd(child) {
        Ok(pidfd) => {
            let mut watched = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
            // Whole milliseconds, and never less than asked for.
            let timeout = PollTimeout::try_from(at_most.saturating_add(Duration::from_millis(1)));
            let _ = poll(&mut watched, timeout.unwrap_or(PollTimeout::MAX));
            child.try_wait()
        }
        Err(_) => check_until(child, at_most),
    }
}

/// A descriptor that becomes readable when the process ends. The child must not have been reaped yet.
fn open_pidfd(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved; the result is a new descriptor without another owner.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd as libc::c_int)),
        }
    }
}

fn check_until(child: &mut Child, at_most: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        let status = child.try_wait()?;
        let left = at_most.saturating_sub(started.elapsed());
        if status.is_some() || left.is_zero() {
            return Ok(status);
        }
        std::thread::sleep(left.min(CHECK_INTERVAL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_stop_ends_the_child() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let status = wait_or_terminate(&mut child, &AtomicBool::new(true)).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
    }

    #[test]
    fn an_end_is_noticed_when_it_comes() {
        for wait in [wait_for, check_until] {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            assert_eq!(wait(&mut child, Duration::from_millis(1)).unwrap(), None);
            child.kill().unwrap();
            let status = wait(&mut child, Duration::from_secs(30)).unwrap();
            assert!(status.is_some_and(|status| !status.success()));
            assert_eq!(wait(&mut child, Duration::from_secs(30)).unwrap(), status, "a reaped child");
        }
    }
}
