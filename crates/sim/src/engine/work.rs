//! The end of work of each CPU's running task: one time per CPU, which changes often. A tournament tree: each inner
//! node has the earliest of its four children.
use super::Ns;
use flsched_machine::CpuId;
use std::hint::select_unpredictable;

/// By time, then by the order of planning.
pub(super) type Key = (Ns, u64);

/// A time and its CPU in one number, which is compared at once. Between two of the same time, and from [`LATEST`] on,
/// the keys decide.
type Entry = u64;

/// More than a machine has CPUs.
const CPU_BITS: u32 = 16;
/// Some 78 hours.
const LATEST: Ns = Ns::MAX >> CPU_BITS;
/// Nothing is planned.
const NEVER: Key = (Ns::MAX, u64::MAX);
/// The root's index: the children of n are those from 4n - 8 to 4n - 5.
const ROOT: usize = 3;

fn entry((at, _): Key, cpu: CpuId) -> Entry {
    at.min(LATEST) << CPU_BITS | cpu as Entry
}

fn cpu_of(entry: Entry) -> CpuId {
    (entry & ((1 << CPU_BITS) - 1)) as CpuId
}

/// See the module.
#[derive(Debug)]
pub(super) struct WorkTree {
    nodes: Vec<Entry>,
    /// The first CPU's index.
    leaves_at: usize,
    /// By CPU.
    keys: Vec<Key>,
}

impl WorkTree {
    pub(super) fn new(cpus: usize) -> Self {
        let (mut leaves, mut leaves_at) = (1, ROOT);
        while leaves < cpus.max(2) {
            (leaves, leaves_at) = (4 * leaves, 4 * leaves_at - 8);
        }
        let mut tree = Self { nodes: vec![0; leaves_at + leaves], leaves_at, keys: vec![NEVER; leaves] };
        (0..leaves).for_each(|cpu| tree.set(cpu, None));
        tree
    }

    /// Sets the time of `cpu`; `None`: never.
    #[inline]
    pub(super) fn set(&mut self, cpu: CpuId, key: Option<Key>) {
        let key = key.unwrap_or(NEVER);
        self.keys[cpu] = key;
        let mut first = entry(key, cpu);
        let mut node = self.leaves_at + cpu;
        self.nodes[node] = first;
        while node > ROOT {
            let children: &[Entry; 4] =
                self.nodes[node & !3..].first_chunk().expect("nodes have four children");
            let [one, two, three] = [1, 2, 3].map(|other| children[(node ^ other) & 3]);
            first = self.earlier(first, self.earlier(self.earlier(one, two), three));
            node = node / 4 + 2;
            self.nodes[node] = first;
        }
    }

    #[inline]
    fn earlier(&self, one: Entry, other: Entry) -> Entry {
        let is_later = if (one ^ other) >> CPU_BITS == 0 {
            self.keys[cpu_of(other)] < self.keys[cpu_of(one)]
        } else {
            other < one
        };
        // No CPU can predict it.
        select_unpredictable(is_later, other, one)
    }

    /// The time of the event that comes first, and its CPU.
    #[inline]
    pub(super) fn first(&self) -> Option<(Ns, CpuId)> {
        let first = self.nodes[ROOT];
        let (at, cpu) = (first >> CPU_BITS, cpu_of(first));
        if at < LATEST {
            return Some((at, cpu));
        }
        let (at, _) = self.keys[cpu];
        (at != NEVER.0).then_some((at, cpu))
    }

    /// Whether `cpu`'s event at `at` comes before that of the other key, mostly without reading its own key.
    #[inline]
    pub(super) fn is_before(&self, at: Ns, cpu: CpuId, other: Key) -> bool {
        at < other.0 || self.keys[cpu] < other
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
            for seq in 0..2000 {
                let cpu = random.random_range(0..cpus);
                let from = [0, LATEST - 20][random.random_range(0..2)];
                let key = random.random_ratio(2, 3).then(|| (from + random.random_range(0..50), seq));
                tree.set(cpu, key);
                plain[cpu] = key;
                let least = (0..cpus).filter_map(|cpu| Some((plain[cpu]?, cpu))).min();
                assert_eq!(tree.first(), least.map(|((at, _), cpu)| (at, cpu)));
            }
        }
    }
}
