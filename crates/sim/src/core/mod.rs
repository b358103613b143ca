//! What all schedulers share, like `kernel/sched/core.c`: CPUs, tasks, run-queue locks. The
//! simulation adds clocks, costs and counts. Policies of all kinds are in [`crate::classes`].
mod cache;
mod counts;
mod frequency;
mod lock;
mod memory;
mod meter;
mod observer;
mod perf;
mod spent;
mod task;
mod task_struct;
mod weight;

pub use cache::{Caches, Footprint};
pub(crate) use counts::Before;
pub use counts::{CallbackCount, Counts, Histogram};
pub use frequency::Frequencies;
pub use lock::{LockCounts, LockId, Locks};
pub use memory::Memory;
pub use meter::{Meter, STEP_MHZ};
pub(crate) use observer::Observer;
pub use perf::Pace;
pub use spent::Spent;
pub use task::{
    Budget, PF_KTHREAD, SCHED_BATCH, SCHED_DEADLINE, SCHED_FIFO, SCHED_IDLE, SCHED_NORMAL, SCHED_RR,
    Scheduling, State, Task, TaskSpec,
};
pub use task_struct::{CpuMask, TaskStruct};
pub use weight::{NICE_0, load_weight};

use crate::Violation;
pub use crate::engine::TaskId;
use crate::engine::{Event, EventQueue, Ns, Random, random};
pub use flsched_machine::CpuId;
use flsched_machine::{Callback, CallbackCosts, FULL_SPEED, Machine, Price};
use flsched_recording::timeline::Timeline;
use std::sync::Arc;
use task_struct::MmStruct;

/// A CPU, with its part of `struct rq`. What every step of a task needs comes first, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Cpu {
    /// The running task; `None`: the idle task.
    pub curr: Option<TaskId>,
    /// The CPU's own time; not before the event that it handles.
    pub clock: Ns,
    /// Since when `curr` computes, and when it will be done; `None` while the kernel computes.
    pub working: Option<(Ns, Ns)>,
    pub pace: Pace,
    /// It must schedule as soon as possible.
    pub need_resched: bool,
    /// It must schedule when it next leaves the kernel, for any reason.
    pub need_resched_lazy: bool,
    /// An interrupt is on its way.
    pub is_interrupt_sent: bool,
    /// Whether tasks may run here.
    pub is_online: bool,
    /// It has a planned tick.
    pub is_ticking: bool,
    /// `rq->nr_running`: tasks in its run queues, with the running one.
    pub nr_running: u32,
    /// `rq->clock` while it schedules: the time when that began. What scheduling costs is charged
    /// to the next task.
    pub rq_clock: Option<Ns>,
    /// `rq->__lock`.
    pub lock: LockId,
    /// `rq->wake_list`: tasks that other CPUs have woken, and that this one is to enqueue itself. An interrupt for it
    /// is on its way if there are any.
    pub wake_list: Vec<TaskId>,
    /// Since when it idles; 0 if it does not.
    pub idle_since: Ns,
    pub idled: Ns,
    /// Its frequency before its last tick, of [`FULL_SPEED`] at its best.
    pub(crate) perf_seen: u32,
    /// The performance that a policy requests of the governor; `None`: no request.
    pub(crate) perf_target: Option<u32>,
}

#[derive(Debug)]
pub struct Core {
    /// The time of the event that is being handled.
    pub now: Ns,
    pub queue: EventQueue,
    pub machine: Arc<Machine>,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<Task>,
    pub locks: Locks,
    pub counts: Counts,
    /// Those of what came before the measured part.
    pub(crate) before: Before,
    /// What CPU time was spent on.
    pub spent: Spent,
    /// The frequencies of the machine's domains.
    pub frequencies: Frequencies,
    /// What the caches contain.
    pub caches: Caches,
    /// How busy the nodes' memory is.
    pub memory: Memory,
    /// By core: how many of its threads are not idle.
    busy_threads: Vec<u32>,
    /// The CPU that is being simulated: it spends the time.
    pub here: CpuId,
    /// Random numbers for policies.
    pub random: Random,
    /// The CPUs that are online.
    pub online: CpuMask,
    /// The CPUs that run the idle task.
    pub idle: CpuMask,
    /// What ended the run early; the first counts.
    pub violation: Option<Violation>,
    /// Which task ran where and when, if that was requested.
    pub timeline: Option<Box<Timeline>>,
    /// Is told what happens.
    pub(crate) observer: Option<Box<dyn Observer>>,
}

