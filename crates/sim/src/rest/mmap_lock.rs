//! `mmap_lock`, for which the threads of a process wait when one of them changes the map of their memory: a semaphore of
//! many readers or one writer (`kernel/locking/rwsem.c`).
use crate::core::TaskId;
use crate::engine::Ns;
use std::collections::VecDeque;

/// The number of a process's lock.
pub type MmapLockId = usize;

/// What a task does under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads the map.
    Read,
    /// It changes the map.
    Write,
}

/// The tasks that hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Readers(usize),
    Writer(TaskId),
}

#[derive(Debug)]
struct Waiter {
    task: TaskId,
    access: Access,
    is_woken: bool,
}

/// The tasks that a release concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// These sleep, and are woken.
    pub sleepers: Vec<TaskId>,
    /// These spin, and try again at once.
    pub spinners: Vec<TaskId>,
}

/// The lock of a process.
#[derive(Debug)]
pub struct MmapLock {
    owner: Owner,
    /// They sleep, or are woken and try again.
    waiters: VecDeque<Waiter>,
    spinners: Vec<TaskId>,
    /// Only the first waiter may take it next: `RWSEM_FLAG_HANDOFF`.
    is_handed_over: bool,
}

impl Default for MmapLock {
    fn default() -> Self {
        Self {
            owner: Owner::Readers(0),
            waiters: VecDeque::new(),
            spinners: Vec::new(),
            is_handed_over: false,
        }
    }
}

impl MmapLock {
    /// How long a writer spins while readers have the lock: `rwsem_rspin_threshold()`.
    pub const SPIN_NS: Ns = 10_000;

    /// The writer that has it.
    pub fn writer(&self) -> Option<TaskId> {
        match self.owner {
            Owner::Writer(task) => Some(task),
            Owner::Readers(_) => None,
        }
    }

    /// Takes the lock; false: another task holds it. A reader that `has_slept` holds it already, from the release.
    pub fn take(&mut self, task: TaskId, access: Access, has_slept: bool) -> bool {
        let is_first = self.is_first(task);
        match (self.owner, access) {
            (_, Access::Read) if has_slept => true,
            (Owner::Readers(0), Access::Write) if is_first || !self.is_handed_over => {
                self.owner = Owner::Writer(task);
                self.is_handed_over &= !is_first;
                self.waiters.retain(|waiter| waiter.task != task);
                self.spinners.retain(|spinner| *spinner != task);
                true
            }
            // A reader takes it before writers that sleep, but does not join readers while one does.
            (Owner::Readers(count), Access::Read)
                if self.waiters.is_empty() || count == 0 && !self.is_handed_over =>
            {
                self.owner = Owner::Readers(count + 1);
                true
            }
            _ => false,
        }
    }

    /// Whether a writer may spin while readers have it: not if it has just done so in vain.
    pub fn can_spin(&self, task: TaskId) -> bool {
        !self.spinners.contains(&task)
    }

    /// A writer spins until the next release, or for as long as it does at a time.
    pub fn spin(&mut self, task: TaskId) {
        if self.can_spin(task) {
            self.spinners.push(task);
        }
    }

    /// The task queues behind the others that wait. If it is the first and `is_urgent`, a real-time task, none takes the
    /// lock before it.
    pub fn queue(&mut self, task: TaskId, access: Access, is_urgent: bool) {
        if !self.waiters.iter().any(|waiter| waiter.task == task) {
            self.waiters.push_back(Waiter { task, access, is_woken: true });
        }
        self.is_handed_over |= self.is_first(task) && is_urgent && access == Access::Write;
    }

    /// Whether only this task may take it next.
    pub fn is_handed_to(&self, task: TaskId) -> bool {
        self.is_handed_over && self.is_first(task)
    }

    fn is_first(&self, task: TaskId) -> bool {
        self.waiters.front().is_some_and(|first| first.task == task)
    }

