//! The blocking and waking of pipes and sockets. Sources: `fs/pipe.c`, `net/unix/af_unix.c`.
use crate::core::TaskId;
use crate::engine::Ns;
use flsched_machine::Release;
use std::collections::VecDeque;

pub type ChannelId = usize;

const PAGE: u32 = 4096;
/// Buffers of a pipe.
const PIPE_PAGES: u32 = 16;
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

/// Messages of one size that are on their way, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Channel {
    capacity: Capacity,
    queued: u32,
    /// The last task that has woken pollers, or writers that waited for room in a socket.
    pub(crate) waker: Option<TaskId>,
    /// The mutex of a pipe.
    pub(crate) mutex: Mutex,
    /// Tasks that sleep, in the order in which they came.
    sleepers: VecDeque<(TaskId, For)>,
}

/// What a task sleeps for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// To read one message.
    Message,
    /// To know that there is one: `poll()`.
    Poll,
    /// To write.
    Room,
}

/// The task that holds it, if that task lost its CPU while it used the pipe, and the tasks that
/// wait for it.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Mutex {
    holder: Option<TaskId>,
    /// When the last running task that has asked for it will have copied its message.
    free_at: Ns,
    /// Tasks that sleep, or have been woken and have not used it yet.
    waiters: VecDeque<TaskId>,
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

    /// Whether `task` has to sleep until it is free.
    pub fn is_held(&self, task: TaskId) -> bool {
        self.holder.is_some_and(|holder| holder != task)
    }

    /// `task` sleeps until it is free. A woken task that finds it taken again is still the first to be woken.
    pub fn wait(&mut self, task: TaskId) {
        if !self.waiters.contains(&task) {
            self.waiters.push_back(task);
        }
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
    Pages(Pages),
    /// Writers wait when the buffer is full, the last message being larger than what was left, and until three
    /// quarters of it are free.
    Buffer {
        most: u32,
    },
}

/// The pages of a pipe. One is free again when all its messages have been read.
#[derive(Debug)]
struct Pages {
    /// Messages that fit into one.
    per_page: u32,
    /// How many hold messages. All but the first and the last of them hold as many as fit.
    used: u32,
    /// Messages of the first one that have not been read.
    in_first: u32,
    /// Messages written to the last one.
    in_last: u32,
    /// See [`Release::wakes_all_at_a_pipe`].
    wakes_all: bool,
}

impl Pages {
    fn are_all_used(&self) -> bool {
        self.used == PIPE_PAGES
    }

    fn are_full(&self) -> bool {
        self.are_all_used() && self.in_last == self.per_page
    }

    /// There is room for the message.
    fn write(&mut self) {
        if self.used == 0 || self.in_last == self.per_page {
            self.used += 1;
            self.in_last = 0;
        }
        self.in_last += 1;
        if self.used == 1 {
            self.in_first += 1;
        }
    }

    /// Returns whether a page is free now.
    fn read(&mut self) -> bool {
        self.in_first -= 1;
        let frees = self.in_first == 0;
        if frees {
            self.used -= 1;
            self.in_first = match self.used {
                0 => 0,
                1 => self.in_last,
                _ => self.per_page,
            };
        }
        frees
    }
}

impl Channel {
    /// A pipe of this kernel for messages of this size, at most a page.
    pub fn pipe(message_bytes: u32, kernel: &Release) -> Self {
        let per_page = PAGE / message_bytes.clamp(1, PAGE);
        let wakes_all = kernel.wakes_all_at_a_pipe();
        Self::new(Capacity::Pages(Pages { per_page, used: 0, in_first: 0, in_last: 0, wakes_all }))
    }

    pub fn socket(message_bytes: u32) -> Self {
        let buffer = (message_bytes + SOCKET_BUFFER_COST).max(SOCKET_BUFFER);
        Self::new(Capacity::Buffer { most: SEND_BUFFER.div_ceil(buffer) })
    }

    fn new(capacity: Capacity) -> Self {
        Self { capacity, queued: 0, sleepers: VecDeque::new(), waker: None, mutex: Mutex::default() }
    }

    /// Whether it is a pipe, not a socket.
    pub fn is_pipe(&self) -> bool {
        matches!(self.capacity, Capacity::Pages(_))
    }

    /// See [`Release::wakes_all_at_a_pipe`].
    fn wakes_all(&self) -> bool {
        matches!(&self.capacity, Capacity::Pages(pages) if pages.wakes_all)
    }

    fn is_full(&self) -> bool {
        match &self.capacity {
            Capacity::Pages(pages) => pages.are_full(),
            Capacity::Buffer { most } => self.queued >= *most,
        }
    }

    pub fn write(&mut self, task: TaskId) -> Outcome {
        if self.is_full() {
            self.sleepers.push_back((task, For::Room));
            return Outcome::Blocked;
        }
        if let Capacity::Pages(pages) = &mut self.capacity {
            pages.write();
        }
        // A pipe's readers are only notified of its first message.
        let notifies = self.queued == 0 || !self.is_pipe();
        self.queued += 1;
        if self.sleepers.iter().any(|(_, sleeps_for)| *sleeps_for == For::Poll) {
            self.waker = Some(task);
        }
        if self.wakes_all() {
            return Outcome::Done(self.all(&[For::Message, For::Poll, For::Room]));
        }
        let mut woken = self.all(&[For::Poll]);
        if notifies {
            woken.extend(self.first(For::Message));
        }
        Outcome::Done(woken)
    }