impl Core {
    /// A machine on which nothing runs.
    pub fn new(machine: Arc<Machine>, seed: u64) -> Self {
        let mut locks = Locks::default();
        let count = machine.nr_cpus();
        let cpu = |_| Cpu {
            curr: None,
            clock: 0,
            rq_clock: None,
            need_resched: false,
            need_resched_lazy: false,
            is_online: true,
            working: None,
            is_ticking: false,
            is_interrupt_sent: false,
            lock: locks.add("rq"),
            nr_running: 0,
            wake_list: Vec::new(),
            idle_since: 0,
            idled: 0,
            pace: Pace::FULL,
            perf_seen: FULL_SPEED,
            perf_target: None,
        };
        let mut core = Self {
            now: 0,
            queue: EventQueue::new(count),
            cpus: (0..count).map(cpu).collect(),
            frequencies: Frequencies::new(&machine),
            caches: Caches::new(&machine),
            memory: Memory::new(&machine),
            busy_threads: vec![0; machine.threads.len()],
            machine,
            tasks: Vec::new(),
            locks,
            counts: Counts::default(),
            before: Before::default(),
            spent: Spent::default(),
            here: 0,
            random: random(seed, 0),
            online: CpuMask::first(count),
            idle: CpuMask::first(count),
            violation: None,
            timeline: None,
            observer: None,
        };
        (0..count).for_each(|cpu| core.renew_pace(cpu));
        core
    }

    /// How many CPUs there are.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The clock of the simulated CPU.
    pub fn clock(&self) -> Ns {
        self.cpus[self.here].clock
    }

    /// `rq_clock()`
    pub fn rq_clock(&self, cpu: CpuId) -> Ns {
        // The clock of a CPU that computes may be behind that of the CPU which reads it.
        self.cpus[cpu].rq_clock.unwrap_or(self.cpus[cpu].clock.max(self.clock()))
    }

    /// The kernel's `jiffies`. They do not start at 0, where a policy's "never" would be.
    pub fn jiffies(&self) -> u64 {
        1000 + self.clock() / self.machine.tick_ns
    }

    /// The simulated CPU works for this time at full speed, or longer at another speed.
    pub fn spend(&mut self, price: Price, ns: Ns) {
        let state = &mut self.cpus[self.here];
        let time = state.pace.time(ns);
        state.clock += time;
        self.spent.add(price, time);
    }

    /// The simulated CPU calls `callback` of a scheduler with these costs.
    pub fn charge(&mut self, costs: &CallbackCosts, callback: Callback) {
        let state = &mut self.cpus[self.here];
        let ns = state.pace.time(costs.of(callback));
        state.clock += ns;
        self.counts.called(callback, ns);
        self.spent.add_callback(costs.certainty, ns);
    }

    /// From now on `cpu` is simulated, not before the present event.
    pub fn go_to(&mut self, cpu: CpuId) {
        self.here = cpu;
        let clock = &mut self.cpus[cpu].clock;
        *clock = (*clock).max(self.now);
    }

    /// `resched_curr()`: `cpu` schedules as soon as it can; another CPU is sent an interrupt.
    pub fn resched(&mut self, cpu: CpuId) {
        if !std::mem::replace(&mut self.cpus[cpu].need_resched, true) {
            self.interrupt(cpu);
        }
    }

    /// `resched_curr_lazy()`: `cpu` schedules when it next leaves the kernel. Another CPU whose task
    /// computes is not interrupted; it schedules at its next tick at the latest.
    pub fn resched_lazy(&mut self, cpu: CpuId) {
        if self.cpus[cpu].curr.is_none() {
            return self.resched(cpu);
        }
        self.cpus[cpu].need_resched_lazy = true;
    }

