//! Dispatch queues. A queue is ordered by arrival or by virtual time, never by both at once.
use crate::core::{Core, CpuId, LockId, TaskId};
use std::collections::BTreeMap;

/// A queue's index in [`Dsqs`].
pub(crate) type DsqIndex = usize;

/// Ids below this are table indices, others keys of a tree. Policies number their queues from 0.
const DENSE: u64 = 1 << 16;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Dsq {
    id: u64,
    /// `None`: a local queue, which the run-queue lock of its CPU protects.
    lock: Option<LockId>,
    head: u32,
    tail: u32,
    len: u32,
    seq: u64,
    /// Virtual times compare as in `time_before64()`: one that has wrapped below 0 comes before small ones.
    by_vtime: BTreeMap<(i64, u64), TaskId>,
}

/// A task's position in a queue.
#[derive(Debug, Clone, Copy)]
struct Link {
    dsq: u32,
    next: u32,
    prev: u32,
    seq: u64,
    /// The task's key in `by_vtime`; `None`: the task is in the list.
    vtime: Option<i64>,
}

const UNLINKED: Link = Link { dsq: NONE, next: NONE, prev: NONE, seq: 0, vtime: None };

/// All queues in this order: the local queue of each CPU, the global queue, the policy's own queues.
#[derive(Debug)]
pub(crate) struct Dsqs {
    dsqs: Vec<Dsq>,
    links: Vec<Link>,
    dense: Vec<u32>,
    sparse: BTreeMap<u64, u32>,
    global: DsqIndex,
}

/// Why a task cannot be put into a queue.
pub(crate) type Mixed = &'static str;

impl Dsqs {
    pub(super) fn new(core: &mut Core) -> Self {
        let mut dsqs = Self {
            dsqs: Vec::new(),
            links: Vec::new(),
            dense: Vec::new(),
            sparse: BTreeMap::new(),
            global: core.nr_cpus(),
        };
        for _ in 0..core.nr_cpus() {
            dsqs.add(u64::MAX, None);
        }
        let lock = core.locks.add("global dsq");
        dsqs.add(u64::MAX, Some(lock));
        dsqs
    }

    fn add(&mut self, id: u64, lock: Option<LockId>) -> DsqIndex {
        let by_vtime = BTreeMap::new();
        self.dsqs.push(Dsq { id, lock, head: NONE, tail: NONE, len: 0, seq: 0, by_vtime });
        self.dsqs.len() - 1
    }

    pub(super) fn local(&self, cpu: CpuId) -> DsqIndex {
        cpu
    }

    pub(super) fn global(&self) -> DsqIndex {
        self.global
    }

    /// Creates a queue for the policy.
    pub(crate) fn create(&mut self, core: &mut Core, id: u64) {
        let lock = core.locks.add("dsq");
        let index = self.add(id, Some(lock)) as u32;
        if id >= DENSE {
            self.sparse.insert(id, index);
            return;
        }
        let id = id as usize;
        if self.dense.len() <= id {
            self.dense.resize(id + 1, NONE);
        }
        self.dense[id] = index;
    }

    /// The policy's queue of that id.
    pub(crate) fn find(&self, id: u64) -> Option<DsqIndex> {
        let index = if id < DENSE { self.dense.get(id as usize) } else { self.sparse.get(&id) };
        index.copied().filter(|&index| index != NONE).map(|index| index as usize)
    }

    /// Destroys a queue of the policy, which must be empty.
    pub(crate) fn destroy(&mut self, id: u64) {
        if id < DENSE {
            self.dense[id as usize] = NONE;
        } else {
            self.sparse.remove(&id);
        }
    }

    pub(super) fn lock_of(&self, dsq: DsqIndex) -> Option<LockId> {
        self.dsqs[dsq].lock
    }

    pub(super) fn id_of(&self, dsq: DsqIndex) -> u64 {
        self.dsqs[dsq].id
    }

    /// The number of tasks in a queue.
    pub(crate) fn len(&self, dsq: DsqIndex) -> usize {
        self.dsqs[dsq].len as usize
    }

    pub(super) fn total(&self) -> usize {
        self.dsqs.iter().map(|dsq| dsq.len as usize).sum()
    }

