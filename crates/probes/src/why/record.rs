//! What the probe writes, and what user space adds when it ends.

pub const MODES: usize = 8;

/// What a CPU does; as in why.bpf.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A task of user space, there or in the kernel.
    Task,
    /// A thread of the kernel's.
    Kernel,
    /// Between the call of the scheduler and its return.
    Switch,
    /// Waking a task.
    Wake,
    /// Spinning for a lock of the kernel.
    Lock,
    /// An interrupt.
    Interrupt,
    /// The probe itself.
    Probe,
    /// The idle task.
    Idle,
}

/// The task that left can go on.
const WAITS: u32 = 1 << 31;
/// The task that left called `sched_yield`.
const YIELDED: u32 = 1 << 30;

/// A CPU went from one task to the next.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Switched {
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// The task that left, and flags.
    pub prev: u32,
    /// The task that came; 0 is the idle task.
    pub next: u32,
    /// By mode, since the CPU's switch before, modulo 2^32.
    pub ns: [u32; MODES],
    /// Samples since then that found a task in user space.
    pub in_user: u32,
    /// Samples since then that found a task of user space in the kernel.
    pub in_kernel: u32,
}

impl Switched {
    /// The task that left; 0 is the idle task.
    pub fn left(&self) -> u32 {
        self.prev & !(WAITS | YIELDED)
    }

    /// Whether it is a user task and still runnable.
    pub fn still_waits(&self) -> bool {
        self.prev & WAITS != 0
    }

    /// Whether it left by `sched_yield`.
    pub fn yielded(&self) -> bool {
        self.prev & YIELDED != 0
    }
}

/// A task of user space became able to run.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Woken {
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    pub task: u32,
    /// The CPU that it was sent to.
    pub cpu: u32,
}

/// What a CPU had done since its last switch when the probe ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenTurn {
    /// By mode.
    pub ns: [u64; MODES],
    /// When that was counted; 0: never.
    pub until: u64,
}

/// All that was seen.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// By CPU, in the order of time.
    pub switches: Vec<Vec<Switched>>,
    /// In no particular order.
    pub wakes: Vec<Woken>,
    /// By CPU.
    pub open: Vec<OpenTurn>,
    /// Calls of `sched_yield`.
    pub yields: u64,
    /// When a CPU had no room for more records, or another one came online; too little is known of what came after.
    pub full_at: Option<u64>,
}

#[cfg(test)]
impl Switched {
    pub(crate) fn flagged(mut self, waits: bool, yielded: bool) -> Self {
        self.prev |= if waits { WAITS } else { 0 } | if yielded { YIELDED } else { 0 };
        self
    }
}