    /// `resched_curr()` without preemption in the kernel: `cpu` schedules as soon as its task is not in a system call.
    pub fn resched_voluntary(&mut self, cpu: CpuId) {
        if self.cpus[cpu].curr.is_none() {
            return self.resched(cpu);
        }
        if !std::mem::replace(&mut self.cpus[cpu].need_resched_lazy, true) {
            self.interrupt(cpu);
        }
    }

    /// Unless an interrupt is on its way, or `cpu` is in the kernel anyway.
    fn interrupt(&mut self, cpu: CpuId) {
        let target = &mut self.cpus[cpu];
        if cpu != self.here && !target.is_interrupt_sent {
            target.is_interrupt_sent = true;
            self.send(cpu, Event::Resched { cpu });
        }
    }

    /// How long an interrupt takes from the simulated CPU to `cpu`.
    pub(crate) fn ipi_ns(&self, cpu: CpuId) -> Ns {
        self.machine.costs.ipi_ns.at(self.machine.distance(self.here, cpu))
    }

    /// The simulated CPU sends an interrupt to `cpu`; `event` is what happens when it arrives.
    pub(crate) fn send(&mut self, cpu: CpuId, event: Event) {
        self.queue.push(self.clock() + self.ipi_ns(cpu), event);
    }

    /// The task enters the run queue of its CPU, or leaves it.
    pub(crate) fn set_queued(&mut self, task: TaskId, is_queued: bool) {
        let task = &mut self.tasks[task];
        let nr_running = &mut self.cpus[task.cpu].nr_running;
        *nr_running = if is_queued { *nr_running + 1 } else { *nr_running - 1 };
        task.is_queued = is_queued;
        if let Some(observer) = &mut self.observer {
            observer.queued(task, is_queued, self.cpus[self.here].clock);
        }
    }

    /// `__ttwu_queue_wakelist()`: the task's CPU is to enqueue it.
    pub(crate) fn add_to_wake_list(&mut self, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        self.tasks[task].state = State::Waking;
        self.cpus[cpu].wake_list.push(task);
        if self.cpus[cpu].wake_list.len() == 1 {
            self.send(cpu, Event::WakeList { cpu });
        }
    }

    /// `clear_tsk_need_resched()`
    pub(crate) fn clear_need_resched(&mut self, cpu: CpuId) {
        self.cpus[cpu].need_resched = false;
        self.cpus[cpu].need_resched_lazy = false;
    }

    /// `update_curr()`: accounts the run time of the running task of `cpu`. Returns the time since
    /// the last update.
    pub fn update_curr(&mut self, cpu: CpuId) -> Ns {
        let clock = self.rq_clock(cpu);
        let Some(curr) = self.cpus[cpu].curr else { return 0 };
        let se = &mut self.tasks[curr].se;
        let delta = clock.saturating_sub(se.exec_start);
        se.exec_start = se.exec_start.max(clock);
        se.sum_exec_runtime += delta;
        delta
    }

    /// A CPU has taken this task into a queue of its own.
    pub fn waits_for(&mut self, task: TaskId, cpu: CpuId) {
        if let Some(observer) = &mut self.observer {
            observer.waits_for(&self.tasks[task], cpu, self.cpus[self.here].clock);
        }
    }

    /// `set_task_cpu()`.
    pub fn set_task_cpu(&mut self, task: TaskId, cpu: CpuId) {
        if self.timeline.is_some() && self.tasks[task].is_queued && self.tasks[task].cpu != cpu {
            self.record_queue(self.tasks[task].cpu, -1);
            self.record_queue(cpu, 1);
        }
        let task = &mut self.tasks[task];
        if task.cpu != cpu {
            if task.is_queued {
                self.cpus[task.cpu].nr_running -= 1;
                self.cpus[cpu].nr_running += 1;
                if let Some(observer) = &mut self.observer {
                    observer.moved(task, cpu, self.cpus[self.here].clock);
                }
            }
            task.cpu = cpu;
            task.wake_cpu = cpu as i32;
            if task.state != State::New {
                task.migrations += 1;
                self.counts.migrations += u64::from(!task.is_kernel_thread());
            }
        }
    }