    pub fn read(&mut self, task: TaskId) -> Outcome {
        if self.queued == 0 {
            self.sleepers.push_back((task, For::Message));
            return Outcome::Blocked;
        }
        self.queued -= 1;
        Outcome::Done(match &mut self.capacity {
            Capacity::Pages(pages) => {
                let was_full = pages.are_all_used();
                match (pages.read(), pages.wakes_all) {
                    // `poll()` is told what happened, and other readers are not.
                    (true, true) => self.all(&[For::Message, For::Room]),
                    (true, false) if was_full => self.first(For::Room).into_iter().collect(),
                    _ => Vec::new(),
                }
            }
            Capacity::Buffer { most } if self.queued * 4 <= *most => {
                let woken = self.all(&[For::Room]);
                if !woken.is_empty() {
                    self.waker = Some(task);
                }
                woken
            }
            Capacity::Buffer { .. } => Vec::new(),
        })
    }

    /// Waits until there is a message.
    pub fn poll(&mut self, task: TaskId) -> Outcome {
        if self.queued == 0 {
            self.sleepers.push_back((task, For::Poll));
            return Outcome::Blocked;
        }
        Outcome::Done(Vec::new())
    }

    /// After a write: a writer that had waited wakes the next one, if there is still room. Other writers
    /// leave that to the reader.
    pub fn next_writer(&mut self, has_waited: bool) -> Option<TaskId> {
        let passes_on = has_waited && !self.wakes_all() && !self.is_full();
        passes_on.then(|| self.first(For::Room)).flatten()
    }

    /// The same after a read.
    pub fn next_reader(&mut self, has_waited: bool) -> Option<TaskId> {
        let passes_on = has_waited && !self.wakes_all() && self.queued > 0;
        passes_on.then(|| self.first(For::Message)).flatten()
    }

    /// The one that has slept for this the longest.
    fn first(&mut self, event: For) -> Option<TaskId> {
        let index = self.sleepers.iter().position(|(_, other)| *other == event)?;
        self.sleepers.remove(index).map(|(task, _)| task)
    }

    /// All that sleep for these. The last one to come is the first to be woken (`add_wait_queue()`).
    fn all(&mut self, events: &[For]) -> Vec<TaskId> {
        let mut woken = Vec::new();
        if self.sleepers.is_empty() {
            return woken;
        }
        self.sleepers.retain(|(task, event)| {
            let is_woken = events.contains(event);
            woken.extend(is_woken.then_some(*task));
            !is_woken
        });
        woken.reverse();
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(message_bytes: u32) -> Channel {
        Channel::pipe(message_bytes, &Release::default())
    }

    /// Of a kernel before 5.5.
    fn old_pipe(message_bytes: u32) -> Channel {
        Channel::pipe(message_bytes, &"5.4".parse().unwrap())
    }

    #[test]
    fn a_pipe_holds_sixteen_pages() {
        let mut pipe = pipe(100);
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
        let mut pipe = pipe(100);
        assert_eq!(pipe.read(7), Outcome::Blocked);
        assert_eq!(pipe.poll(8), Outcome::Blocked);
        assert_eq!(pipe.write(1), Outcome::Done(vec![8, 7]));
        assert_eq!(pipe.write(1), Outcome::Done(vec![]));
    }

    #[test]
    fn the_last_poller_is_woken_first() {
        let mut pipe = pipe(1);
        (1..=3).for_each(|task| drop(pipe.poll(task)));
        assert_eq!(pipe.write(7), Outcome::Done(vec![3, 2, 1]));
    }

    #[test]
    fn each_write_to_an_old_pipe_wakes_all_the_last_first() {
        let mut pipe = old_pipe(100);
        assert_eq!([pipe.read(1), pipe.poll(2), pipe.read(3)], [const { Outcome::Blocked }; 3]);
        assert_eq!(pipe.write(4), Outcome::Done(vec![3, 2, 1]));
        // One of them finds the message; it has nobody to pass the wake-up on to.
        assert_eq!((pipe.read(3), pipe.next_reader(true)), (Outcome::Done(vec![]), None));
        assert_eq!([pipe.read(1), pipe.write(4)], [Outcome::Blocked, Outcome::Done(vec![1])]);
    }

    #[test]
    fn each_freed_page_of_an_old_pipe_wakes_all_writers() {
        let mut pipe = old_pipe(2048);
        while pipe.write(1) != Outcome::Blocked {}
        assert_eq!(pipe.write(2), Outcome::Blocked);
        assert_eq!([pipe.read(9), pipe.read(9)], [Outcome::Done(vec![]), Outcome::Done(vec![2, 1])]);
        // There is room for both; a third one that was too late hears of the next write too.
        assert_eq!((pipe.write(2), pipe.next_writer(true)), (Outcome::Done(vec![]), None));
        assert_eq!([pipe.write(1), pipe.write(3)], [Outcome::Done(vec![]), Outcome::Blocked]);
        assert_eq!([pipe.read(9), pipe.read(9)], [Outcome::Done(vec![]), Outcome::Done(vec![3])]);
    }

    #[test]
    fn a_mutex_is_passed_to_the_first_waiter() {
        let mut mutex = Mutex::default();
        mutex.hold(1);
        assert!(!mutex.is_held(1) && mutex.is_held(2) && mutex.is_held(3));
        mutex.wait(2);
        mutex.wait(3);
        assert_eq!(mutex.unlock(1), Some(2));
        // Another task was faster; the woken one stays the first.
        mutex.hold(4);
        assert!(mutex.is_held(2));
        mutex.wait(2);
        assert_eq!(mutex.unlock(4), Some(2));
        assert!(!mutex.is_held(2));
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
