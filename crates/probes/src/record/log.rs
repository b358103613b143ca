//! What the probe writes, as in record.bpf.c.
use crate::probe::{name_of, records};

/// More CPUs than this it has no room for.
pub const MAX_CPUS: usize = 1024;
/// Events in a chunk.
pub const CHUNK_EVENTS: usize = 682;

/// In the upper bits of an event's second number.
const KIND_SHIFT: u32 = 28;
/// The longest name of a task, and the byte that ends it.
const NAME: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A task left its CPU, because it waits.
    Blocked,
    /// The same, in a call of `read`, `recv` or `poll`.
    Reading,
    /// It left its CPU, but it can go on.
    Preempted,
    /// The same, by `sched_yield`.
    Yielded,
    /// The same, for ever.
    Exited,
    /// A task was woken by what ran on the CPU.
    Woken,
    /// The same, in a call of `write`, `send`, `read` or the like.
    WokenByMessage,
    /// The same by an interrupt.
    WokenByInterrupt,
    /// The same, by a child that ends and for which the task waits.
    WokenByEnd,
    /// A task was created by what ran on the CPU.
    Forked,
    /// The same, by `vfork`.
    Vforked,
    /// A task left its CPU in a call of `futex`.
    InFutex,
}

impl Kind {
    /// In the order of their numbers.
    const ALL: [Self; 12] = [
        Self::Blocked,
        Self::Reading,
        Self::Preempted,
        Self::Yielded,
        Self::Exited,
        Self::Woken,
        Self::WokenByMessage,
        Self::WokenByInterrupt,
        Self::WokenByEnd,
        Self::Forked,
        Self::Vforked,
        Self::InFutex,
    ];

    /// Whether a task left its CPU.
    pub fn is_switch(self) -> bool {
        match self {
            Self::Blocked
            | Self::Reading
            | Self::Preempted
            | Self::Yielded
            | Self::Exited
            | Self::InFutex => true,
            Self::Woken
            | Self::WokenByMessage
            | Self::WokenByInterrupt
            | Self::WokenByEnd
            | Self::Forked
            | Self::Vforked => false,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct RawEvent {
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// That left, was woken or created, by its number; 0 is the idle task.
    pub task: u32,
    /// That came, with the kind.
    other: u32,
    /// Calls of `read` and the like, and of `write`, that the task which left has finished since it came.
    pub calls: [u32; 2],
}

impl RawEvent {
    /// The task that came.
    pub fn next(&self) -> u32 {
        self.other & ((1 << KIND_SHIFT) - 1)
    }

    pub fn kind(&self) -> Kind {
        // The probe writes no other number.
        let number = (self.other >> KIND_SHIFT) as usize;
        Kind::ALL.get(number).copied().unwrap_or(Kind::Blocked)
    }
}

/// A part of the log, of one CPU.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Chunk {
    pub cpu: u32,
    /// How many events are in it.
    pub used: u32,
    unused: u64,
    /// In the order of the CPU's clock.
    pub events: [RawEvent; CHUNK_EVENTS],
}

/// A task at some moment.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Identity {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    pub task: u32,
    /// That of its process.
    pub process: u32,
    /// 100 to 139: nice -20 to 19.
    pub priority: i32,
    /// `SCHED_…`.
    pub policy: u32,
    /// 1 to 99.
    pub real_time_priority: u32,
    /// 1: it is one.
    pub is_kernel_thread: u32,
    /// On how many it may run.
    pub nr_cpus: u32,
    unused: u32,
    name: [u8; NAME],
    cpus: [u64; MAX_CPUS / 64],
}

impl Identity {
    /// Up to its last byte but the end's.
    pub fn name(&self) -> String {
        name_of(&self.name)
    }

    /// Whether it may run on this CPU.
    pub fn may_run_on(&self, cpu: u32) -> bool {
        self.cpus.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// All of them in these bytes, which end with a whole one.
    pub fn all_in(bytes: &[u8]) -> Vec<Self> {
        // SAFETY: plain numbers.
        unsafe { records(bytes) }.collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn event(at: u64, kind: Kind, task: u32, next: u32) -> RawEvent {
        RawEvent { at, task, other: next | (kind as u32) << KIND_SHIFT, calls: [0; 2] }
    }

    pub(crate) fn identity(at: u64, task: u32, name: &str) -> Identity {
        let mut it = Identity {
            at,
            task,
            process: task,
            priority: 120,
            policy: 0,
            real_time_priority: 0,
            is_kernel_thread: 0,
            nr_cpus: 4,
            unused: 0,
            name: [0; NAME],
            cpus: [0; MAX_CPUS / 64],
        };
        it.name[..name.len()].copy_from_slice(name.as_bytes());
        it.cpus[0] = 0b1111;
        it
    }

    #[test]
    fn an_event_keeps_its_kind_beside_the_largest_number() {
        const LARGEST: u32 = (1 << 22) - 1;
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let it = event(1, kind, 7, LARGEST);
            assert_eq!((it.kind(), it.next()), (kind, LARGEST));
        }
        assert_eq!(size_of::<Chunk>(), 16 << 10);
    }
}
