//! The end of work of each CPU's running task: one time per CPU, which changes often. A tournament
//! tree: each inner node stores which of its two sides is first.
use super::Ns;
use flsched_machine::CpuId;

/// By time, then by the order of planning.
pub(super) type Key = (Ns, u64);

/// Nothing is planned.
const NEVER: Key = (Ns::MAX, u64::MAX);

/// See the module.
#[derive(Debug)]
pub(super) struct WorkTree {
    /// By CPU; as many as the tree has leaves.
    keys: Vec<Key>,
    /// The first CPU below each inner node; the root is 1, and the children of n are 2n and 2n + 1.
    first: Vec<u32>,
}

impl WorkTree {
    pub(super) fn new(cpus: usize) -> Self {
        let leaves = cpus.next_power_of_two().max(2);
        let mut tree = Self { keys: vec![NEVER; leaves], first: vec![0; leaves] };
        (1..leaves).rev().for_each(|node| tree.first[node] = tree.winner(node));
        tree
    }

    /// The earlier of its two sides.
    fn winner(&self, node: usize) -> u32 {
        let side = |child: usize| match child.checked_sub(self.keys.len()) {
            Some(cpu) => cpu as u32,
            None => self.first[child],
        };
        let (left, right) = (side(2 * node), side(2 * node + 1));
        if self.keys[right as usize] < self.keys[left as usize] { right } else { left }
    }

    /// Sets the time of `cpu`; `None`: never.
    pub(super) fn set(&mut self, cpu: CpuId, key: Option<Key>) {
        let key = key.unwrap_or(NEVER);
        if self.keys[cpu] == key {
            return;
        }
        self.keys[cpu] = key;
        let mut node = (cpu + self.keys.len()) / 2;
        while node > 0 {
            let winner = self.winner(node);
            if winner == self.first[node] && winner as usize != cpu {
                return;
            }
            self.first[node] = winner;
            node /= 2;
        }
    }

    /// The event that comes first, and its CPU.
    pub(super) fn first(&self) -> Option<(Key, CpuId)> {
        let cpu = self.first[1] as usize;
        Some((self.keys[cpu], cpu)).filter(|(key, _)| *key != NEVER)
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
