//! Which task ran where and when, for traces and charts; recorded on request only.
use super::{CpuId, TaskId};
use crate::engine::Ns;

/// A period in which a task ran on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The CPU.
    pub cpu: CpuId,
    /// The task that runs.
    pub task: TaskId,
    /// The start.
    pub from: Ns,
    /// The end.
    pub to: Ns,
}

/// A task was woken, or started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// The task that was woken.
    pub task: TaskId,
    /// The CPU to whose run queue it was added.
    pub cpu: CpuId,
    /// The time.
    pub at: Ns,
}

/// How many tasks wait for a CPU, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLength {
    /// The CPU.
    pub cpu: CpuId,
    /// The time.
    pub at: Ns,
    /// The number of tasks.
    pub waiting: i64,
}

/// The frequency at which a CPU runs, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// The CPU.
    pub cpu: CpuId,
    /// The time.
    pub at: Ns,
    /// The frequency.
    pub mhz: u32,
}

/// Entries of each kind, beyond which recording stops: a few hundred MB.
const MOST: usize = 4_000_000;

/// See the module.
#[derive(Debug)]
pub struct Recording {
    /// In the order of their ends.
    pub slices: Vec<Slice>,
    /// In the order of time.
    pub wake_ups: Vec<WakeUp>,
    /// In the order of time.
    pub queues: Vec<QueueLength>,
    /// In the order of time; empty if frequencies do not change.
    pub tunings: Vec<Tuning>,
    /// Name and pid of each task.
    pub tasks: Vec<(String, i32)>,
    /// How many CPUs there are.
    pub nr_cpus: usize,
    /// When the run ended.
    pub end: Ns,
    /// When recording stopped for lack of room; `None`: it is complete.
    pub full_at: Option<Ns>,
    running: Vec<Option<(TaskId, Ns)>>,
    waiting: Vec<i64>,
}

impl Recording {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self {
            slices: Vec::new(),
            wake_ups: Vec::new(),
            queues: Vec::new(),
            tunings: Vec::new(),
            tasks: Vec::new(),
            nr_cpus,
            end: 0,
            full_at: None,
            running: vec![None; nr_cpus],
            waiting: vec![0; nr_cpus],
        }
    }

    /// `next`, or the idle task, runs on `cpu` from now on.
    pub(crate) fn switched(&mut self, cpu: CpuId, next: Option<TaskId>, at: Ns) {
        let before = std::mem::replace(&mut self.running[cpu], next.map(|next| (next, at)));
        if let Some((task, from)) = before
            && self.has_room(self.slices.len(), at)
        {
            self.slices.push(Slice { cpu, task, from, to: at });
        }
    }

    /// `task` is added to the run queue of `cpu` after a sleep.
    pub(crate) fn woken(&mut self, task: TaskId, cpu: CpuId, at: Ns) {
        if self.has_room(self.wake_ups.len(), at) {
            self.wake_ups.push(WakeUp { task, cpu, at });
        }
    }

    /// The number of tasks that wait for `cpu` changes by this much.
    pub(crate) fn queued(&mut self, cpu: CpuId, change: i64, at: Ns) {
        self.waiting[cpu] += change;
        if self.has_room(self.queues.len(), at) {
            self.queues.push(QueueLength { cpu, at, waiting: self.waiting[cpu] });
        }
    }

    /// `cpu` runs at `mhz` from now on.
    pub(crate) fn tuned(&mut self, cpu: CpuId, mhz: u32, at: Ns) {
        if self.has_room(self.tunings.len(), at) {
            self.tunings.push(Tuning { cpu, at, mhz });
        }
    }

    /// `tasks`: name and pid of each.
    pub(crate) fn finish(&mut self, end: Ns, tasks: Vec<(String, i32)>) {
        for cpu in 0..self.nr_cpus {
            self.switched(cpu, None, end);
        }
        self.end = end;
        self.tasks = tasks;
    }

    /// Once one kind is full, no kind is recorded any more: a trace with gaps would mislead.
    fn has_room(&mut self, len: usize, at: Ns) -> bool {
        if len >= MOST {
            self.full_at.get_or_insert(at);
        }
        self.full_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_ends_a_slice() {
        let mut recording = Recording::new(2);
        recording.switched(1, Some(5), 10);
        recording.switched(1, Some(6), 30);
        recording.switched(1, None, 40);
        recording.queued(1, 1, 5);
        recording.queued(1, -1, 10);
        recording.finish(50, Vec::new());
        let slice = |task, from, to| Slice { cpu: 1, task, from, to };
        assert_eq!(recording.slices, [slice(5, 10, 30), slice(6, 30, 40)]);
        assert_eq!(recording.queues.last().map(|queue| queue.waiting), Some(0));
    }
}
