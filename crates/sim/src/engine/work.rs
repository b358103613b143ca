//! The end of work of each CPU's running task: one time per CPU, which changes often. A tournament tree: each inner
//! node has the earliest of its four children.
use super::Ns;
use flsched_machine::{CpuId, MAX_CPUS};

/// By time, then by the order of planning.
pub(super) type Key = (Ns, u64);

/// A time and, in the lower bits, the number of its planning, which grows from one planning to the next. So one comparison
/// of two entries orders them by time, then by planning; and the number leads to the CPU.
type Entry = u64;

/// The numbers of plannings. When all of them are used, the present entries are renumbered.
const NUMBERS: usize = 1 << NUMBER_BITS;
const NUMBER_BITS: u32 = 14;
const _: () = assert!(NUMBERS > MAX_CPUS);
/// Nothing is planned.
const NEVER: Entry = Entry::MAX;
/// The last time that an entry can have, some 13 days: no run may last as long. A later time becomes this one.
const LATEST: Ns = (Ns::MAX >> NUMBER_BITS) - 1;

fn number_of(entry: Entry) -> usize {
    entry as usize % NUMBERS
}

#[derive(Debug)]
pub(super) struct WorkTree {
    root: Entry,
    /// The nodes below it: first the root's four children, then those of node 0, of node 1, and so on.
    children: Vec<[Entry; 4]>,
    /// The node of the first CPU.
    leaves_at: usize,
    /// How many numbers are used.
    used: usize,
    /// By number: the CPU.
    cpus: Vec<u16>,
    /// By CPU: the order of planning among all events.
    planned: Vec<u64>,
}

impl WorkTree {
    pub(super) fn new(cpus: usize) -> Self {
        let (mut leaves, mut leaves_at) = (4, 0);
        while leaves < cpus {
            (leaves, leaves_at) = (4 * leaves, 4 * leaves_at + 4);
        }
        Self {
            root: NEVER,
            children: vec![[NEVER; 4]; (leaves_at + leaves) / 4],
            leaves_at,
            used: 0,
            cpus: vec![0; NUMBERS],
            planned: vec![0; leaves],
        }
    }

    /// Sets the time of `cpu`; `None`: never.
    #[inline]
    pub(super) fn set(&mut self, cpu: CpuId, key: Option<Key>) {
        let entry = match key {
            Some((at, planned)) => {
                self.planned[cpu] = planned;
                at.min(LATEST) << NUMBER_BITS | self.number(cpu) as Entry
            }
            None => NEVER,
        };
        self.put(cpu, entry);
    }

    #[inline]
    fn put(&mut self, cpu: CpuId, mut entry: Entry) {
        let mut node = self.leaves_at + cpu;
        loop {
            let children = &mut self.children[node / 4];
            let [one, two, three] = [1, 2, 3].map(|other| children[(node ^ other) % 4]);
            children[node % 4] = entry;
            entry = entry.min(one.min(two).min(three));
            if node < 4 {
                break;
            }
            node = node / 4 - 1;
        }
        self.root = entry;
    }

    /// A number for a new entry of `cpu`.
    #[inline]
    fn number(&mut self, cpu: CpuId) -> usize {
        if self.used == NUMBERS {
            self.renumber();
        }
        let number = self.used;
        self.cpus[number] = cpu as u16;
        self.used += 1;
        number
    }

    /// Gives the present entries the numbers from 0, and keeps their order.
    #[cold]
    fn renumber(&mut self) {
        let leaves = self.children[self.leaves_at / 4..].as_flattened();
        let mut entries: Vec<Entry> = leaves.iter().copied().filter(|entry| *entry != NEVER).collect();
        entries.sort_unstable();
        self.used = entries.len();
        let cpus: Vec<u16> = entries.iter().map(|entry| self.cpus[number_of(*entry)]).collect();
        for (number, (entry, cpu)) in entries.into_iter().zip(cpus).enumerate() {
            self.cpus[number] = cpu;
            self.put(CpuId::from(cpu), entry >> NUMBER_BITS << NUMBER_BITS | number as Entry);
        }
    }

    /// The time of the event that comes first, and its CPU.
    #[inline]
    pub(super) fn first(&self) -> Option<(Ns, CpuId)> {
        let cpu = self.cpus[number_of(self.root)];
        (self.root != NEVER).then_some((self.root >> NUMBER_BITS, CpuId::from(cpu)))
    }

    /// Whether `cpu`'s event at `at` comes before that of the other key, mostly without reading when `cpu`'s was planned.
    #[inline]
    pub(super) fn is_before(&self, at: Ns, cpu: CpuId, other: Key) -> bool {
        at < other.0 || (at, self.planned[cpu]) < other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::random;
    use rand::RngExt;

    #[test]
    fn the_first_is_the_least_of_all() {
        let mut random = random(1, 0);
        for cpus in [1, 2, 3, 7, 64, 228] {
            let mut tree = WorkTree::new(cpus);
            let mut plain = vec![None; cpus];
            assert_eq!(tree.first(), None);
            for seq in 0..40_000 {
                let cpu = random.random_range(0..cpus);
                let from = [0, LATEST - 50][random.random_range(0..2)];
                let key = random.random_ratio(2, 3).then(|| (from + random.random_range(0..50), seq));
                tree.set(cpu, key);
                plain[cpu] = key;
                let least = (0..cpus).filter_map(|cpu| Some((plain[cpu]?, cpu))).min();
                assert_eq!(tree.first(), least.map(|((at, _), cpu)| (at, cpu)));
            }
        }
    }
}
