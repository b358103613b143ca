//! The scheduling class that a workload starts in, as the kernel counts them.
use flsched_spec::{Kernel, Scheduler};
use nix::libc;
use std::io;

/// A class of the kernel, for one process and its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// The kernel's number.
    pub(super) policy: libc::c_int,
    priority: libc::c_int,
}

impl Class {
    /// The default.
    pub(super) const NORMAL: Self = Self { policy: libc::SCHED_OTHER, priority: 0 };

    /// The one under this scheduler. sched_ext takes over the normal tasks, so a workload for it is a normal task.
    pub(super) fn of(scheduler: &Scheduler) -> Self {
        let Scheduler::Kernel(spec) = scheduler else { return Self::NORMAL };
        match spec.kernel {
            Kernel::Eevdf | Kernel::Cfs => Self::NORMAL,
            Kernel::Batch => Self { policy: libc::SCHED_BATCH, priority: 0 },
            Kernel::Fifo => Self { policy: libc::SCHED_FIFO, priority: 1 },
            Kernel::Rr => Self { policy: libc::SCHED_RR, priority: 1 },
        }
    }

    /// Puts the calling process there. Explicitly also into the default: this program may itself have been started
    /// in another.
    pub(super) fn enter(self) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the kernel only reads `parameters`.
        match unsafe { libc::sched_setscheduler(0, self.policy, &parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What the kernel calls the class of that number.
pub(super) fn name(policy: libc::c_int) -> String {
    match policy {
        libc::SCHED_OTHER => "SCHED_OTHER".into(),
        libc::SCHED_BATCH => "SCHED_BATCH".into(),
        libc::SCHED_FIFO => "SCHED_FIFO".into(),
        libc::SCHED_RR => "SCHED_RR".into(),
        _ => format!("class {policy}"),
    }
}
