//! A task in the core.
use super::task_struct::{
    CpuMask, MmStruct, ROOT_CGROUP, SchedEntity, SchedExtEntity, SignalStruct, TaskStruct,
};
use super::{CpuId, Footprint, TaskId, load_weight};
use crate::engine::Ns;
use std::ffi::c_char;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not yet woken for the first time.
    New,
    /// Running, or waiting for a CPU.
    Runnable,
    /// Waiting for something else.
    Sleeping,
    /// Woken, and in the wake list of its CPU: [`Cpu::wake_list`](super::Cpu::wake_list).
    Waking,
    Dead,
}

/// `PF_KTHREAD`: a thread of the kernel.
pub const PF_KTHREAD: u32 = 0x0020_0000;

/// `SCHED_NORMAL` and its relatives in `task_struct`.
pub const SCHED_NORMAL: u32 = 0;
/// See `sched(7)`.
pub const SCHED_FIFO: u32 = 1;
/// See `sched(7)`.
pub const SCHED_RR: u32 = 2;
/// See `sched(7)`.
pub const SCHED_BATCH: u32 = 3;
/// See `sched(7)`.
pub const SCHED_IDLE: u32 = 5;
/// See `sched(7)`.
pub const SCHED_DEADLINE: u32 = 6;

/// `WEIGHT_IDLEPRIO`: the weight of `SCHED_IDLE`, whatever the nice value.
const WEIGHT_IDLEPRIO: u64 = 3;
/// The `prio` of all tasks of `SCHED_DEADLINE`: above the highest real-time priority.
const DEADLINE_PRIO: i32 = -1;

/// What a task requests with `sched_setscheduler()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// `SCHED_OTHER`.
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` at a priority from 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` at a priority from 1 to 99.
    RoundRobin(u8),
    /// `SCHED_DEADLINE`: a class above the real-time one, with a budget.
    Deadline {
        /// How long it may run in each period.
        runtime: Ns,
        period: Ns,
    },
}

impl Scheduling {
    /// `policy` of `task_struct`.
    fn policy(self) -> u32 {
        match self {
            Self::Normal => SCHED_NORMAL,
            Self::Batch => SCHED_BATCH,
            Self::Idle => SCHED_IDLE,
            Self::Fifo(_) => SCHED_FIFO,
            Self::RoundRobin(_) => SCHED_RR,
            Self::Deadline { .. } => SCHED_DEADLINE,
        }
    }

    /// `prio` of `task_struct`: below 100 for real-time tasks, 120 at nice 0.
    fn prio(self, nice: i32) -> i32 {
        match self {
            Self::Normal | Self::Batch | Self::Idle => 120 + nice,
            Self::Deadline { .. } => DEADLINE_PRIO,
            Self::Fifo(priority) | Self::RoundRobin(priority) => 99 - i32::from(priority),
        }
    }
}

/// What a task of `SCHED_DEADLINE` may still run: `struct sched_dl_entity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How long it may run in each period.
    pub runtime: Ns,
    pub period: Ns,
    /// When the present period ends.
    pub period_end: Ns,
    /// How long it had run when the present period began.
    pub ran_before: Ns,
}

/// What a new task is like.
#[derive(Debug, Clone)]
pub struct TaskSpec {
    /// `comm`: its first 15 characters.
    pub name: String,
    /// The task that forks it; `None`: the run itself.
    pub parent: Option<TaskId>,
    /// Whether it is a thread of its parent's process.
    pub is_thread: bool,
    /// From -20 to 19.
    pub nice: i32,
    /// Its scheduling policy and priority.
    pub scheduling: Scheduling,
    /// The CPUs on which it may run; `None`: all.
    pub allowed: Option<CpuMask>,
    pub footprint: Footprint,
}

