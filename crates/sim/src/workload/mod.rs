//! What the tasks do: small state machines, each step of which is a request to the machine.
mod chain;
mod channel;
mod circumstances;
mod co_threads;
mod gate;
mod hackbench;
mod hogs;
mod make;
mod npb;
mod own_thread;
mod perf_pipe;
mod phases;
mod recorded;
mod requests;
mod script;
mod spin_barrier;
mod sync;
mod team;
mod work;

pub use channel::{Channel, ChannelId, Outcome};
pub use circumstances::{Circumstances, Disturbance};
pub use script::{Act, BarrierPlan, BudgetPlan, PolicyPlan, TaskPlan, Tasks};
pub use sync::{
    Arrival, Attempt, Barrier, BarrierId, Condition, ConditionId, Semaphore, SemaphoreId, Wait, Waiting,
};

use crate::Error;
use crate::core::{CpuMask, Footprint, Scheduling, TaskId};
use crate::engine::{Ns, Random, random};
use crate::rest::{Detail, Rest};
use flsched_machine::{Machine, Release};
use flsched_recording::Figures;
use flsched_spec::workload::{Format, Model};
use std::fmt;
use std::sync::Arc;

/// A workload for the simulator.
pub trait Workload: fmt::Debug + fmt::Display + Send + Sync {
    /// The first task's program.
    fn main(&self, world: &mut World) -> Box<dyn Program>;

    /// Whether it fits a machine with this number of CPUs.
    fn check(&self, _nr_cpus: usize) -> Result<(), Error> {
        Ok(())
    }

    /// What its time means, if it is not the duration of the run.
    fn time_is(&self) -> Option<&'static str> {
        None
    }

    /// The same workload, made for this machine; `None`: it is the same for all.
    fn fitted(&self, _machine: &Machine) -> Option<Arc<dyn Workload>> {
        None
    }

    /// What it requires of the run.
    fn circumstances(&self) -> Circumstances {
        Circumstances::default()
    }

    /// If it was recorded: under which scheduler, and what came of it.
    fn recorded(&self) -> Option<(&str, &Figures)> {
        None
    }
}

/// Loads a workload that the user has named and that is no scenario. Files are read and checked.
pub fn load(model: &Model) -> Result<Arc<dyn Workload>, Error> {
    Ok(match model {
        Model::Hackbench(hackbench) => Arc::new(*hackbench),
        Model::Hogs(hogs) => Arc::new(*hogs),
        Model::SpinBarrier(spin) => Arc::new(*spin),
        Model::Phases(phases) => Arc::new(*phases),
        Model::Npb(npb) => Arc::new(*npb),
        Model::Requests(requests) => Arc::new(*requests),
        Model::PerfPipe(pipe) => Arc::new(*pipe),
        Model::Chain(chain) => Arc::new(*chain),
        Model::Make(make) => Arc::new(*make),
        Model::CoThreads(co_threads) => Arc::new(*co_threads),
        Model::Script(file) if file.format == Format::Trace && Machine::is_of_recording(&file.path) => {
            Arc::new(recorded::load(&file.path)?)
        }
        Model::Script(file) => Arc::new(script::load(file)?),
        Model::Scenario(path) => {
            return Err(Error::Usage(format!(
                "scenario:{path}: a scenario has no other one as its workload"
            )));
        }
    })
}

