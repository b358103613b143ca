//! What can go wrong, each with its remedy.
use crate::probe::Refusal;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy did not start, or ended with an error.
    #[error(transparent)]
    Policy(#[from] flsched_host::Error),
    /// The kernel ended the policy while it was measured.
    #[error("the kernel ejected {policy} while the command ran ({reason}): nothing was measured")]
    Ejected { policy: String, reason: String },
    /// The command could not be started.
    #[error("cannot start `{program}`: {cause}")]
    Start { program: String, cause: std::io::Error },
    #[error("`{program}` failed under {scheduler} ({status}): nothing was measured")]
    Failed { program: String, scheduler: String, status: std::process::ExitStatus },
    /// Ctrl-C or another signal to end.
    #[error("interrupted; the default scheduler is back")]
    Interrupted,
    /// Addresses of kernel symbols are hidden or lacking.
    #[error(
        "/proc/kallsyms shows no addresses: run it as root, with CAP_SYSLOG and with kernel.kptr_restrict below 2"
    )]
    NoSymbols,
    /// The kernel refused a probe.
    #[error("the kernel refused the probe {probe}: {refusal}")]
    Probe { probe: &'static str, refusal: Refusal },
    /// The probe's own cost could not be measured, so it could not be subtracted.
    #[error(
        "the probe saw no call of {function}, with which it measures its own cost: it cannot be used on this kernel"
    )]
    Uncalibrated {
        /// The kernel function that it was measured on.
        function: &'static str,
    },
    /// The object file is not as expected: a defect of the build.
    #[error("policy {policy}'s object is malformed: {what}")]
    Object { policy: String, what: String },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] std::io::Error),
}
