//! What simulated CPU time is spent on.
use flsched_machine::{Certainty, Price};

/// The CPUs' time by price: the kernel's own, as it is spent, and that of the tasks' work. Work that the kernel, or a
/// wait, adds to a task is assigned to its price when it is added; its duration is counted for all such work together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    kernel: [u64; Price::COUNT],
    callbacks: [u64; Certainty::COUNT],
    work: u64,
    work_time: u64,
    assigned: [i64; Price::COUNT],
}

impl Spent {
    /// The kernel has spent this time.
    #[inline]
    pub(crate) fn add(&mut self, price: Price, time: u64) {
        self.kernel[price as usize] += time;
    }

    /// A scheduler's function, with a cost as sure as this, has taken this time.
    #[inline]
    pub(crate) fn add_callback(&mut self, certainty: Certainty, time: u64) {
        self.callbacks[certainty as usize] += time;
    }

    /// A task has done work of this length at full speed in this time.
    #[inline]
    pub(crate) fn add_work(&mut self, work: u64, time: u64) {
        self.work += work;
        self.work_time += time;
    }

    /// So much of a task's work is not the program's own.
    #[inline]
    pub(crate) fn assign(&mut self, price: Price, work: u64) {
        self.assigned[price as usize] += work as i64;
    }

    /// So much of what was assigned will not be done.
    #[inline]
    pub(crate) fn cancel(&mut self, price: Price, work: u64) {
        self.assigned[price as usize] -= work as i64;
    }

    /// The time of a price. In a run that ends in the middle of a task's work it is a little more than was done.
    pub fn of(&self, price: Price) -> u64 {
        let own = self.work as f64 - self.assigned.iter().sum::<i64>() as f64;
        let stretch = self.work_time as f64 / self.work.max(1) as f64;
        let of_tasks = match price {
            Price::Work => own,
            Price::Slowness => own * (stretch - 1.0),
            _ => self.assigned[price as usize] as f64 * stretch,
        };
        self.kernel[price as usize] + of_tasks.max(0.0) as u64
    }

    /// The time in schedulers' functions whose costs are as sure as this.
    pub fn in_callbacks(&self, certainty: Certainty) -> u64 {
        self.callbacks[certainty as usize]
    }
}
