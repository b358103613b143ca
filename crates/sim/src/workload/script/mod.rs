//! Workloads from files: what each task does, as a list of operations. Three forms lead here: [`Tasks`] (TOML of this
//! project, also in scenarios), `rt-app` (JSON) and `trace` (recorded on a real machine).
mod json;
mod rt_app;
mod tasks;
mod trace;

pub use tasks::{Act, BarrierPlan, BudgetPlan, PolicyPlan, TaskPlan, Tasks};

use super::{
    BarrierId, ChannelId, Child, ConditionId, Mark, Program, SemaphoreId, Step, View, Wait, Workload, World,
};
use crate::Error;
use crate::core::{CpuId, CpuMask, Footprint, Scheduling};
use crate::engine::Ns;
use crate::rest::{Detail, Preparation};
use flsched_spec::workload::{Format, ScriptFile};
use std::fmt;
use std::iter::Peekable;
use std::rc::Rc;
use std::sync::Arc;

/// The longest time that a file may name: about 11 days. Sums of many such times do not overflow.
const MOST_NS: Ns = 1_000_000_000_000_000;

/// Bytes of a message through a pipe, as hackbench's.
const MESSAGE: u32 = 100;

/// What a task does next. Numbers of barriers, semaphores, conditions and pipes count within the script.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    Run(Ns),
    Sleep(Ns),
    /// Sleeps until a period after the timer's last time, or after now if that is past and the mode is
    /// relative.
    Timer {
        timer: usize,
        period: Ns,
        is_absolute: bool,
    },
    Yield,
    /// To the task of that number, of those that the same one made.
    YieldTo(usize),
    Write(ChannelId),
    Read(ChannelId),
    DisableMigration,
    EnableMigration,
    Meet(BarrierId, Wait),
    Down(SemaphoreId),
    Up(SemaphoreId),
    WaitFor(ConditionId, Option<SemaphoreId>),
    Signal(ConditionId),
    Broadcast(ConditionId),
    Affinity(Vec<CpuId>),
    BeginExit,
    /// Makes the task of that number.
    Fork(usize),
    /// Goes back so often, or for ever.
    Again {
        to: usize,
        times: Option<u64>,
    },
}

/// Tasks that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kind {
    name: String,
    count: u64,
    nice: i32,
    /// `None`: as the first task.
    scheduling: Option<Scheduling>,
    is_thread: bool,
    memory_mb_per_s: u64,
    /// When they are forked, at the earliest.
    start: Ns,
    ops: Vec<Op>,
    timers: usize,
}

/// All of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    /// For people: what it is.
    label: String,
    path: String,
    kinds: Vec<Kind>,
    /// Parties of each.
    barriers: Vec<u64>,
    /// First count of each.
    semaphores: Vec<u64>,
    conditions: usize,
    /// Pipes.
    channels: usize,
    /// When it ends, even if tasks are not done.
    duration: Option<Ns>,
}

impl Workload for Arc<Script> {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let first = |ids: Vec<usize>| ids.first().copied().unwrap_or(0);
        let bases = Bases {
            barrier: first(self.barriers.iter().map(|&parties| world.add_barrier(parties)).collect()),
            semaphore: first(self.semaphores.iter().map(|&count| world.add_semaphore(count)).collect()),
            condition: first((0..self.conditions).map(|_| world.add_condition()).collect()),
            channel: first((0..self.channels).map(|_| world.add_pipe(MESSAGE)).collect()),
        };
        let shared = Rc::new((Arc::clone(self), bases));
        let mut children = Vec::new();
        for (number, kind) in self.kinds.iter().enumerate() {
            children.extend((0..kind.count).map(|_| (kind.start, child(&shared, number))));
        }
        match self.duration {
            None => Box::new(Main { children: children.into_iter().peekable(), is_prepared: false, at: 0 }),
            Some(duration) => {
                let children: Vec<Child> = children.into_iter().map(|(_, child)| child).collect();
                Box::new(Timed { duration, children: children.into_iter(), at: 0 })
            }
        }
    }

    fn check(&self, nr_cpus: usize) -> Result<(), Error> {
        for kind in &self.kinds {
            for op in &kind.ops {
                let Op::Affinity(cpus) = op else { continue };
                if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= nr_cpus) {
                    let (path, name) = (&self.path, &kind.name);
                    return Err(Error::Usage(format!(
                        "{path}: task {name}: there is no CPU {cpu}; this machine has CPUs 0 to {}",
                        nr_cpus - 1
                    )));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Script {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.label)
    }
}

/// What is in a file.
pub(super) fn load(file: &ScriptFile) -> Result<Arc<Script>, Error> {
    let path = &file.path;
    let bytes = std::fs::read(path).map_err(|cause| Error::File { path: path.clone(), cause })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        let expected = match file.format {
            Format::Tasks => "tasks in TOML",
            Format::RtApp => "an rt-app file in JSON",
            Format::Trace => "a file of `flsched record`, or what `perf script` prints",
        };
        Error::Usage(format!("{path}: it is not text; expected {expected}"))
    })?;
    let read = match file.format {
        Format::Tasks => tasks::read,
        Format::RtApp => rt_app::read,
        Format::Trace => trace::read,
    };
    read(&text, path).map(Arc::new)
}

/// From where on the world counts this script's.
struct Bases {
    barrier: BarrierId,
    semaphore: SemaphoreId,
    condition: ConditionId,
    channel: ChannelId,
}

