//! The kernel's scheduling class in which a workload starts.
use flsched_spec::{Kernel, Scheduler};
use nix::libc;
use std::io;

/// A scheduling class, for a process and its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// The kernel's number of the class: `SCHED_OTHER`, …
    pub(super) policy: libc::c_int,
    priority: libc::c_int,
}

impl Class {
    pub(super) const NORMAL: Self = Self { policy: libc::SCHED_OTHER, priority: 0 };

    /// The class for this scheduler. sched_ext schedules the normal tasks, so its workloads are normal tasks.
    pub(super) fn of(scheduler: &Scheduler) -> Self {
        let Scheduler::Kernel(spec) = scheduler else { return Self::NORMAL };
        match spec.kernel {
            Kernel::Eevdf | Kernel::Cfs => Self::NORMAL,
            Kernel::Batch => Self { policy: libc::SCHED_BATCH, priority: 0 },
            Kernel::Fifo => Self { policy: libc::SCHED_FIFO, priority: 1 },
            Kernel::Rr => Self { policy: libc::SCHED_RR, priority: 1 },
        }
    }

    /// Moves the calling process to the class. The default class is set explicitly, too, because this program may have
    /// been started in another one.
    pub(super) fn enter(self) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the kernel only reads `parameters`.
        match unsafe { libc::sched_setscheduler(0, self.policy, &parameters) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The kernel's name of the class with this number.
pub(super) fn name(policy: libc::c_int) -> String {
    match policy {
        libc::SCHED_OTHER => "SCHED_OTHER".into(),
        libc::SCHED_BATCH => "SCHED_BATCH".into(),
        libc::SCHED_FIFO => "SCHED_FIFO".into(),
        libc::SCHED_RR => "SCHED_RR".into(),
        _ => format!("class {policy}"),
    }
}