/// The next step of a task.
pub enum Step {
    /// Computes for this time, on a CPU of its own at full speed.
    Run(Ns),
    /// Sleeps for this time.
    Sleep(Ns),
    /// Sleeps until this time; does not sleep if it has passed.
    SleepUntil(Ns),
    /// Calls `sched_yield()`.
    Yield,
    /// Has the kernel call `yield_to()` for the task of that number, of those that its parent made.
    YieldTo(usize),
    /// Creates a pipe or a pair of sockets; the channel exists already.
    Make(ChannelId),
    /// Sends a message; waits while there is no room.
    Write(ChannelId),
    /// Receives one; waits while there is none.
    Read(ChannelId),
    /// Waits until there is a message, and leaves it there.
    Poll(ChannelId),
    /// Arrives at the barrier, and waits in this way until all others have.
    Meet(BarrierId, Wait),
    /// Continues such a wait.
    Await,
    /// Takes one of the semaphore; waits while there is none.
    Down(SemaphoreId),
    /// Releases one, as a futex does.
    Up(SemaphoreId),
    /// Releases one of each, as messages of one call do: a wake-up says that the sender will sleep soon (`WF_SYNC`).
    Send(Vec<SemaphoreId>),
    /// Waits for a signal, and releases the mutex when it starts to sleep.
    WaitFor(ConditionId, Option<SemaphoreId>),
    /// Wakes the first waiter.
    Signal(ConditionId),
    /// Wakes all waiters.
    Broadcast(ConditionId),
    /// Creates a task.
    Fork(Box<Child>),
    /// Calls the rest of the kernel.
    Rest(Detail),
    /// Waits until at most this number of its children exist.
    WaitChildren { at_most: usize },
    /// May only run on these CPUs from now on.
    SetAffinity(Box<CpuMask>),
    /// Stays on its CPU, whatever its affinity: `migrate_disable()`.
    DisableMigration,
    /// Ends that.
    EnableMigration,
    /// Tells whoever measures.
    Mark(Mark),
    /// The task begins to exit: what it computes from here on is the kernel's work for that.
    BeginExit,
    /// The task ends.
    Exit,
}

/// What a program tells whoever measures; it takes no time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark {
    /// The measured part begins.
    Start,
    /// The measured part ends.
    Stop,
    /// A figure of the workload's own, by name with the unit last.
    Figure(&'static str, f64),
    /// The time that the workload measured itself, in seconds.
    Time(f64),
    /// The run ends, even if tasks are not done.
    EndRun,
}

impl Step {
    pub fn fork(child: Child) -> Self {
        Self::Fork(Box::new(child))
    }

    /// Whether it is a system call from its first moment on.
    pub(crate) fn is_call(&self) -> bool {
        match self {
            Self::Make(_) | Self::Write(_) | Self::Read(_) | Self::Poll(_) => true,
            Self::Sleep(_) | Self::SleepUntil(_) | Self::Yield | Self::YieldTo(_) => true,
            Self::WaitFor(..) | Self::Signal(_) | Self::Broadcast(_) => true,
            Self::Fork(_) | Self::WaitChildren { .. } | Self::SetAffinity(_) | Self::Exit => true,
            Self::Rest(detail) => detail.is_call(),
            Self::Run(_) | Self::Meet(..) | Self::Await | Self::Down(_) | Self::Up(_) | Self::Send(_) => {
                false
            }
            Self::DisableMigration | Self::EnableMigration | Self::BeginExit => false,
            Self::Mark(_) => false,
        }
    }
}

/// A task to create.
pub struct Child {
    /// `comm`.
    pub name: String,
    /// Whether it is a thread of its parent's process.
    pub is_thread: bool,
    /// From -20 to 19.
    pub nice: i32,
    /// Its scheduling policy; `None`: its parent's.
    pub scheduling: Option<Scheduling>,
    /// Its data, which caches hold or not.
    pub footprint: Footprint,
    /// Its parent has already mapped a stack for it, which is a part of the cost of a fork.
    pub has_stack: bool,
    /// For `vfork()`: the call returns when the parent has taken one of this semaphore.
    pub vfork: Option<SemaphoreId>,
    pub program: Box<dyn Program>,
}

impl Child {
    /// A process of nice 0, scheduled as its parent, with next to no data.
    pub fn process(name: impl Into<String>, program: impl Program + 'static) -> Self {
        Self {
            name: name.into(),
            is_thread: false,
            nice: 0,
            scheduling: None,
            footprint: Footprint::default(),
            has_stack: false,
            vfork: None,
            program: Box::new(program),
        }
    }

    /// A thread of its parent's process, of nice 0.
    pub fn thread(name: impl Into<String>, program: impl Program + 'static) -> Self {
        Self { is_thread: true, ..Self::process(name, program) }
    }
}

/// What a program may read.
pub struct View<'a> {
    pub now: Ns,
    /// The workload's random numbers, separate from the policy's.
    pub random: &'a mut Random,
}

