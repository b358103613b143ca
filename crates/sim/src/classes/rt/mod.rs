//! `SCHED_FIFO` and `SCHED_RR`, after `kernel/sched/rt.c`. Each CPU has 99 priorities and runs the
//! highest one. Waiting tasks are pushed to, or pulled by, CPUs that run a lower priority.
mod priorities;
mod push;

use super::domains::Domains;
use super::{Class, Dequeue, Enqueue, Wake};
use crate::core::{Core, CpuId, CpuMask, TaskId};
use flsched_machine::{FULL_SPEED, Release};
use priorities::{MAX_PRIO, Priorities};
use push::Chain;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtOptions {
    /// The timeslice of `SCHED_RR`: `sched_rr_timeslice_ms`.
    pub slice_ms: u64,
    /// See [`Release::has_rt_push_ipi`].
    pub push_ipi: bool,
}

impl RtOptions {
    /// As this kernel has them.
    pub fn of(kernel: &Release) -> Self {
        Self { slice_ms: 100, push_ipi: kernel.has_rt_push_ipi() }
    }
}

#[derive(Debug)]
pub struct Rt {
    options: RtOptions,
    /// Its index among the run's classes.
    index: usize,
    queues: Vec<Queue>,
    /// CPUs with a waiting task that may run elsewhere: `rto_mask`.
    overloaded: CpuMask,
    priorities: Priorities,
    chain: Chain,
    /// By CPU: which one it last chose for a task. See [`Release::distributes_rt`].
    chosen: Vec<CpuId>,
    /// CPUs that have to push when they leave the scheduler: `balance_callback`.
    pending: CpuMask,
    /// By task: ticks that are left of its timeslice.
    ticks_left: Vec<u64>,
    domains: Domains,
}

/// `struct rt_rq`.
#[derive(Debug, Default)]
struct Queue {
    /// The running task is at the head of its priority's list.
    lists: BTreeMap<i32, VecDeque<TaskId>>,
    /// Waiting tasks that may run elsewhere, the highest priority first.
    pushable: Vec<TaskId>,
}

impl Queue {
    fn highest(&self) -> i32 {
        self.lists.first_key_value().map_or(MAX_PRIO, |(&prio, _)| prio)
    }
}

impl Rt {
    /// On this machine, as the class of this index.
    pub fn new(core: &mut Core, options: RtOptions, index: usize) -> Self {
        Self {
            options,
            index,
            queues: (0..core.nr_cpus()).map(|_| Queue::default()).collect(),
            overloaded: CpuMask::empty(),
            priorities: Priorities::new(core),
            chain: Chain::new(core),
            chosen: vec![0; core.nr_cpus()],
            pending: CpuMask::empty(),
            ticks_left: Vec::new(),
            domains: Domains::new(&core.machine),
        }
    }

    fn can_move(core: &Core, task: TaskId) -> bool {
        core.tasks[task].nr_cpus_allowed > 1 && core.tasks[task].migration_disabled == 0
    }

    fn turn(&self, core: &Core) -> u64 {
        (self.options.slice_ms * 1_000_000 / core.machine.tick_ns).max(1)
    }

    fn add_pushable(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        if !Self::can_move(core, task) {
            return;
        }
        let pushable = &mut self.queues[cpu].pushable;
        let prio = core.tasks[task].prio;
        let index = pushable.partition_point(|&other| core.tasks[other].prio <= prio);
        pushable.insert(index, task);
        self.overloaded.set(cpu, true);
    }

    fn remove_pushable(&mut self, cpu: CpuId, task: TaskId) {
        let pushable = &mut self.queues[cpu].pushable;
        if let Some(index) = pushable.iter().position(|&other| other == task) {
            pushable.remove(index);
            self.overloaded.set(cpu, !pushable.is_empty());
        }
    }

    fn insert(&mut self, core: &mut Core, cpu: CpuId, task: TaskId) {
        self.queues[cpu].lists.entry(core.tasks[task].prio).or_default().push_back(task);
        self.priorities.set(core, cpu, self.queues[cpu].highest());
    }

    fn remove(&mut self, core: &mut Core, cpu: CpuId, task: TaskId) {
        let prio = core.tasks[task].prio;
        let lists = &mut self.queues[cpu].lists;
        if let Some(list) = lists.get_mut(&prio) {
            // The running task is the first one.
            if let Some(index) = list.iter().position(|&other| other == task) {
                list.remove(index);
            }
            if list.is_empty() {
                lists.remove(&prio);
            }
        }
        self.remove_pushable(cpu, task);
        self.priorities.set(core, cpu, self.queues[cpu].highest());
    }

    /// `requeue_task_rt()`.
    fn requeue(&mut self, core: &Core, cpu: CpuId, task: TaskId, to_head: bool) {
        let Some(list) = self.queues[cpu].lists.get_mut(&core.tasks[task].prio) else { return };
        list.retain(|&other| other != task);
        if to_head { list.push_front(task) } else { list.push_back(task) }
    }
}

impl Class for Rt {
    fn name(&self) -> &str {
        "rt"
    }

    fn task_joins(&mut self, core: &mut Core, task: TaskId) {
        self.ticks_left.resize(core.tasks.len(), 0);
        self.ticks_left[task] = self.turn(core);
    }

