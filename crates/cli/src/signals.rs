//! Ctrl-C and its kin: a flag for commands that end by themselves, the signals one by one for those
//! that pass them to a child.
use flsched_base::signals::is_nohup;
pub use flsched_base::signals::{end_again, never_stop, stop_flag, stop_flag_or_end};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getpgrp};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Catches what should reach a child instead of ending us.
pub struct Forwarder(SignalsInfo<WithOrigin>);

impl Forwarder {
    /// From here on none of these signals ends this process. SIGCHLD is among them so that it interrupts a wait. Under
    /// nohup SIGHUP stays ignored, also for the child.
    pub fn new() -> std::io::Result<Self> {
        let caught = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD];
        Ok(Self(SignalsInfo::<WithOrigin>::new(caught.into_iter().filter(|signal| !is_nohup(*signal)))?))
    }

    /// What arrived so far and ends a process, before there is a child to which it could be passed.
    pub fn end(&mut self) -> Option<i32> {
        let ends = |signal: &i32| [SIGINT, SIGQUIT, SIGTERM, SIGHUP].contains(signal);
        self.0.pending().map(|origin| origin.signal).find(ends)
    }

    /// Passes what arrived to `child`, except what the terminal sent to the whole process group if the child is in it, and
    /// has therefore had it.
    pub fn forward(&mut self, child: Pid) {
        let is_in_group = || getpgid(Some(child)).is_ok_and(|group| group == getpgrp());
        for origin in self.0.pending() {
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            if origin.signal == SIGCHLD || (from_terminal && is_in_group()) {
                continue;
            }
            if let Ok(signal) = Signal::try_from(origin.signal) {
                // It may have ended in the meantime.
                let _ = kill(child, signal);
            }
        }
    }
}