/// The behaviour of a task.
pub trait Program {
    /// Called when the last step is done.
    fn next(&mut self, view: &mut View<'_>) -> Step;
}

/// The state of all programs and of the objects that they share.
pub struct World {
    pub channels: Vec<Channel>,
    /// Whose pipes they are.
    kernel: Release,
    pub barriers: Vec<Barrier>,
    pub semaphores: Vec<Semaphore>,
    pub conditions: Vec<Condition>,
    /// The rest of the kernel.
    pub rest: Rest,
    /// The workload's random numbers.
    pub random: Random,
    /// By task.
    pub(crate) actors: Vec<Actor>,
    /// When the measured part began.
    pub started_at: Option<Ns>,
    /// When the measured part ended.
    pub stopped_at: Option<Ns>,
    /// The workload's own figures.
    pub figures: Vec<(&'static str, f64)>,
    /// The time that the workload measured itself, in seconds.
    pub own_time_s: Option<f64>,
    /// No task has to continue.
    pub(crate) is_over: bool,
}

/// A task's state in the workload. What every step needs comes first, in two cache lines.
#[repr(C, align(64))]
pub(crate) struct Actor {
    pub(crate) program: Box<dyn Program>,
    /// A step that has to be tried again.
    pub(crate) pending: Option<Step>,
    /// How long the task still computes after the present piece of work, before its program's next step.
    pub(crate) left_to_run: Ns,
    /// The tasks that its last step has still to wake; the last entry is the first to be woken.
    pub(crate) to_wake: Vec<TaskId>,
    /// These wake-ups are those of messages.
    pub(crate) wakes_for_messages: bool,
    /// It has slept for the step that it tries again.
    pub(crate) has_waited: bool,
    /// Its last wait at a barrier.
    pub(crate) waiting: Waiting,
    pub(crate) children: usize,
    /// The processes among its children, in the order of their birth, until it has waited for them.
    pub(crate) unreaped: Vec<TaskId>,
    pub(crate) parent: Option<TaskId>,
    /// It waits until at most this number of children exist.
    pub(crate) waits_for_children: Option<usize>,
}

impl Actor {
    /// Whether its last step is still waking others.
    pub(crate) fn is_waking(&self) -> bool {
        !self.to_wake.is_empty()
    }
}

impl World {
    pub fn new(seed: u64, machine: &Machine) -> Self {
        Self {
            channels: Vec::new(),
            kernel: machine.kernel.clone(),
            barriers: Vec::new(),
            semaphores: Vec::new(),
            conditions: Vec::new(),
            rest: Rest::new(machine),
            random: random(seed, 1),
            actors: Vec::new(),
            started_at: None,
            stopped_at: None,
            figures: Vec::new(),
            own_time_s: None,
            is_over: false,
        }
    }

    /// A new pipe for messages of this size.
    pub fn add_pipe(&mut self, message_bytes: u32) -> ChannelId {
        self.add(Channel::pipe(message_bytes, &self.kernel))
    }

    /// A new pair of sockets for messages of this size.
    pub fn add_socket(&mut self, message_bytes: u32) -> ChannelId {
        self.add(Channel::socket(message_bytes))
    }

    fn add(&mut self, channel: Channel) -> ChannelId {
        self.channels.push(channel);
        self.channels.len() - 1
    }

    /// A new barrier for this number of tasks.
    pub fn add_barrier(&mut self, parties: u64) -> BarrierId {
        self.barriers.push(Barrier::new(parties));
        self.barriers.len() - 1
    }

    /// A new semaphore with this count.
    pub fn add_semaphore(&mut self, count: u64) -> SemaphoreId {
        self.push_semaphore(Semaphore::new(count))
    }

    /// A new mutex, as Rust's standard library has them.
    pub fn add_mutex(&mut self) -> SemaphoreId {
        self.push_semaphore(Semaphore::mutex())
    }

    fn push_semaphore(&mut self, semaphore: Semaphore) -> SemaphoreId {
        self.semaphores.push(semaphore);
        self.semaphores.len() - 1
    }

    pub fn add_condition(&mut self) -> ConditionId {
        self.conditions.push(Condition::default());
        self.conditions.len() - 1
    }

    pub(crate) fn add_actor(&mut self, program: Box<dyn Program>, parent: Option<TaskId>) {
        if let Some(parent) = parent {
            self.actors[parent].children += 1;
        }
        self.actors.push(Actor {
            program,
            pending: None,
            left_to_run: 0,
            to_wake: Vec::new(),
            wakes_for_messages: false,
            has_waited: false,
            waiting: Waiting::default(),
            children: 0,
            unreaped: Vec::new(),
            parent,
            waits_for_children: None,
        });
    }
}
