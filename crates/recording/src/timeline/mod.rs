//! Which task ran where and when, for traces and charts: of a simulated run, or of a recorded one.
//!
//! - [`Timeline`]: periods, wake-ups, lengths of queues, frequencies, counters
//! - [`write_trace`]: a trace for ui.perfetto.dev
//! - [`render_timeline`]: a picture
//! - [`Beside`]: pictures of several runs, for a page or as a file
mod beside;
mod perfetto;
mod picture;
mod recorded;

pub use beside::{Beside, Coloured, Part, PartOfRun, Run, RunShown};
pub use perfetto::{packed_trace, write_trace};
pub use picture::{Colouring, STEP_MHZ, render_timeline, with_alternative};

use crate::Ns;

/// The place of a CPU among [`Timeline::cpus`].
pub type CpuId = usize;
/// The place of a task among [`Timeline::tasks`].
pub type TaskId = usize;

/// A period in which a task ran on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub cpu: CpuId,
    /// The task that runs.
    pub task: TaskId,
    pub from: Ns,
    pub to: Ns,
}

/// A task was woken, or started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUp {
    /// The task that was woken.
    pub task: TaskId,
    /// The CPU to whose run queue it was added; in a recorded run, the CPU that woke it.
    pub cpu: CpuId,
    pub at: Ns,
    /// The task that woke it, if that is known.
    pub by: Option<TaskId>,
}

/// A period in which a task did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub task: TaskId,
    /// For what it waited.
    pub what: WaitsFor,
    pub from: Ns,
    pub to: Ns,
}

/// What a task that does not run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// A CPU: it could run.
    Cpu,
    /// What another task will write, in a call of `read`, `recv` or `poll`.
    Message,
    /// In a call of `futex`: a lock, a condition or a barrier of user space.
    Lock,
    /// Anything else: a lock of the kernel, the end of another task, a device, time.
    Other,
}

/// How many tasks wait for a CPU, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLength {
    pub cpu: CpuId,
    pub at: Ns,
    /// The number of tasks.
    pub waiting: i64,
}

/// The frequency at which a CPU runs, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    pub cpu: CpuId,
    pub at: Ns,
    pub mhz: u32,
}

/// For messages and pictures: `1.234567890 s`.
pub fn display_ns(ns: Ns) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Cells of a row, in their order, as runs of one key: key, first cell, end.
fn joined<K: PartialEq>(cells: impl IntoIterator<Item = (u64, K)>) -> Vec<(K, u64, u64)> {
    let mut runs: Vec<(K, u64, u64)> = Vec::new();
    for (at, key) in cells {
        match runs.last_mut() {
            Some((last, _, to)) if *last == key && *to == at => *to = at + 1,
            _ => runs.push((key, at, at + 1)),
        }
    }
    runs
}

/// Entries of each kind, beyond which recording stops: a few hundred MB.
const MOST: usize = 4_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// In the order of their ends.
    pub slices: Vec<Slice>,
    /// In the order of time.
    pub wake_ups: Vec<WakeUp>,
    /// In the order of time.
    pub queues: Vec<QueueLength>,
    /// In the order of time; empty if frequencies do not change.
    pub tunings: Vec<Tuning>,
    /// In the order of their ends; empty if they were not recorded.
    pub waits: Vec<Wait>,
    /// What a policy counted: name, and its value from each time on.
    pub counters: Vec<(String, Vec<(Ns, u64)>)>,
    /// Name and pid of each task.
    pub tasks: Vec<(String, i32)>,
    /// The first task of each task's process; empty: each is a process of its own.
    pub processes: Vec<TaskId>,
    /// The number of each CPU in its machine.
    pub cpus: Vec<u32>,
    /// When the run ended.
    pub end: Ns,
    /// When recording stopped for lack of room; `None`: it is complete.
    pub full_at: Option<Ns>,
    running: Vec<Option<(TaskId, Ns)>>,
    waiting: Vec<i64>,
}

impl Timeline {
    /// Without any event, of a machine with these CPUs.
    pub fn new(cpus: Vec<u32>) -> Self {
        let nr_cpus = cpus.len();
        Self {
            slices: Vec::new(),
            wake_ups: Vec::new(),
            queues: Vec::new(),
            tunings: Vec::new(),
            waits: Vec::new(),
            counters: Vec::new(),
            tasks: Vec::new(),
            processes: Vec::new(),
            cpus,
            end: 0,
            full_at: None,
            running: vec![None; nr_cpus],
            waiting: vec![0; nr_cpus],
        }
    }

