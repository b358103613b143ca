//! Locks as resources: a CPU that takes a lock which another one holds waits, and the wait is
//! counted.
//!
//! A CPU's work between two events is simulated in one step, on the CPU's own clock, which may be
//! ahead of the others'. So each lock records when it becomes free, on its last holder's clock. A
//! CPU that arrives earlier spins until then. Waiters get the lock in the order in which they are
//! simulated.
//!
//! A cache line that is written without a lock is modelled as a lock that is released at once. The
//! length of a transfer is known beforehand, so that a CPU that is simulated later, on an earlier
//! clock, can still come first.
use super::{Core, CpuId};
use crate::engine::Ns;
use flsched_machine::{Distance, Price};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockId(usize);

/// The counts of all locks of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Times taken.
    pub taken: u64,
    /// How often a CPU had to wait.
    pub contended: u64,
    /// Time spun, in ns.
    pub spun: Ns,
    /// Time held, in ns.
    pub held: Ns,
}

#[derive(Debug, Default)]
struct Lock {
    kind: usize,
    free_at: Ns,
    taken_at: Ns,
    last: CpuId,
    /// Its transfers between CPUs, from start to end, if it is a line that is written without a lock.
    moves: VecDeque<(Ns, Ns)>,
    writes: u64,
    /// By CPU: the number of writes after which it fetched its copy.
    copies: Vec<u64>,
}

impl Lock {
    /// This CPU changes what is in the line.
    fn change(&mut self, cpu: CpuId) {
        self.writes += 1;
        if let Some(copy) = self.copies.get_mut(cpu) {
            *copy = self.writes;
        }
    }

    /// This CPU has a copy from now on. Returns whether it had none since the last change.
    fn copy(&mut self, cpu: CpuId, cpus: usize) -> bool {
        self.copies.resize(cpus, 0);
        std::mem::replace(&mut self.copies[cpu], self.writes) != self.writes
    }
}

/// Separate transfers that are kept: enough for the CPU whose clock is furthest behind.
const MOVES_KEPT: usize = 1024;

/// Reserves the first free period of this `length` from `from` on, and returns its start.
fn book(moves: &mut VecDeque<(Ns, Ns)>, from: Ns, length: Ns) -> Ns {
    let mut at = from;
    let mut index = moves.partition_point(|&(_, end)| end <= from);
    while let Some(&(begin, end)) = moves.get(index)
        && begin < at + length
    {
        at = at.max(end);
        index += 1;
    }
    if index > 0 && moves[index - 1].1 == at {
        moves[index - 1].1 = at + length;
    } else {
        moves.insert(index, (at, at + length));
    }
    if moves.len() > MOVES_KEPT {
        moves.pop_front();
    }
    at
}

#[derive(Debug, Default)]
pub struct Locks {
    /// None is waited for or fetched, for comparisons.
    pub(crate) are_free: bool,
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
        self.locks.push(Lock { kind, ..Lock::default() });
        LockId(self.locks.len() - 1)
    }

    /// Counts by kind.
    pub fn counts(&self) -> BTreeMap<&'static str, LockCounts> {
        self.kinds.iter().copied().collect()
    }
}

impl Core {
    /// The simulated CPU takes a lock: it spins until the lock is free, and fetches its cache line
    /// from the last holder.
    pub fn lock(&mut self, id: LockId) {
        let last = self.count_taken(id);
        if last != self.here {
            if !self.locks.are_free {
                self.spin(id, self.locks.locks[id.0].free_at);
                self.fetch_line(self.travel_ns(last));
            }
            self.pass_on(id);
        }
        let lock = &mut self.locks.locks[id.0];
        lock.taken_at = self.cpus[self.here].clock;
        lock.change(self.here);
    }

    /// The simulated CPU reads this line. Many CPUs can have copies at a time; a CPU without a copy
    /// since the last write fetches one.
    pub fn read(&mut self, id: LockId) {
        let count = self.nr_cpus();
        let lock = &mut self.locks.locks[id.0];
        if lock.copy(self.here, count) {
            let last = lock.last;
            self.spend(Price::Handover, self.travel_ns(last));
        }
    }

    /// The simulated CPU reads the state of another CPU's run queue, which changes only under that queue's lock. What it
    /// has read since costs as much as a line from its own core.
    pub fn look_at(&mut self, cpu: CpuId) {
        if cpu == self.here {
            return;
        }
        let count = self.nr_cpus();
        let lock = &mut self.locks.locks[self.cpus[cpu].lock.0];
        let last = lock.last;
        let travel = if lock.copy(self.here, count) { self.travel_ns(last) } else { 0 };
        let least = self.machine.costs.handover_ns.at(Distance::Core);
        self.spend(Price::Handover, travel.max(least));
    }