    /// The number of insertions into a queue so far.
    pub(crate) fn seq(&self, dsq: DsqIndex) -> u64 {
        self.dsqs[dsq].seq
    }

    /// The number of the insertion that put the task into its queue.
    pub(crate) fn seq_of(&self, task: TaskId) -> u64 {
        self.links[task].seq
    }

    /// The queue that contains the task, if any.
    pub(crate) fn of(&self, task: TaskId) -> Option<DsqIndex> {
        let dsq = self.links.get(task)?.dsq;
        (dsq != NONE).then_some(dsq as usize)
    }

    /// A queue's first task.
    pub(crate) fn first(&self, dsq: DsqIndex) -> Option<TaskId> {
        self.end(dsq, false)
    }

    /// A queue's first task, or its last.
    pub(crate) fn end(&self, dsq: DsqIndex, last: bool) -> Option<TaskId> {
        let queue = &self.dsqs[dsq];
        if !queue.by_vtime.is_empty() {
            let entry = if last { queue.by_vtime.last_key_value() } else { queue.by_vtime.first_key_value() };
            return entry.map(|(_, task)| *task);
        }
        let task = if last { queue.tail } else { queue.head };
        (task != NONE).then_some(task as usize)
    }

    /// The task after this one in its queue, or the task before it.
    pub(crate) fn beside(&self, task: TaskId, before: bool) -> Option<TaskId> {
        let link = &self.links[task];
        if let Some(vtime) = link.vtime {
            let tree = &self.dsqs[link.dsq as usize].by_vtime;
            let key = (vtime, link.seq);
            let found = if before {
                tree.range(..key).next_back()
            } else {
                tree.range((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded)).next()
            };
            return found.map(|(_, task)| *task);
        }
        let found = if before { link.prev } else { link.next };
        (found != NONE).then_some(found as usize)
    }

    /// Inserts a task: by virtual time if `vtime` is given, else at the head or the tail.
    pub(crate) fn push(
        &mut self,
        dsq: DsqIndex,
        task: TaskId,
        at_head: bool,
        vtime: Option<u64>,
    ) -> Result<(), Mixed> {
        if self.links.len() <= task {
            self.links.resize(task + 1, UNLINKED);
        }
        if self.links[task].dsq != NONE {
            return Err("it is in a queue already");
        }
        let vtime = vtime.map(u64::cast_signed);
        let queue = &mut self.dsqs[dsq];
        queue.seq += 1;
        let seq = queue.seq;
        let mut link = Link { dsq: dsq as u32, next: NONE, prev: NONE, seq, vtime };
        if let Some(vtime) = vtime {
            if queue.head != NONE {
                return Err("the queue has tasks in order of arrival already");
            }
            queue.by_vtime.insert((vtime, seq), task);
        } else {
            if !queue.by_vtime.is_empty() {
                return Err("the queue has tasks in order of virtual time already");
            }
            let neighbour = if at_head { queue.head } else { queue.tail };
            let this = task as u32;
            if at_head {
                link.next = neighbour;
                queue.head = this;
            } else {
                link.prev = neighbour;
                queue.tail = this;
            }
            match (neighbour, at_head) {
                (NONE, true) => queue.tail = this,
                (NONE, false) => queue.head = this,
                (first, true) => self.links[first as usize].prev = this,
                (last, false) => self.links[last as usize].next = this,
            }
        }
        queue.len += 1;
        self.links[task] = link;
        Ok(())
    }

    /// Removes a task from its queue, if it is in one. Returns that queue.
    pub(super) fn remove(&mut self, task: TaskId) -> Option<DsqIndex> {
        let dsq = self.of(task)?;
        let link = std::mem::replace(&mut self.links[task], UNLINKED);
        let queue = &mut self.dsqs[dsq];
        queue.len -= 1;
        if let Some(vtime) = link.vtime {
            queue.by_vtime.remove(&(vtime, link.seq));
            return Some(dsq);
        }
        match link.prev {
            NONE => queue.head = link.next,
            prev => self.links[prev as usize].next = link.next,
        }
        match link.next {
            NONE => queue.tail = link.prev,
            next => self.links[next as usize].prev = link.prev,
        }
        Some(dsq)
    }
}