#[derive(Debug)]
pub struct Task {
    shared: Shared,
    /// The one CPU on which it must stay, while its `cpus_ptr` has only that one.
    pin: Option<Box<CpuMask>>,
    /// Its number, which does not change.
    pub id: TaskId,
    /// Which of the run's scheduling classes it belongs to.
    pub class: usize,
    /// See [`State`].
    pub state: State,
    /// The CPU it runs on, waits for, or ran on last.
    pub cpu: CpuId,
    /// Whether it is in a run queue, or running.
    pub is_queued: bool,
    /// Work that is left until its next step, at full speed.
    pub work_left: Ns,
    pub footprint: Footprint,
    /// Since when it has been in its present state: running, waiting or sleeping.
    pub since: Ns,
    /// When it was forked.
    pub born_at: Ns,
    /// Time it ran, including the kernel's work for it.
    pub ran: Ns,
    /// Time it waited for a CPU.
    pub waited: Ns,
    pub slept: Ns,
    /// How often it moved from one CPU to another.
    pub migrations: u64,
    /// When its program was done, before it exited, and how often it had left a CPU by then.
    pub program_end: Option<(Ns, u64)>,
    /// When it was last woken, if it has not run since.
    pub woken_at: Option<Ns>,
    /// The task that wakes it; `None`: an interrupt does.
    pub waker: Option<TaskId>,
    /// That of a task of `SCHED_DEADLINE`.
    pub budget: Option<Budget>,
    /// It exits, and has left its autogroup.
    pub has_left_autogroup: bool,
}

impl Task {
    /// `class`: its scheduling class. `cpu`: where it is forked.
    pub(super) fn new(id: TaskId, spec: &TaskSpec, nr_cpus: usize, cpu: CpuId, now: Ns) -> Self {
        let mut comm = [0 as c_char; 16];
        for (slot, byte) in comm.iter_mut().take(15).zip(spec.name.bytes()) {
            *slot = byte as c_char;
        }
        let pid = id as i32 + 1;
        let prio = spec.scheduling.prio(spec.nice);
        let cpus_mask = spec.allowed.clone().unwrap_or_else(|| CpuMask::first(nr_cpus));
        let shared = Shared::new(TaskStruct {
            pid,
            tgid: pid,
            flags: 0,
            policy: spec.scheduling.policy(),
            prio,
            static_prio: 120 + spec.nice,
            normal_prio: prio,
            nr_cpus_allowed: cpus_mask.weight() as i32,
            on_cpu: 0,
            on_rq: 0,
            wake_cpu: cpu as i32,
            recent_used_cpu: cpu as i32,
            migration_disabled: 0,
            start_time: now,
            start_boottime: now,
            nvcsw: 0,
            nivcsw: 0,
            se: SchedEntity::default(),
            scx: SchedExtEntity { weight: 100, ..SchedExtEntity::default() },
            mm: null_mut(),
            real_parent: null_mut(),
            parent: null_mut(),
            group_leader: null_mut(),
            signal: null_mut(),
            cgroups: &raw const ROOT_CGROUP,
            cpus_ptr: null_mut(),
            comm,
            own_signal: SignalStruct { nr_threads: 1 },
            own_mm: MmStruct::default(),
            cpus_mask,
        });
        let mut task = Self {
            shared,
            pin: None,
            id,
            class: 0,
            state: State::New,
            cpu,
            is_queued: false,
            work_left: 0,
            footprint: spec.footprint,
            since: now,
            born_at: now,
            ran: 0,
            waited: 0,
            slept: 0,
            migrations: 0,
            program_end: None,
            woken_at: None,
            waker: None,
            budget: None,
            has_left_autogroup: false,
        };
        task.set_budget(spec.scheduling);
        task
    }

    fn set_budget(&mut self, scheduling: Scheduling) {
        self.budget = match scheduling {
            Scheduling::Deadline { runtime, period } => {
                Some(Budget { runtime, period, period_end: 0, ran_before: 0 })
            }
            _ => None,
        };
    }

    /// What `sched_setscheduler()` writes.
    pub(crate) fn set_scheduling(&mut self, scheduling: Scheduling) {
        let nice = self.static_prio - 120;
        self.policy = scheduling.policy();
        self.prio = scheduling.prio(nice);
        self.normal_prio = self.prio;
        self.set_budget(scheduling);
    }

