//! The blocking and waking of pipes and sockets. Sources: `fs/pipe.c`, `net/unix/af_unix.c`.
use crate::core::TaskId;
use crate::engine::Ns;
use std::collections::VecDeque;

/// A channel's number.
pub type ChannelId = usize;

const PAGE: u32 = 4096;
/// Buffers of a pipe.
const PIPE_PAGES: usize = 16;
/// `net.core.wmem_default`, in bytes.
const SEND_BUFFER: u32 = 212_992;
/// The smallest size of a socket buffer, in bytes: the allocator has no smaller ones.
const SOCKET_BUFFER: u32 = 768;
/// The size of a socket buffer in addition to its message, in bytes.
const SOCKET_BUFFER_COST: u32 = 668;

/// The result of a step on a channel.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step is done, and wakes these tasks.
    Done(Vec<TaskId>),
    /// The task has to wait; it is in the channel's list.
    Blocked,
}

/// Messages of one size that are on their way.
#[derive(Debug)]
pub struct Channel {
    capacity: Capacity,
    queued: u32,
    readers: VecDeque<TaskId>,
    pollers: Vec<TaskId>,
    /// The last task that has woken pollers.
    pub(crate) waker: Option<TaskId>,
    writers: VecDeque<TaskId>,
    /// The mutex of a pipe.
    pub(crate) mutex: Mutex,
}

/// The task that holds it, if that task lost its CPU while it used the pipe, and the tasks that
/// wait for it.
#[derive(Debug, Default)]
pub(crate) struct Mutex {
    holder: Option<TaskId>,
    /// Tasks that sleep, or have been woken and have not used it yet.
    waiters: VecDeque<TaskId>,
    /// When the last running task that has asked for it will have copied its message.
    free_at: Ns,
}

impl Mutex {
    /// `task` leaves its CPU while it holds the mutex; without effect if another task holds it.
    pub fn hold(&mut self, task: TaskId) {
        self.holder.get_or_insert(task);
    }

    /// A running task will ask for it at `at`, to copy a message for so long. Returns how long its CPU spins.
    pub fn spin_ns(&mut self, at: Ns, copy_ns: Ns) -> Ns {
        let ns = self.free_at.saturating_sub(at);
        self.free_at = at + ns + copy_ns;
        ns
    }

    /// Whether `task` has to sleep until it is free. A woken task that finds it taken again is still the
    /// first to be woken.
    pub fn waits(&mut self, task: TaskId) -> bool {
        let waits = self.holder.is_some_and(|holder| holder != task);
        if waits && !self.waiters.contains(&task) {
            self.waiters.push_back(task);
        }
        waits
    }

    /// `task` has used it. Returns the task to wake.
    pub fn unlock(&mut self, task: TaskId) -> Option<TaskId> {
        self.holder.take_if(|holder| *holder == task);
        if !self.waiters.is_empty() {
            self.waiters.retain(|waiter| *waiter != task);
        }
        self.waiters.front().copied()
    }
}

/// How it is limited.
#[derive(Debug)]
enum Capacity {
    /// Messages written to a page and not yet read from it; a page is free again when it is empty.
    Pages { per_page: u32, pages: VecDeque<(u32, u32)> },
    /// Writers wait when the buffer is full, the last message being larger than what was left, and until three
    /// quarters of it are free.
    Buffer { most: u32 },
}

impl Channel {
    /// A pipe for messages of this size, at most a page.
    pub fn pipe(message_bytes: u32) -> Self {
        let per_page = PAGE / message_bytes.clamp(1, PAGE);
        Self::new(Capacity::Pages { per_page, pages: VecDeque::new() })
    }

    /// A stream socket.
    pub fn socket(message_bytes: u32) -> Self {
        let buffer = (message_bytes + SOCKET_BUFFER_COST).max(SOCKET_BUFFER);
        Self::new(Capacity::Buffer { most: SEND_BUFFER.div_ceil(buffer) })
    }

    fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            queued: 0,
            readers: VecDeque::new(),
            pollers: Vec::new(),
            waker: None,
            writers: VecDeque::new(),
            mutex: Mutex::default(),
        }
    }

    /// Whether it is a pipe, not a socket.
    pub fn is_pipe(&self) -> bool {
        matches!(self.capacity, Capacity::Pages { .. })
    }

    fn is_full(&self) -> bool {
        match &self.capacity {
            Capacity::Pages { per_page, pages } => {
                pages.len() == PIPE_PAGES && pages.back().is_some_and(|(written, _)| written == per_page)
            }
            Capacity::Buffer { most } => self.queued >= *most,
        }
    }

    /// Adds a message.
    pub fn write(&mut self, task: TaskId) -> Outcome {
        if self.is_full() {
            self.writers.push_back(task);
            return Outcome::Blocked;
        }
        if let Capacity::Pages { per_page, pages } = &mut self.capacity {
            match pages.back_mut() {
                Some((written, left)) if *written < *per_page => {
                    *written += 1;
                    *left += 1;
                }
                _ => pages.push_back((1, 1)),
            }
        }
        // A pipe's readers are only notified of its first message.
        let notifies = self.queued == 0 || !self.is_pipe();
        self.queued += 1;
        self.waker = (!self.pollers.is_empty()).then_some(task).or(self.waker);
        // The last one to poll is the first to be woken (`add_wait_queue()`).
        let mut woken: Vec<TaskId> = self.pollers.drain(..).rev().collect();
        if notifies {
            woken.extend(self.readers.pop_front());
        }
        Outcome::Done(woken)
    }

    /// Takes a message.
    pub fn read(&mut self, task: TaskId) -> Outcome {
        if self.queued == 0 {
            self.readers.push_back(task);
            return Outcome::Blocked;
        }
        self.queued -= 1;
        let mut woken = Vec::new();
        match &mut self.capacity {
            Capacity::Pages { pages, .. } => {
                let was_full = pages.len() == PIPE_PAGES;
                if let Some((_, left)) = pages.front_mut() {
                    *left -= 1;
                    if *left == 0 {
                        pages.pop_front();
                        if was_full {
                            woken.extend(self.writers.pop_front());
                        }
                    }
                }
            }
            Capacity::Buffer { most } => {
                if self.queued * 4 <= *most {
                    // The last one first, as with pollers.
                    woken.extend(self.writers.drain(..).rev());
                }
            }
        }
        Outcome::Done(woken)
    }

    /// Waits until there is a message.
    pub fn poll(&mut self, task: TaskId) -> Outcome {
        if self.queued == 0 {
            self.pollers.push(task);
            return Outcome::Blocked;
        }
        Outcome::Done(Vec::new())
    }

    /// After a write: a writer that had waited wakes the next one, if there is still room. Other writers
    /// leave that to the reader.
    pub fn next_writer(&mut self, has_waited: bool) -> Option<TaskId> {
        if !has_waited || self.is_full() { None } else { self.writers.pop_front() }
    }

    /// The same after a read.
    pub fn next_reader(&mut self, has_waited: bool) -> Option<TaskId> {
        if !has_waited || self.queued == 0 { None } else { self.readers.pop_front() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_holds_sixteen_pages() {
        let mut pipe = Channel::pipe(100);
        let written = (0..10_000).take_while(|_| pipe.write(1) != Outcome::Blocked).count();
        assert_eq!(written, 16 * 40);
        // A writer is woken when a whole page has been read.
        for _ in 0..39 {
            assert_eq!(pipe.read(2), Outcome::Done(vec![]));
        }
        assert_eq!(pipe.read(2), Outcome::Done(vec![1]));
    }

    #[test]
    fn a_blocked_reader_is_woken_by_a_write() {
        let mut pipe = Channel::pipe(100);
        assert_eq!(pipe.read(7), Outcome::Blocked);
        assert_eq!(pipe.poll(8), Outcome::Blocked);
        assert_eq!(pipe.write(1), Outcome::Done(vec![8, 7]));
        assert_eq!(pipe.write(1), Outcome::Done(vec![]));
    }

    #[test]
    fn the_last_poller_is_woken_first() {
        let mut pipe = Channel::pipe(1);
        (1..=3).for_each(|task| drop(pipe.poll(task)));
        assert_eq!(pipe.write(7), Outcome::Done(vec![3, 2, 1]));
    }

    #[test]
    fn a_mutex_is_passed_to_the_first_waiter() {
        let mut mutex = Mutex::default();
        mutex.hold(1);
        assert!(!mutex.waits(1) && mutex.waits(2) && mutex.waits(3));
        assert_eq!(mutex.unlock(1), Some(2));
        // Another task was faster; the woken one stays the first.
        mutex.hold(4);
        assert!(mutex.waits(2));
        assert_eq!(mutex.unlock(4), Some(2));
        assert!(!mutex.waits(2));
        assert_eq!(mutex.unlock(2), Some(3));
        assert_eq!(mutex.unlock(3), None);
    }

    #[test]
    fn cpus_copy_through_a_pipe_one_after_the_other() {
        let mut mutex = Mutex::default();
        assert_eq!(mutex.spin_ns(1000, 700), 0);
        assert_eq!(mutex.spin_ns(1200, 700), 500);
        assert_eq!(mutex.spin_ns(1300, 700), 1100);
        assert_eq!(mutex.spin_ns(3100, 700), 0);
    }

    #[test]
    fn a_socket_lets_writers_go_on_at_a_quarter() {
        let mut socket = Channel::socket(100);
        let most = (0..10_000).take_while(|_| socket.write(1) != Outcome::Blocked).count();
        assert_eq!(most, 278);
        let reads = (1..).take_while(|_| socket.read(2) == Outcome::Done(vec![])).count() + 1;
        assert_eq!(reads, 278 - 278 / 4);
    }
}
