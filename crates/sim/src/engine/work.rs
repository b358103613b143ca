//! The end of work of each CPU's running task: one time per CPU, which changes often. A tournament tree: each inner
//! node has the earlier of its two children, so that a change costs as many comparisons as the tree has levels.
use super::Ns;
use flsched_machine::CpuId;

/// By time, then by the order of planning.
pub(super) type Key = (Ns, u64);

/// A key and its CPU in one number, which is compared at once.
type Entry = u128;

/// Nothing is planned.
const NEVER: Entry = Entry::MAX;
/// More than a machine has CPUs; what is left for the order is enough for years.
const CPU_BITS: u32 = 16;

/// In a loop the compiler makes a branch of it that no CPU can predict, which takes twice as long as the calls.
#[inline(never)]
fn earlier(one: Entry, other: Entry) -> Entry {
    if other < one { other } else { one }
}

/// See the module.
#[derive(Debug)]
pub(super) struct WorkTree {
    /// The root is 1, the children of n are 2n and 2n + 1, and the last half are the CPUs.
    nodes: Vec<Entry>,
}

impl WorkTree {
    pub(super) fn new(cpus: usize) -> Self {
        Self { nodes: vec![NEVER; 2 * cpus.next_power_of_two().max(2)] }
    }

    /// Sets the time of `cpu`; `None`: never.
    pub(super) fn set(&mut self, cpu: CpuId, key: Option<Key>) {
        let mut node = self.nodes.len() / 2 + cpu;
        let mut first =
            key.map_or(NEVER, |(at, seq)| Entry::from(at) << 64 | Entry::from(seq << CPU_BITS | cpu as u64));
        self.nodes[node] = first;
        while node > 1 {
            first = earlier(first, self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = first;
        }
    }

    /// The event that comes first, and its CPU.
    pub(super) fn first(&self) -> Option<(Key, CpuId)> {
        let first = self.nodes[1];
        let order = first as u64;
        let cpu = order & ((1 << CPU_BITS) - 1);
        (first != NEVER).then_some((((first >> 64) as Ns, order >> CPU_BITS), cpu as CpuId))
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
                let key = random.random_ratio(2, 3).then(|| (random.random_range(0..50), seq));
                tree.set(cpu, key);
                plain[cpu] = key;
                let least = (0..cpus).filter_map(|cpu| Some((plain[cpu]?, cpu))).min();
                assert_eq!(tree.first(), least);
            }
        }
    }
}
