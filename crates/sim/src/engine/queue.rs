//! Future events, earliest first; events at the same time in the order in which they were planned.
use super::work::WorkTree;
use super::{Ns, TaskId};
use flsched_machine::CpuId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The running task of a CPU has done its work.
    Work {
        cpu: CpuId,
    },
    /// A CPU's periodic tick.
    Tick {
        cpu: CpuId,
    },
    /// An interrupt from another CPU makes this one schedule.
    Resched {
        cpu: CpuId,
    },
    /// An interrupt from another CPU makes this one enqueue the tasks of its wake list.
    WakeList {
        cpu: CpuId,
    },
    WakeUp {
        task: TaskId,
    },
    /// A timer of a scheduler fires.
    Timer {
        /// Index of the scheduling class that owns it.
        class: usize,
        /// The CPU on which its handler runs.
        cpu: CpuId,
        /// Index of the timer within the class.
        timer: usize,
        /// Its generation when it was planned.
        generation: u32,
    },
    /// The frequency of a domain's CPUs is chosen again.
    Frequency {
        /// Index of the machine's frequency domain.
        domain: usize,
    },
    /// A CPU goes on- or offline.
    Hotplug {
        cpu: CpuId,
        /// Whether it goes online.
        is_online: bool,
    },
    /// An attribute of a task is set from outside.
    Change {
        /// Which of the planned changes it is.
        number: usize,
    },
    /// The policy is attached.
    Attach,
    /// The kernel checks for tasks that have waited for too long.
    Watchdog,
}

#[derive(Debug)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    work: WorkTree,
    planned: u64,
}

impl EventQueue {
    /// Empty, for this number of CPUs.
    pub fn new(cpus: usize) -> Self {
        Self { heap: BinaryHeap::new(), work: WorkTree::new(cpus), planned: 0 }
    }

    /// Plans the end of the work of `cpu`'s running task, in place of the time planned before;
    /// `None`: it does not work.
    #[inline]
    pub fn set_work(&mut self, cpu: CpuId, at: Option<Ns>) {
        self.planned += 1;
        self.work.set(cpu, at.map(|at| (at, self.planned)));
    }

    /// Plans `event`.
    pub fn push(&mut self, at: Ns, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, event)));
    }

    /// Takes the next event. A CPU's end of work stays in the queue until [`Self::set_work`] replaces it: mostly
    /// by a new one, and then one update costs half as much as a removal and an insertion.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ns, Event)> {
        let other = self.heap.peek().map(|Reverse((at, planned, _))| (*at, *planned));
        match self.work.first() {
            Some((at, cpu)) if other.is_none_or(|other| self.work.is_before(at, cpu, other)) => {
                Some((at, Event::Work { cpu }))
            }
            _ => self.heap.pop().map(|Reverse((at, _, event))| (at, event)),
        }
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Ns> {
        let work = self.work.first().map(|(at, _)| at);
        self.heap.peek().map(|Reverse((at, ..))| *at).into_iter().chain(work).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_keeps_the_order_of_planning() {
        let mut queue = EventQueue::new(4);
        queue.push(5, Event::Resched { cpu: 2 });
        queue.push(5, Event::Resched { cpu: 1 });
        queue.push(3, Event::Watchdog);
        assert_eq!(queue.next_at(), Some(3));
        queue.set_work(3, Some(5));
        queue.push(5, Event::Resched { cpu: 0 });
        let mut order = Vec::new();
        while let Some((at, event)) = queue.pop() {
            if let Event::Work { cpu } = event {
                queue.set_work(cpu, None);
            }
            order.push((at, event));
        }
        let resched = |cpu| (5, Event::Resched { cpu });
        let work = (5, Event::Work { cpu: 3 });
        assert_eq!(order, [(3, Event::Watchdog), resched(2), resched(1), work, resched(0)]);
    }
}