    /// Adds a task that is not yet awake; `cpu`: where its parent runs.
    pub fn add_task(&mut self, spec: &TaskSpec, cpu: CpuId) -> TaskId {
        let id = self.tasks.len();
        let mut task = Task::new(id, spec, self.nr_cpus(), cpu, self.now.max(self.cpus[cpu].clock));
        if let Some(parent) = spec.parent {
            let parent = &self.tasks[parent];
            task.real_parent = parent.as_ptr();
            task.parent = parent.as_ptr();
            if spec.is_thread {
                // The process's, as the kernel has it.
                task.real_parent = parent.real_parent;
                task.parent = parent.parent;
                task.tgid = parent.tgid;
                task.group_leader = parent.group_leader;
                task.mm = parent.mm;
                task.signal = parent.signal;
                // SAFETY: its leader's, which exists as long as the run.
                unsafe { (*task.signal).nr_threads += 1 };
            }
        }
        self.tasks.push(task);
        id
    }

    /// Both use the same memory. If they are of different processes, each has mapped it; so many pages as a process of
    /// Open MPI has (62 of 4 KiB with one peer).
    pub(crate) fn share_memory(&mut self, one: TaskId, other: TaskId) {
        const PAGES: i64 = 64;
        let (one, other) = (self.tasks[one].mm, self.tasks[other].mm);
        if one != other {
            // SAFETY: their leaders', which exist as long as the run.
            unsafe {
                (*one).rss_stat[MmStruct::SHARED].count = PAGES;
                (*other).rss_stat[MmStruct::SHARED].count = PAGES;
            }
        }
    }

    /// All tasks but the kernel's own.
    pub(crate) fn workload_tasks(&self) -> impl Iterator<Item = &Task> + Clone {
        self.tasks.iter().filter(|task| !task.is_kernel_thread())
    }

    /// `cpu`, or an online CPU that takes over its work.
    pub(crate) fn online_near(&self, cpu: CpuId) -> CpuId {
        self.online.first_common_from(&self.online, cpu).unwrap_or(cpu)
    }

    pub(crate) fn leave_process(&mut self, task: TaskId) {
        // SAFETY: its leader's, which exists as long as the run.
        unsafe { (*self.tasks[task].signal).nr_threads -= 1 };
    }

    /// The task to which C refers by this pointer.
    pub(crate) fn task_at(&self, pointer: *const TaskStruct) -> TaskId {
        // SAFETY: C has it from Task::as_ptr(), and tasks exist as long as the run.
        unsafe { (*pointer).pid as usize - 1 }
    }

    /// Records which task runs where and when, from the start of the run on.
    pub(crate) fn start_recording(&mut self) {
        let mut timeline = Timeline::new((0..self.nr_cpus() as u32).collect());
        if self.machine.speed.frequency.is_some() {
            (0..self.nr_cpus()).for_each(|cpu| timeline.tuned(cpu, self.frequencies.of_cpu(cpu), 0));
        }
        self.timeline = Some(Box::new(timeline));
    }

    /// The number of tasks that wait for `cpu` changes by this much.
    pub(crate) fn record_queue(&mut self, cpu: CpuId, change: i64) {
        let at = self.clock();
        if let Some(timeline) = &mut self.timeline {
            timeline.queued(cpu, change, at);
        }
    }

    /// Ends the run: a scheduler broke a rule.
    pub fn fail(&mut self, callback: &'static str, task: Option<TaskId>, what: impl Into<String>) {
        if self.violation.is_none() {
            let task = task.map(|task| self.tasks[task].label());
            self.violation = Some(Violation { what: what.into(), callback, task, at: self.clock() });
        }
    }
}