    /// `next`, or the idle task, runs on `cpu` from now on.
    pub fn switched(&mut self, cpu: CpuId, next: Option<TaskId>, at: Ns) {
        let before = std::mem::replace(&mut self.running[cpu], next.map(|next| (next, at)));
        if let Some((task, from)) = before
            && self.has_room(self.slices.len(), at)
        {
            self.slices.push(Slice { cpu, task, from, to: at });
        }
    }

    /// `task` is added to the run queue of `cpu` after a sleep.
    pub fn woken(&mut self, task: TaskId, cpu: CpuId, at: Ns, by: Option<TaskId>) {
        if self.has_room(self.wake_ups.len(), at) {
            self.wake_ups.push(WakeUp { task, cpu, at, by });
        }
    }

    /// The number of tasks that wait for `cpu` changes by this much.
    pub fn queued(&mut self, cpu: CpuId, change: i64, at: Ns) {
        self.waiting[cpu] += change;
        if self.has_room(self.queues.len(), at) {
            self.queues.push(QueueLength { cpu, at, waiting: self.waiting[cpu] });
        }
    }

    /// `cpu` runs at `mhz` from now on.
    pub fn tuned(&mut self, cpu: CpuId, mhz: u32, at: Ns) {
        if self.has_room(self.tunings.len(), at) {
            self.tunings.push(Tuning { cpu, at, mhz });
        }
    }

    /// `task` did not run in this period.
    pub fn waited(&mut self, wait: Wait) {
        if self.has_room(self.waits.len(), wait.to) {
            self.waits.push(wait);
        }
    }

    /// The end; `tasks`: name and pid of each.
    pub fn finish(&mut self, end: Ns, tasks: Vec<(String, i32)>) {
        for cpu in 0..self.cpus.len() {
            self.switched(cpu, None, end);
        }
        self.end = end;
        self.tasks = tasks;
    }

    /// A task as pictures and traces call it: its name and its number.
    fn label(&self, task: TaskId) -> String {
        let (name, pid) = &self.tasks[task];
        format!("{name} {pid}")
    }

    /// What happened in a part of the run, as if it had begun and ended there.
    pub fn part(mut self, span: std::ops::Range<Ns>) -> Self {
        let at = |at: Ns| at.clamp(span.start, span.end) - span.start;
        let is_within = |at: Ns| span.contains(&at);
        self.slices.retain(|it| it.from < span.end && it.to > span.start);
        self.slices.iter_mut().for_each(|it| (it.from, it.to) = (at(it.from), at(it.to)));
        self.waits.retain(|it| it.from < span.end && it.to > span.start);
        self.waits.iter_mut().for_each(|it| (it.from, it.to) = (at(it.from), at(it.to)));
        self.wake_ups.retain(|it| is_within(it.at));
        self.wake_ups.iter_mut().for_each(|it| it.at = at(it.at));
        // What was set before is in force at the begin.
        self.queues.retain(|it| it.at < span.end);
        self.queues.iter_mut().for_each(|it| it.at = at(it.at));
        self.tunings.retain(|it| it.at < span.end);
        self.tunings.iter_mut().for_each(|it| it.at = at(it.at));
        for (_, values) in &mut self.counters {
            values.retain(|(time, _)| *time < span.end);
            values.iter_mut().for_each(|(time, _)| *time = at(*time));
        }
        self.full_at = self.full_at.filter(|full_at| *full_at < span.end).map(at);
        self.end = at(self.end);
        self
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
        let mut timeline = Timeline::new(vec![0, 1]);
        timeline.switched(1, Some(5), 10);
        timeline.switched(1, Some(6), 30);
        timeline.switched(1, None, 40);
        timeline.queued(1, 1, 5);
        timeline.queued(1, -1, 10);
        timeline.finish(50, Vec::new());
        let slice = |task, from, to| Slice { cpu: 1, task, from, to };
        assert_eq!(timeline.slices, [slice(5, 10, 30), slice(6, 30, 40)]);
        let part = timeline.part(20..35);
        assert_eq!(part.slices, [slice(5, 0, 10), slice(6, 10, 15)]);
        assert_eq!((part.end, part.queues[0].at), (15, 0));
        let timeline = part;
        assert_eq!(timeline.queues.last().map(|queue| queue.waiting), Some(0));
    }
}