    /// The task, which is in the queue, sleeps until it is woken.
    pub fn sleep(&mut self, task: TaskId) {
        self.spinners.retain(|spinner| *spinner != task);
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.task == task) {
            waiter.is_woken = false;
        }
    }

    /// A writer goes on as a reader.
    pub fn downgrade(&mut self) -> Released {
        self.owner = Owner::Readers(1);
        match self.waiters.front() {
            Some(Waiter { access: Access::Read, .. }) => self.pass_on(),
            _ => Released { sleepers: Vec::new(), spinners: std::mem::take(&mut self.spinners) },
        }
    }

    /// A task that has it releases it.
    pub fn release(&mut self) -> Released {
        self.owner = match self.owner {
            Owner::Writer(_) => Owner::Readers(0),
            Owner::Readers(count) => Owner::Readers(count.saturating_sub(1)),
        };
        if self.owner == Owner::Readers(0) { self.pass_on() } else { Released::default() }
    }

    /// The lock is free, or readers hold it. If the first waiter is a writer, it is only woken, and another task may take the
    /// lock before it. If it is a reader, all waiting readers get the lock.
    fn pass_on(&mut self) -> Released {
        let spinners = std::mem::take(&mut self.spinners);
        let sleepers = match self.waiters.front_mut() {
            Some(first) if first.access == Access::Write => {
                (!std::mem::replace(&mut first.is_woken, true)).then_some(first.task).into_iter().collect()
            }
            _ => {
                let reads = |waiter: &Waiter| waiter.access == Access::Read;
                let readers: Vec<TaskId> =
                    self.waiters.iter().filter(|waiter| reads(waiter)).map(|waiter| waiter.task).collect();
                self.waiters.retain(|waiter| !reads(waiter));
                if let Owner::Readers(count) = &mut self.owner {
                    *count += readers.len();
                }
                readers
            }
        };
        Released { sleepers, spinners }
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Read, Write};
    use super::*;

    fn woken(sleepers: &[TaskId]) -> Released {
        Released { sleepers: sleepers.to_vec(), spinners: Vec::new() }
    }

    #[test]
    fn readers_share_it_and_a_writer_has_it_alone() {
        let mut lock = MmapLock::default();
        assert!(lock.take(1, Read, false) && lock.take(2, Read, false));
        assert!(!lock.take(3, Write, false));
        lock.queue(3, Write, false);
        lock.sleep(3);
        assert!(!lock.take(4, Read, false), "no stream of readers keeps a writer waiting");
        lock.queue(4, Read, false);
        lock.sleep(4);
        assert_eq!((lock.release(), lock.release()), (woken(&[]), woken(&[3])));
        assert!(lock.take(3, Write, true));
        assert_eq!(lock.writer(), Some(3));
        assert_eq!(lock.downgrade(), woken(&[4]));
        assert!(lock.take(4, Read, true));
        assert_eq!((lock.release(), lock.release()), (woken(&[]), woken(&[])));
        assert!(lock.take(5, Write, false));
    }

    #[test]
    fn another_task_is_faster_than_one_that_is_woken_unless_that_one_is_urgent() {
        for is_urgent in [false, true] {
            let mut lock = MmapLock::default();
            assert!(lock.take(1, Write, false) && !lock.take(2, Write, false));
            lock.queue(2, Write, is_urgent);
            lock.sleep(2);
            assert_eq!(lock.is_handed_to(2), is_urgent);
            assert_eq!(lock.release(), woken(&[2]));
            assert_eq!(lock.take(3, Write, false), !is_urgent);
            if !is_urgent {
                assert!(!lock.take(2, Write, true));
                lock.sleep(2);
                assert_eq!(lock.release(), woken(&[2]));
            }
            assert!(lock.take(2, Write, true));
        }
    }

    #[test]
    fn a_spinning_writer_tries_again_at_a_release() {
        let mut lock = MmapLock::default();
        assert!(lock.take(1, Write, false) && lock.can_spin(2));
        lock.spin(2);
        assert!(!lock.can_spin(2), "it has spun in vain");
        assert_eq!(lock.release(), Released { sleepers: vec![], spinners: vec![2] });
        assert!(lock.can_spin(2), "it was told to try again");
        assert!(lock.take(2, Write, false));
    }
}