    /// The simulated CPU writes to this line once.
    pub fn write(&mut self, id: LockId) {
        let last = self.count_taken(id);
        self.locks.locks[id.0].change(self.here);
        if last == self.here {
            return;
        }
        let (now, travel) = (self.cpus[self.here].clock, self.travel_ns(last));
        let at = book(&mut self.locks.locks[id.0].moves, now, travel);
        self.spin(id, at);
        self.fetch_line(travel);
        self.pass_on(id);
    }

    /// Returns the last holder.
    fn count_taken(&mut self, id: LockId) -> CpuId {
        let lock = &self.locks.locks[id.0];
        self.locks.kinds[lock.kind].1.taken += 1;
        lock.last
    }

    /// How long a cache line takes from that CPU to the simulated one.
    pub fn travel_ns(&self, from: CpuId) -> Ns {
        self.machine.costs.handover_ns.at(self.machine.distance(from, self.here))
    }

    /// The simulated CPU spins until then, if that is later.
    fn spin(&mut self, id: LockId, until: Ns) {
        let clock = &mut self.cpus[self.here].clock;
        let ns = until.saturating_sub(*clock);
        if ns > 0 {
            let counts = &mut self.locks.kinds[self.locks.locks[id.0].kind].1;
            counts.contended += 1;
            counts.spun += ns;
            self.counts.spun += ns;
            self.spent.add(Price::LockWait, ns);
            *clock = until;
        }
    }

    /// A line takes as long to a slow CPU as to a fast one.
    fn fetch_line(&mut self, ns: Ns) {
        self.cpus[self.here].clock += ns;
        self.spent.add(Price::Handover, ns);
    }

    fn pass_on(&mut self, id: LockId) {
        self.locks.locks[id.0].last = self.here;
        self.counts.events += 1;
    }

    /// The simulated CPU releases it.
    pub fn unlock(&mut self, id: LockId) {
        let clock = self.cpus[self.here].clock;
        let lock = &mut self.locks.locks[id.0];
        self.locks.kinds[lock.kind].1.held += clock - lock.taken_at;
        lock.free_at = lock.free_at.max(clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_machine::Machine;
    use std::sync::Arc;

    /// Two sockets; CPU 8 is in the first one, CPU 192 in the other.
    #[test]
    fn a_run_queue_that_has_not_changed_is_still_in_the_cache() {
        let machine = Machine::find("epyc-2s-768t").unwrap().even();
        let of = |from, to| machine.costs.handover_ns.at(machine.distance(from, to));
        let (core_ns, remote_ns) = (machine.costs.handover_ns.core, of(192, 0));
        assert!(remote_ns > of(8, 0) && of(8, 0) > core_ns);
        let mut core = Core::new(Arc::new(machine.clone()), 1);
        let look = |core: &mut Core, by, at| {
            core.go_to(by);
            let before = core.clock();
            core.look_at(at);
            core.clock() - before
        };
        let change = |core: &mut Core, by, of: CpuId| {
            core.go_to(by);
            let lock = core.cpus[of].lock;
            core.lock(lock);
            core.unlock(lock);
        };
        change(&mut core, 192, 192);
        let costs = [look(&mut core, 0, 192), look(&mut core, 0, 192), look(&mut core, 192, 192)];
        assert_eq!(costs, [remote_ns, core_ns, 0]);
        // Its line comes from the CPU that changed it last.
        change(&mut core, 8, 192);
        assert_eq!([look(&mut core, 0, 192), look(&mut core, 0, 192)], [of(8, 0), core_ns]);
        change(&mut core, 0, 192);
        assert_eq!(look(&mut core, 0, 192), core_ns);
    }

    #[test]
    fn locks_that_are_free_are_counted_and_cost_nothing() {
        let taken_by_another = |are_free| {
            let machine = Machine::find("epyc-2s-768t").unwrap().even();
            let mut core = Core::new(Arc::new(machine), 1);
            core.locks.are_free = are_free;
            let lock = core.cpus[0].lock;
            core.lock(lock);
            core.cpus[0].clock += 1_000_000;
            core.unlock(lock);
            core.go_to(192);
            core.lock(lock);
            (core.clock(), core.locks.counts()["rq"].taken)
        };
        assert!(taken_by_another(false).0 > 1_000_000);
        assert_eq!(taken_by_another(true), (0, 2));
    }

    #[test]
    fn an_earlier_request_takes_a_gap_that_is_long_enough() {
        let mut moves = VecDeque::new();
        assert_eq!(book(&mut moves, 1000, 10), 1000);
        assert_eq!(book(&mut moves, 500, 10), 500);
        assert_eq!(book(&mut moves, 995, 10), 1010);
        assert_eq!(book(&mut moves, 985, 10), 985);
        assert_eq!(book(&mut moves, 500, 10), 510);
        assert_eq!(moves, [(500, 520), (985, 995), (1000, 1020)]);
    }
}
