//! The scheduling class SCHED_EXT.
use nix::errno::Errno;
use nix::libc;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Its number among the scheduling policies, from `include/uapi/linux/sched.h`.
pub(crate) const SCHED_EXT: u32 = 7;

/// Lets the command start in class SCHED_EXT, which its children inherit. Where the kernel refuses the class,
/// the command does not start: `spawn` returns the kernel's error.
pub fn start_in_sched_ext(command: &mut Command) {
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(enter_sched_ext) };
}

/// Puts the calling process into it.
fn enter_sched_ext() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call.
    let outcome = unsafe { libc::sched_setscheduler(0, SCHED_EXT as libc::c_int, &none) };
    Errno::result(outcome).map(drop).map_err(Into::into)
}