    /// What `setpriority()` writes.
    pub(crate) fn set_nice(&mut self, nice: i32) {
        self.static_prio = 120 + nice;
        if self.prio >= 100 {
            self.prio = self.static_prio;
            self.normal_prio = self.prio;
        }
    }

    /// Its weight in the fair class, and for policies.
    pub fn weight(&self) -> u64 {
        if self.policy == SCHED_IDLE { WEIGHT_IDLEPRIO } else { load_weight(self.static_prio) }
    }

    /// For C: valid as long as the task's run.
    pub(crate) fn as_ptr(&self) -> *mut TaskStruct {
        self.shared.0.as_ptr()
    }

    /// How often it has left a CPU.
    pub fn switches(&self) -> u64 {
        self.nvcsw + self.nivcsw
    }

    /// Whether it is a thread of a process, but not the first one.
    pub fn is_thread(&self) -> bool {
        self.tgid != self.pid
    }

    /// Whether it is one of the kernel's own.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Whether it may run on `cpu`, online or not.
    pub fn may_run_on(&self, cpu: CpuId) -> bool {
        if self.migration_disabled > 0 { cpu == self.cpu } else { self.cpus_mask.has(cpu) }
    }

    /// Its scheduling policy and priority, which its children inherit.
    pub fn scheduling(&self) -> Scheduling {
        let priority = (99 - self.prio.max(0)) as u8;
        match self.policy {
            SCHED_FIFO => Scheduling::Fifo(priority),
            SCHED_RR => Scheduling::RoundRobin(priority),
            SCHED_BATCH => Scheduling::Batch,
            SCHED_IDLE => Scheduling::Idle,
            SCHED_DEADLINE => self.budget.map_or(Scheduling::Normal, |budget| Scheduling::Deadline {
                runtime: budget.runtime,
                period: budget.period,
            }),
            _ => Scheduling::Normal,
        }
    }

    /// Reports its present CPU as the only one on which it may run; false: it does so already.
    pub(crate) fn pin(&mut self) -> bool {
        if self.pin.is_some() {
            return false;
        }
        let mut mask = Box::new(CpuMask::empty());
        mask.set(self.cpu, true);
        self.cpus_ptr = &raw const *mask;
        self.pin = Some(mask);
        true
    }

    /// Reports its own CPUs again; false: it does so already.
    pub(crate) fn unpin(&mut self) -> bool {
        self.cpus_ptr = &raw const self.cpus_mask;
        self.pin.take().is_some()
    }

    /// For messages.
    pub fn label(&self) -> String {
        format!("{} (pid {})", self.name(), self.pid)
    }
}

impl Deref for Task {
    type Target = TaskStruct;
    fn deref(&self) -> &TaskStruct {
        // SAFETY: valid until dropped, and C code only touches it while no reference here exists.
        unsafe { self.shared.0.as_ref() }
    }
}

impl DerefMut for Task {
    fn deref_mut(&mut self) -> &mut TaskStruct {
        // SAFETY: as above.
        unsafe { self.shared.0.as_mut() }
    }
}

/// What a policy and the core both write. It has a fixed address, and no `Box` owns it, which would
/// guarantee that there is no other pointer to it.
#[derive(Debug)]
struct Shared(NonNull<TaskStruct>);

impl Shared {
    fn new(of: TaskStruct) -> Self {
        let pointer = NonNull::from(Box::leak(Box::new(of)));
        let shared = Self(pointer);
        // SAFETY: just allocated. The mask has the address of the whole from now on.
        unsafe {
            let task = pointer.as_ptr();
            (*task).cpus_ptr = &raw const (*task).cpus_mask;
            (*task).group_leader = task;
            (*task).signal = &raw mut (*task).own_signal;
            (*task).mm = &raw mut (*task).own_mm;
        }
        shared
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: from Box::leak, and freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
