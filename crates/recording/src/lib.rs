//! A recorded load: which task ran where and when, and what woke it.
//!
//! - [`Recording`]: what happened, in the order of time, with the tasks and the machine that it happened on
//! - [`Recording::write`], [`Recording::read`]: its file; a file that is cut off or of another kind is refused
//! - [`Recording::lives`]: what each task did between its sleeps and which task woke it, which is what the simulator replays
//! - [`Recording::figures`]: switches, utilisation, wake-up latency
//! - [`Recording::timeline`]: what it looks like
mod anonymous;
mod broadcasts;
mod checks;
mod coding;
mod dialogues;
mod error;
mod figures;
mod file;
mod lives;
mod messages;
pub mod replays;
pub mod timeline;

pub use error::Error;
pub use figures::Figures;
pub use file::is_recording;
pub use lives::{Begin, Deed, Life};

use serde::{Deserialize, Serialize};

/// Nanoseconds.
pub type Ns = u64;
/// The number of a task in [`Recording::tasks`].
pub type TaskId = u32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub header: Header,
    /// Who; none of them is the idle task.
    pub tasks: Vec<Task>,
    /// What happened. Events of one CPU are in the order of its clock, and a task is never on two CPUs at a time; the
    /// clocks of the CPUs may differ a little.
    pub events: Vec<Event>,
}

/// The first line of the file, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of `flsched`.
    pub flsched: String,
    /// `uname -r`.
    pub kernel: String,
    /// The CPUs that were online.
    pub cpus: Vec<Cpu>,
    /// What the CPUs are.
    pub cpu_model: Option<String>,
    /// The governor of their frequencies.
    pub governor: Option<String>,
    /// The clock of an emulated machine, as on the command line of `flsched vm`.
    pub clock: Option<String>,
    /// The scheduler in force at the start, and at the end.
    pub schedulers: [String; 2],
    /// The command that was recorded; `None`: there was none, or it is kept back.
    pub command: Option<String>,
    pub command_task: Option<TaskId>,
    /// Whether names were hashed.
    pub is_anonymous: bool,
    /// How long was recorded, in ns.
    pub length: Ns,
    /// Moves of tasks from CPU to CPU.
    pub migrations: u64,
    /// Events that found no room. All of them came after those that are in the file.
    pub lost: u64,
    /// Time in the recorder's programs, on all CPUs.
    pub overhead: Ns,
    /// What the policy in force counted meanwhile, if it was one that the recorder knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name in the policy.
    pub name: String,
    /// Its value at some times.
    pub samples: Vec<(Ns, u64)>,
}

impl Counter {
    /// Events per second, from each of its times on but the last.
    pub fn rates(&self) -> Vec<(Ns, u64)> {
        let rate = |from: &(Ns, u64), to: &(Ns, u64)| {
            let (events, time) = (to.1.saturating_sub(from.1), to.0.saturating_sub(from.0).max(1));
            (from.0, (u128::from(events) * 1_000_000_000 / u128::from(time)) as u64)
        };
        self.samples.windows(2).map(|pair| rate(&pair[0], &pair[1])).collect()
    }
}

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number in the kernel.
    pub id: u32,
    /// The number of its core.
    pub core: u32,
    /// The number of its last-level cache.
    pub cache: u32,
    /// The number of its memory node.
    pub node: u32,
}

/// A task, as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its name; anonymous: a hash of it.
    pub name: String,
    /// Its number; `None`: anonymous.
    pub pid: Option<u32>,
    /// The first task of its process.
    pub process: Option<TaskId>,
    /// From -20 to 19.
    pub nice: i32,
    /// `SCHED_FIFO`, `SCHED_RR` and their priority.
    pub real_time: Option<RealTime>,
    /// Its policy is `SCHED_BATCH`.
    pub is_batch: bool,
    /// The CPUs that it may run on, as numbers in [`Header::cpus`]; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// What is not part of the load.
    pub role: Role,
}

impl Task {
    /// An ordinary task of which nothing more is known yet.
    pub fn new(name: impl Into<String>, pid: u32) -> Self {
        Self {
            name: name.into(),
            pid: Some(pid),
            process: None,
            nice: 0,
            real_time: None,
            is_batch: false,
            cpus: None,
            role: Role::Load,
        }
    }
}

/// A task of a real-time class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealTime {
    /// From 1 to 99.
    pub priority: u8,
    /// `SCHED_RR`.
    pub is_round_robin: bool,
}

/// What a task is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Load,
    /// A thread of the kernel that works for the load.
    Kernel,
    /// What the recorder itself does.
    Recorder,
    /// The scheduler's own: it moves tasks from CPU to CPU.
    Stopper,
}

impl Role {
    /// Whether a replay has such tasks.
    pub fn is_replayed(self) -> bool {
        matches!(self, Self::Load | Self::Kernel)
    }
}

/// What happened, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Since the recording began, by the CPU's clock.
    pub at: Ns,
    /// A number in [`Header::cpus`].
    pub cpu: u32,
    pub what: What,
}

/// What happened; tasks are numbers, `None` is the idle task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The CPU went from one task to the next.
    Switch {
        /// The task that left.
        prev: Option<TaskId>,
        left: Left,
        /// The task that came.
        next: Option<TaskId>,
        /// What the task that left has called since it came.
        calls: Calls,
    },
    /// What ran on the CPU, or an interrupt there, made a task able to run.
    Wake { woken: TaskId, by: By },
    /// What ran on the CPU created a task, which can run.
    Fork {
        child: TaskId,
        /// The same call waits until the child has ended or begun another program: `vfork`.
        waits: bool,
    },
}

/// System calls that a task has finished, of files, pipes and sockets alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Of `read`, `recv` and the like.
    pub reads: u32,
    /// Of `write`, `send` and the like.
    pub writes: u32,
}

/// What woke a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The task that ran there.
    Task,
    /// The same, in a call of `write`, `send` or the like, or of `read`: as the kernel's pipes and sockets do, it said that it
    /// would sleep soon.
    Message,
    /// The task that ran there ends, and its parent waits for that. The kernel wakes the parent as a message does.
    End,
    /// An interrupt; the task that ran there had no part in it.
    Interrupt,
}

/// Why a task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It waits for something.
    Blocked,
    /// It waits in a call of `read`, `recv` or `poll` for what another task will write.
    Reading,
    /// It waits in a call of `futex`: for a lock, a condition or a barrier of user space.
    InFutex,
    /// It could go on.
    Preempted,
    /// It called `sched_yield`.
    Yielded,
    Exited,
}
