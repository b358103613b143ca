//! A task in the core.
use super::task_struct::{CpuMask, ROOT_CGROUP, SchedEntity, SchedExtEntity, SignalStruct, TaskStruct};
use super::{CpuId, Footprint, TaskId};
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
    /// Ended.
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

/// What a task requests with `sched_setscheduler()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// `SCHED_OTHER`.
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_FIFO` at a priority from 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` at a priority from 1 to 99.
    RoundRobin(u8),
}

impl Scheduling {
    /// `policy` of `task_struct`.
    fn policy(self) -> u32 {
        match self {
            Self::Normal => SCHED_NORMAL,
            Self::Batch => SCHED_BATCH,
            Self::Fifo(_) => SCHED_FIFO,
            Self::RoundRobin(_) => SCHED_RR,
        }
    }

    /// `prio` of `task_struct`: below 100 for real-time tasks, 120 at nice 0.
    fn prio(self, nice: i32) -> i32 {
        match self {
            Self::Normal | Self::Batch => 120 + nice,
            Self::Fifo(priority) | Self::RoundRobin(priority) => 99 - i32::from(priority),
        }
    }
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
    /// Its data.
    pub footprint: Footprint,
}

/// A task.
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
    /// Its data.
    pub footprint: Footprint,
    /// Since when it has been in its present state: running, waiting or sleeping.
    pub since: Ns,
    /// When it was forked.
    pub born_at: Ns,
    /// Time it ran, including the kernel's work for it.
    pub ran: Ns,
    /// Time it waited for a CPU.
    pub waited: Ns,
    /// Time it slept.
    pub slept: Ns,
    /// How often it moved from one CPU to another.
    pub migrations: u64,
    /// When its program was done, before it exited, and how often it had left a CPU by then.
    pub program_end: Option<(Ns, u64)>,
    /// When it was last woken, if it has not run since.
    pub woken_at: Option<Ns>,
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
            cpus_mask,
        });
        Self {
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
        }
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
        let priority = (99 - self.prio) as u8;
        match self.policy {
            SCHED_FIFO => Scheduling::Fifo(priority),
            SCHED_RR => Scheduling::RoundRobin(priority),
            SCHED_BATCH => Scheduling::Batch,
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
            (*task).mm = &raw mut (*task).tgid;
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
