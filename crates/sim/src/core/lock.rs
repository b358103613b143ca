//! Locks as resources: who comes while another holds one waits, and the time is counted.
//!
//! What a CPU does in one go is simulated in one go, on its own clock, which may be ahead of the
//! others'. So a lock is a calendar: it is free again when its last holder gave it back, on that
//! CPU's clock, and who comes earlier spins until then. Waiters get it in the order in which they
//! are simulated.
use super::{Core, CpuId};
use crate::engine::Ns;
use std::collections::BTreeMap;

/// A lock's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId(usize);

/// What all locks of one kind add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Times taken.
    pub taken: u64,
    /// Times somebody had to wait.
    pub contended: u64,
    /// Time spun, in ns.
    pub spun: Ns,
    /// Time held, in ns.
    pub held: Ns,
}

#[derive(Debug)]
struct Lock {
    kind: usize,
    free_at: Ns,
    taken_at: Ns,
    last: CpuId,
}

/// All locks.
#[derive(Debug, Default)]
pub struct Locks {
    locks: Vec<Lock>,
    kinds: Vec<(&'static str, LockCounts)>,
}

impl Locks {
    /// A new lock of a kind, for instance `rq`.
    pub fn add(&mut self, kind: &'static str) -> LockId {
        let kind = self.kinds.iter().position(|(name, _)| *name == kind).unwrap_or_else(|| {
            self.kinds.push((kind, LockCounts::default()));
            self.kinds.len() - 1
        });
        self.locks.push(Lock { kind, free_at: 0, taken_at: 0, last: 0 });
        LockId(self.locks.len() - 1)
    }

    /// By kind.
    pub fn counts(&self) -> BTreeMap<&'static str, LockCounts> {
        self.kinds.iter().copied().collect()
    }
}

impl Core {
    /// The CPU that is simulated takes a lock: it spins until it is free, and fetches its cache line
    /// from the last holder.
    pub fn lock(&mut self, id: LockId) {
        let here = self.here;
        let lock = &mut self.locks.locks[id.0];
        let counts = &mut self.locks.kinds[lock.kind].1;
        let clock = &mut self.cpus[here].clock;
        counts.taken += 1;
        if lock.free_at > *clock && lock.last != here {
            counts.contended += 1;
            counts.spun += lock.free_at - *clock;
            self.counts.spun += lock.free_at - *clock;
            *clock = lock.free_at;
        }
        if lock.last != here {
            *clock += self.machine.costs.handover_ns.at(self.machine.distance(lock.last, here));
            lock.last = here;
            self.counts.events += 1;
        }
        lock.taken_at = *clock;
    }

    /// It gives it back.
    pub fn unlock(&mut self, id: LockId) {
        let clock = self.cpus[self.here].clock;
        let lock = &mut self.locks.locks[id.0];
        self.locks.kinds[lock.kind].1.held += clock - lock.taken_at;
        lock.free_at = lock.free_at.max(clock);
    }
}
