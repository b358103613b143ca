//! Ctrl-C and its kin, for what ends by itself.
use nix::libc;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set once SIGINT, SIGTERM or SIGHUP arrives.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    stop_flag_with(|_, _| Ok(()))
}

/// The same, for a process whose end cleans up by itself: a second signal ends it at once, also while it waits for somebody
/// to read what it prints.
pub fn stop_flag_or_end() -> io::Result<Arc<AtomicBool>> {
    stop_flag_with(|signal, flag| register_conditional_shutdown(signal, 128 + signal, flag.clone()).map(drop))
}

/// For each signal `first` registers what is done before the flag is set.
fn stop_flag_with(
    first: impl Fn(libc::c_int, &Arc<AtomicBool>) -> io::Result<()>,
) -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_nohup(*signal)) {
        first(signal, &flag)?;
        register(signal, flag.clone())?;
    }
    Ok(flag)
}

/// From here on these signals, and SIGQUIT, end this process again. Under nohup SIGHUP stays ignored.
pub fn end_again() -> io::Result<()> {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        if !is_nohup(signal as libc::c_int) {
            // SAFETY: no handler is installed.
            unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) }?;
        }
    }
    Ok(())
}

/// SIGHUP, if nohup has this process ignore it. A shell has what it starts in the background ignore SIGINT, too, but who
/// sends that means this process.
pub fn is_nohup(signal: libc::c_int) -> bool {
    // SAFETY: zeroes are a valid `sigaction`, which the call fills in; without a new action it changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        signal == SIGHUP
            && libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Ctrl-Z does nothing from here on: a process that stands still detaches no scheduler.
pub fn never_stop() -> io::Result<()> {
    // SAFETY: no handler is installed.
    unsafe { nix::sys::signal::signal(Signal::SIGTSTP, nix::sys::signal::SigHandler::SigIgn) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_end_the_process_again() {
        let handler = || {
            // SAFETY: as in `is_nohup`.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(SIGTERM, std::ptr::null(), &mut action);
                action.sa_sigaction
            }
        };
        stop_flag().unwrap();
        assert_ne!(handler(), libc::SIG_DFL);
        end_again().unwrap();
        assert_eq!(handler(), libc::SIG_DFL);
    }
}