fn child(shared: &Rc<(Arc<Script>, Bases)>, number: usize) -> Child {
    let kind = &shared.0.kinds[number];
    let actor = Actor {
        shared: Rc::clone(shared),
        kind: number,
        at: 0,
        rounds: vec![0; kind.ops.len()],
        timers: vec![None; kind.timers],
    };
    let footprint = Footprint { memory_mb_per_s: kind.memory_mb_per_s, ..Footprint::default() };
    Child {
        is_thread: kind.is_thread,
        nice: kind.nice,
        scheduling: kind.scheduling,
        footprint,
        ..Child::process(kind.name.clone(), actor)
    }
}

/// Forks each task when its time has come, and waits for all.
struct Main {
    children: Peekable<std::vec::IntoIter<(Ns, Child)>>,
    is_prepared: bool,
    at: u8,
}

impl Program for Main {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if self.at == 1 {
            match self.children.peek() {
                Some((start, _)) if *start > view.now => return Step::Sleep(start - view.now),
                Some((_, child)) if !child.is_thread && !self.is_prepared => {
                    self.is_prepared = true;
                    return Step::Rest(Detail::Prepare(Preparation::PlayersFork));
                }
                _ => {}
            }
            self.is_prepared = false;
            if let Some((_, child)) = self.children.next() {
                return Step::fork(child);
            }
        }
        self.at += 1;
        match self.at {
            1 => Step::Mark(Mark::Start),
            2 => Step::WaitChildren { at_most: 0 },
            3 => Step::Mark(Mark::Stop),
            _ => Step::Exit,
        }
    }
}

/// Ends the run at a given time, or when all are done.
struct Timed {
    duration: Ns,
    children: std::vec::IntoIter<Child>,
    at: u8,
}

impl Program for Timed {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if self.at == 1
            && let Some(child) = self.children.next()
        {
            return Step::fork(child);
        }
        self.at += 1;
        match self.at {
            1 => Step::Mark(Mark::Start),
            2 => Step::fork(Child::thread("clock", Clock { until: Some(view.now + self.duration) })),
            3 => Step::WaitChildren { at_most: 1 },
            4 => Step::Mark(Mark::Stop),
            _ => Step::Mark(Mark::EndRun),
        }
    }
}

struct Clock {
    until: Option<Ns>,
}

impl Program for Clock {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        self.until.take().map_or(Step::Mark(Mark::EndRun), Step::SleepUntil)
    }
}

/// A task that works off its list.
struct Actor {
    shared: Rc<(Arc<Script>, Bases)>,
    kind: usize,
    at: usize,
    /// By operation: how often it went back there.
    rounds: Vec<u64>,
    timers: Vec<Option<Ns>>,
}

impl Program for Actor {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        let shared = Rc::clone(&self.shared);
        let (script, bases) = &*shared;
        loop {
            let at = self.at;
            self.at += 1;
            return match script.kinds[self.kind].ops.get(at) {
                None => Step::Exit,
                Some(Op::Run(ns)) => Step::Run(*ns),
                Some(Op::Sleep(ns)) => Step::Sleep(*ns),
                Some(Op::Timer { timer, period, is_absolute }) => {
                    let last = self.timers[*timer].unwrap_or(view.now);
                    let due = last + period;
                    let is_missed = due < view.now && !is_absolute;
                    self.timers[*timer] = Some(if is_missed { view.now } else { due });
                    Step::SleepUntil(due)
                }
                Some(Op::Yield) => Step::Yield,
                Some(Op::YieldTo(number)) => Step::YieldTo(*number),
                Some(Op::Write(channel)) => Step::Write(bases.channel + channel),
                Some(Op::Read(channel)) => Step::Read(bases.channel + channel),
                Some(Op::DisableMigration) => Step::DisableMigration,
                Some(Op::EnableMigration) => Step::EnableMigration,
                Some(Op::Meet(barrier, wait)) => Step::Meet(bases.barrier + barrier, *wait),
                Some(Op::Down(semaphore)) => Step::Down(bases.semaphore + semaphore),
                Some(Op::Up(semaphore)) => Step::Up(bases.semaphore + semaphore),
                Some(Op::WaitFor(condition, mutex)) => {
                    Step::WaitFor(bases.condition + condition, mutex.map(|mutex| bases.semaphore + mutex))
                }
                Some(Op::Signal(condition)) => Step::Signal(bases.condition + condition),
                Some(Op::Broadcast(condition)) => Step::Broadcast(bases.condition + condition),
                Some(Op::Affinity(cpus)) => {
                    let mut mask = CpuMask::empty();
                    cpus.iter().for_each(|&cpu| mask.set(cpu, true));
                    Step::SetAffinity(Box::new(mask))
                }
                Some(Op::BeginExit) => Step::BeginExit,
                Some(Op::Fork(kind)) => Step::fork(child(&shared, *kind)),
                Some(Op::Again { to, times }) => {
                    self.rounds[at] += 1;
                    if times.is_none_or(|times| self.rounds[at] <= times) {
                        self.at = *to;
                    } else {
                        self.rounds[at] = 0;
                    }
                    continue;
                }
            };
        }
    }
}

/// Whole numbers of µs as ns, not beyond [`MOST_NS`].
fn ns_of_us(us: u64) -> Option<Ns> {
    us.checked_mul(1000).filter(|ns| *ns <= MOST_NS)
}