    fn select_cpu(&mut self, core: &mut Core, task: TaskId, prev: CpuId, _wake: Wake) -> CpuId {
        let prio = core.tasks[task].prio;
        let stays = core.cpus[prev].curr.is_none_or(|curr| {
            let curr = &core.tasks[curr];
            curr.class != self.index || (curr.nr_cpus_allowed > 1 && curr.prio > prio)
        });
        if stays {
            return prev;
        }
        let target = self.lowest(core, task, prev);
        target.filter(|&target| prio < self.queues[target].highest()).unwrap_or(prev)
    }

    fn enqueue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Enqueue) {
        self.ticks_left.resize(core.tasks.len(), 0);
        if why == Enqueue::Fork {
            self.ticks_left[task] = self.turn(core);
        }
        let is_there = |list: &VecDeque<TaskId>| list.contains(&task);
        let has_stayed = why == Enqueue::Restore
            && self.queues[cpu].lists.get(&core.tasks[task].prio).is_some_and(is_there);
        if !has_stayed {
            self.insert(core, cpu, task);
        }
        self.add_pushable(core, cpu, task);
    }

    fn dequeue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Dequeue) {
        core.update_curr(cpu);
        match why {
            Dequeue::Save => self.remove_pushable(cpu, task),
            Dequeue::Sleep | Dequeue::Move => self.remove(core, cpu, task),
        }
    }

    /// `wakeup_preempt_rt()`, then `task_woken_rt()`.
    fn wakeup_preempt(&mut self, core: &mut Core, cpu: CpuId, task: TaskId) {
        let Some(curr) = core.cpus[cpu].curr else { return };
        let (prio, running) = (core.tasks[task].prio, core.tasks[curr].prio);
        if prio < running {
            core.resched(cpu);
        } else if prio == running
            && !core.cpus[cpu].need_resched
            && self.has_lower(core, curr)
            && !self.has_lower(core, task)
        {
            // Only the running task can move: it makes room.
            self.requeue(core, cpu, task, true);
            core.resched(cpu);
        }
        let outranked = core.tasks[curr].nr_cpus_allowed < 2 || running <= prio;
        if !core.cpus[cpu].need_resched && Self::can_move(core, task) && outranked {
            self.push_all(core, cpu);
        }
    }

    /// `balance_rt()`: a CPU whose next task has a lower priority searches other CPUs for a higher
    /// one.
    fn balance(&mut self, core: &mut Core, cpu: CpuId, prev: Option<TaskId>) {
        let Some(prev) = prev else { return };
        if !core.tasks[prev].is_queued && self.queues[cpu].highest() > core.tasks[prev].prio {
            self.pull(core, cpu);
        }
    }

    fn pick(&mut self, _core: &mut Core, cpu: CpuId, _prev: Option<TaskId>) -> Option<TaskId> {
        self.queues[cpu].lists.first_key_value().and_then(|(_, list)| list.front().copied())
    }

    fn put_prev(&mut self, core: &mut Core, cpu: CpuId, prev: TaskId, _next: Option<TaskId>) {
        core.update_curr(cpu);
        if core.tasks[prev].is_queued {
            self.add_pushable(core, cpu, prev);
        }
    }

    fn set_next(&mut self, _core: &mut Core, cpu: CpuId, next: TaskId) {
        self.remove_pushable(cpu, next);
        if !self.queues[cpu].pushable.is_empty() {
            self.pending.set(cpu, true);
        }
    }

    /// `effective_cpu_util()`: the maximum, as long as it has a task.
    fn utilisation(&self, _core: &Core, cpu: CpuId) -> Option<u32> {
        (!self.queues[cpu].lists.is_empty()).then_some(FULL_SPEED)
    }

    fn tick(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId) {
        core.update_curr(cpu);
        if core.tasks[curr].policy != crate::core::SCHED_RR {
            return;
        }
        self.ticks_left[curr] = self.ticks_left[curr].saturating_sub(1);
        if self.ticks_left[curr] > 0 {
            return;
        }
        self.ticks_left[curr] = self.turn(core);
        let list = self.queues[cpu].lists.get(&core.tasks[curr].prio);
        if list.is_some_and(|list| list.len() > 1) {
            self.requeue(core, cpu, curr, false);
            core.resched(cpu);
        }
    }

    fn yield_task(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId) {
        self.requeue(core, cpu, curr, false);
    }

    fn settle(&mut self, core: &mut Core, cpu: CpuId) {
        if self.pending.has(cpu) {
            self.pending.set(cpu, false);
            let lock = core.cpus[cpu].lock;
            core.lock(lock);
            self.push_all(core, cpu);
            core.unlock(lock);
        }
    }

    /// The interrupt of [`push::Chain`].
    fn timer(&mut self, core: &mut Core, cpu: CpuId, _timer: usize, _generation: u32) {
        self.asked_to_push(core, cpu);
    }

    fn waiting(&self, core: &Core) -> usize {
        let queued: usize =
            self.queues.iter().flat_map(|queue| queue.lists.values()).map(VecDeque::len).sum();
        let runs = |cpu: &&crate::core::Cpu| {
            cpu.curr.is_some_and(|curr| core.tasks[curr].class == self.index && core.tasks[curr].is_queued)
        };
        queued - core.cpus.iter().filter(runs).count()
    }
}
