//! A child process that does not outlive this program.
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the kernel kill the command's process when the *thread* that starts it ends, and so when this program ends.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = Pid::this();
    // SAFETY: between fork and exec there are only async-signal-safe system calls.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // If the parent died before that call, the kernel sends no signal.
            if Pid::parent() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_killed_with_the_thread_that_started_it() {
        let start = || end_with_parent(Command::new("sleep").arg("60")).spawn().unwrap();
        let mut child = std::thread::spawn(start).join().unwrap();
        let status = crate::process::wait_for(&mut child, std::time::Duration::from_secs(30)).unwrap();
        assert!(status.is_some_and(|status| !status.success()));
    }
}
