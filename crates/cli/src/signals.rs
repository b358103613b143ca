//! Ctrl-C and its kin: a flag for commands that end by themselves, the signals one by one for those
//! that pass them to a child.
pub use flsched_base::signals::stop_flag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Catches what should reach a child instead of ending us.
pub struct Forwarder(SignalsInfo<WithOrigin>);

impl Forwarder {
    /// From here on none of these signals ends this process. SIGCHLD is among them so that it
    /// interrupts a wait.
    pub fn new() -> std::io::Result<Self> {
        let caught = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD];
        Ok(Self(SignalsInfo::<WithOrigin>::new(caught)?))
    }

    /// Passes what arrived to `child`, except what the terminal sent to the whole process group
    /// and the child has therefore had.
    pub fn forward(&mut self, child: Pid) {
        for origin in self.0.pending() {
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            if origin.signal == SIGCHLD || from_terminal {
                continue;
            }
            if let Ok(signal) = Signal::try_from(origin.signal) {
                // It may have ended in the meantime.
                let _ = kill(child, signal);
            }
        }
    }
}
