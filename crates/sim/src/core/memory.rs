//! The bandwidth of memory, which the CPUs of a node share.
//!
//! A node's memory serves one request after the other, each as long as its bytes take. Tasks that read or write memory as
//! they compute do so in pieces of their work. A piece ends when both its work is done and its bytes have come. So as long as
//! tasks ask for less than there is, nothing takes longer; if they ask for more, all of them together take as long as their
//! bytes do.
use super::{Core, CpuId, TaskId};
use crate::engine::Ns;
use flsched_machine::{CacheSizes, Machine, Price};

/// How much work of a task that uses memory is requested at once.
const PIECE_NS: Ns = 50_000;

/// By node: how far its memory has got, as bytes that it could have delivered since the beginning.
#[derive(Debug, Default)]
pub struct Memory(Vec<u128>);

impl Memory {
    pub(super) fn new(machine: &Machine) -> Self {
        let nodes = machine.places.iter().map(|place| place.node).max().map_or(0, |last| last + 1);
        Self(vec![0; nodes])
    }

    /// Requests `bytes` from `node`, which delivers `gb_per_s`, that is bytes in a ns. Returns how long after `now` the last
    /// one comes.
    fn request(&mut self, node: usize, gb_per_s: u64, bytes: u64, now: Ns) -> Ns {
        let rate = u128::from(gb_per_s);
        let done = self.0[node].max(u128::from(now) * rate) + u128::from(bytes);
        self.0[node] = done;
        u64::try_from(done / rate).unwrap_or(u64::MAX).saturating_sub(now)
    }
}

impl Core {
    /// How much of `work` the task does before it requests more of its data.
    pub(crate) fn piece_of(&self, task: TaskId, work: Ns) -> Ns {
        match self.tasks[task].footprint.memory_mb_per_s {
            0 => work,
            _ => work.min(PIECE_NS),
        }
    }

    /// How much longer the running task of `cpu` works for this piece of its program because its data come later.
    pub(crate) fn memory_wait(&mut self, cpu: CpuId, task: TaskId, piece: Ns) -> Ns {
        let bytes = self.tasks[task].footprint.memory_mb_per_s * piece / 1000;
        self.wait_for_memory(cpu, bytes, piece)
    }

    /// The CPU requests bytes from its node's memory. Returns what it has to do beyond `work` until they have come, as
    /// work of its pace.
    pub(super) fn wait_for_memory(&mut self, cpu: CpuId, bytes: u64, work: Ns) -> Ns {
        let rate = self.machine.speed.caches.as_ref().and_then(CacheSizes::memory_gb_per_s);
        let Some(rate) = rate.filter(|_| bytes > 0) else { return 0 };
        let (pace, now) = (self.cpus[cpu].pace, self.cpus[cpu].clock);
        let ns = self.memory.request(self.machine.places[cpu].node, rate, bytes, now);
        // A fast core does not make memory faster: the time is given, and the work is what fills it.
        let wait = pace.work(ns.saturating_sub(pace.time(work)));
        self.spent.assign(Price::Memory, wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_those_before_them() {
        let mut memory = Memory(vec![0; 2]);
        assert_eq!(memory.request(0, 10, 1000, 500), 100);
        assert_eq!(memory.request(0, 10, 1000, 500), 200);
        assert_eq!(memory.request(1, 10, 1000, 500), 100, "another node's");
        assert_eq!(memory.request(0, 10, 1000, 650), 150);
        assert_eq!(memory.request(0, 10, 1000, 5000), 100, "all have been served");
    }
}
