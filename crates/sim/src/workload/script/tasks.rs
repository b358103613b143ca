//! Tasks with what they do, in TOML: `tasks:FILE`, and the same in scenarios.
//!
//! ```toml
//! jobs = 8                       # at most so many tasks work at a time; without: all
//!
//! [barriers.meet]
//! parties = 4                    # tasks that meet there
//! wait = "yield"                 # spin, yield or futex
//!
//! [[task]]
//! name = "worker"                # task-1, task-2, … if left out
//! count = 4                      # 1 if left out
//! start_us = 500                 # when it is forked: 0 if left out
//! nice = 0
//! is_thread = false              # a thread of the first process
//! policy = "batch"               # how it is scheduled: see [`PolicyPlan`]
//! cpus = [0, 1]                  # all if left out or empty
//! exit_us = 100                  # the kernel's work for its end: 0 if left out
//! needs = ["setup"]              # begins when these have ended
//! rounds = 10                    # how often it does its steps: 1 if left out
//! steps = [{ run_us = 100 }, { barrier = "meet" }, { sleep_us = 50 }, { yields = 3 }]
//! ```
//!
//! Further steps: see [`Act`].
use super::{Kind, MOST_NS, Op, Script, ns_of_us};
use crate::Error;
use crate::core::{CpuId, Scheduling};
use crate::workload::Wait;
use flsched_machine::MAX_CPUS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// So many work at a time; `None`: all.
    pub jobs: Option<u64>,
    #[serde(default)]
    pub barriers: BTreeMap<String, BarrierPlan>,
    /// In the order in which they are forked.
    #[serde(rename = "task")]
    pub tasks: Vec<TaskPlan>,
}

/// Where tasks wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarrierPlan {
    /// How many tasks meet there.
    pub parties: u64,
    /// How they wait: spin, yield or futex.
    pub wait: String,
}

/// A task, or several that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPlan {
    /// `None`: `task-` and its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// When it is forked, in µs from the beginning.
    #[serde(default)]
    pub start_us: u64,
    /// From -20 to 19.
    #[serde(default)]
    pub nice: i32,
    /// How it is scheduled; `None`: as the first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyPlan>,
    /// A thread of the first process, not a process.
    #[serde(default)]
    pub is_thread: bool,
    /// Where it may run; empty: everywhere.
    #[serde(default)]
    pub cpus: Vec<CpuId>,
    /// The set of CPUs that it is in, by name; scenarios have such sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpuset: Option<String>,
    /// The kernel's work for its end, in µs, while it counts as exiting.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exit_us: u64,
    /// Begins when these have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What it reads from memory, and writes there, in a second of its computing, in MB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_mb_per_s: u64,
    /// How often it does all its steps.
    #[serde(default = "one")]
    pub rounds: u64,
    /// In this order.
    pub steps: Vec<Act>,
}

/// How a task is scheduled, as `sched_setscheduler()` and `sched_setattr()` have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyPlan {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` with this priority, 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` with this priority, 1 to 99.
    Rr(u8),
    /// `SCHED_DEADLINE`.
    Deadline(BudgetPlan),
}

/// What a task of `SCHED_DEADLINE` may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetPlan {
    /// So long in each period, in µs.
    pub runtime_us: u64,
    /// The period, in µs.
    pub period_us: u64,
}

impl PolicyPlan {
    /// Whether it is above the classes of ordinary tasks.
    pub fn is_above(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::Rr(_) | Self::Deadline(_))
    }

    pub(crate) fn scheduling(self) -> Scheduling {
        match self {
            Self::Other => Scheduling::Normal,
            Self::Batch => Scheduling::Batch,
            Self::Idle => Scheduling::Idle,
            Self::Fifo(priority) => Scheduling::Fifo(priority),
            Self::Rr(priority) => Scheduling::RoundRobin(priority),
            Self::Deadline(BudgetPlan { runtime_us, period_us }) => {
                Scheduling::Deadline { runtime: runtime_us * 1000, period: period_us * 1000 }
            }
        }
    }

    /// Checks that its form alone does not imply.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Self::Fifo(priority) | Self::Rr(priority) if !(1..=99).contains(&priority) => {
                Err(format!("policy: priority {priority} is not from 1 to 99"))
            }
            Self::Deadline(BudgetPlan { runtime_us, period_us })
                if runtime_us == 0 || runtime_us > period_us || period_us > MOST_PERIOD_US =>
            {
                Err(format!(
                    "policy: of a deadline 0 < runtime_us <= period_us <= {MOST_PERIOD_US}, not {runtime_us} and \
                     {period_us}"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// What a task does: a step, as it is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Computes, in µs of a CPU at full speed.
    RunUs(u64),
    /// Sleeps, in µs.
    SleepUs(u64),
    /// `sched_yield()`, this number of times.
    Yields(u64),
    /// `yield_to()`, as KVM calls it for a virtual CPU: the CPU is to go to the first task of this name.
    YieldTo(String),
    /// Sends a message into the pipe of this number, or waits for room.
    Write(usize),
    /// Receives one, or waits for it.
    Read(usize),
    /// May run on this CPU only, from here on.
    Pin(CpuId),
    /// Must not be moved from here on.
    Stay,
    /// May be moved again.
    Move,
    /// Waits at the barrier of this name.
    Barrier(String),
    /// Lets one task that waits for this name go on, now or later.
    Wake(String),
    Wait(String),
}

impl Act {
    /// The pipe that it uses.
    pub fn channel(&self) -> Option<usize> {
        match self {
            Self::Write(channel) | Self::Read(channel) => Some(*channel),
            _ => None,
        }
    }
}

impl Default for TaskPlan {
    /// One task that does nothing, once.
    fn default() -> Self {
        Self {
            name: None,
            count: 1,
            start_us: 0,
            nice: 0,
            policy: None,
            is_thread: false,
            cpus: Vec::new(),
            cpuset: None,
            exit_us: 0,
            needs: Vec::new(),
            memory_mb_per_s: 0,
            rounds: 1,
            steps: Vec::new(),
        }
    }
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(count: &u64) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Of a task, in MB/s.
const MOST_MEMORY: u64 = 1_000_000;
/// The longest period of a deadline: `sysctl_sched_dl_period_max`.
const MOST_PERIOD_US: u64 = 1 << 22;
/// Tasks of a file.
const MOST_TASKS: u64 = 1_000_000;
/// Numbers of pipes in a file.
const MOST_CHANNELS: usize = 100_000;

/// Reads and checks the file's text; `path` is for messages.
pub(super) fn read(text: &str, path: &str) -> Result<Script, Error> {
    let wrong = |what: String| Error::Usage(format!("{path}: {what}"));
    let file: Tasks = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if file.tasks.is_empty() {
        return Err(wrong("at least one [[task]] is needed".into()));
    }
    file.check().map_err(wrong)?;
    if let Some(task) = file.tasks.iter().find(|task| task.cpuset.is_some()) {
        let name = task.name.as_deref().unwrap_or("without a name");
        return Err(wrong(format!("task {name}: cpuset: only scenarios have cpusets; use cpus")));
    }
    Ok(file.script(format!("tasks:{path}"), path))
}

impl Tasks {
    /// How many there are of all kinds.
    pub fn count(&self) -> u64 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.count))
    }

    /// Ready to run; it has been checked.
    pub(crate) fn script(&self, label: String, path: &str) -> Script {
        let tasks = &self.tasks;
        let named = |name: &str| tasks.iter().position(|task| task.name.as_deref() == Some(name));
        let mut names = Names::default();
        // One semaphore each for "has ended", then the slots, then those that steps name.
        names.semaphores.extend(tasks.iter().map(|_| 0));
        let slots = self.jobs.map(|jobs| {
            names.semaphores.push(jobs);
            names.semaphores.len() - 1
        });
        let barriers: Vec<&String> = self.barriers.keys().collect();
        let mut kinds = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let (mut ops, mut exit) = (Vec::new(), Vec::new());
            if !task.cpus.is_empty() {
                ops.push(Op::Affinity(task.cpus.clone()));
            }
            for needed in task.needs.iter().filter_map(|name| named(name)) {
                ops.extend((0..tasks[needed].count).map(|_| Op::Down(needed)));
            }
            ops.extend(slots.map(Op::Down));
            let from = ops.len();
            for step in &task.steps {
                match step {
                    Act::RunUs(us) => ops.push(Op::Run(us * 1000)),
                    Act::SleepUs(us) => ops.push(Op::Sleep(us * 1000)),
                    Act::Yields(count) => {
                        ops.push(Op::Yield);
                        ops.push(Op::Again { to: ops.len() - 1, times: Some(count - 1) });
                    }
                    Act::YieldTo(name) => {
                        let before = named(name).map_or(&tasks[..0], |kind| &tasks[..kind]);
                        ops.push(Op::YieldTo(before.iter().map(|task| task.count as usize).sum()));
                    }
                    Act::Write(channel) => ops.push(Op::Write(*channel)),
                    Act::Read(channel) => ops.push(Op::Read(*channel)),
                    Act::Pin(cpu) => ops.push(Op::Affinity(vec![*cpu])),
                    Act::Stay => ops.push(Op::DisableMigration),
                    Act::Move => ops.push(Op::EnableMigration),
                    Act::Barrier(name) => {
                        let barrier = barriers.iter().position(|known| *known == name).unwrap_or(0);
                        let wait = Wait::named(&self.barriers[name].wait).unwrap_or(Wait::YIELD);
                        ops.push(Op::Meet(barrier, wait));
                    }
                    Act::Wake(name) => ops.push(Op::Up(names.semaphore(name))),
                    Act::Wait(name) => ops.push(Op::Down(names.semaphore(name))),
                }
            }
            if ops.len() > from {
                ops.push(Op::Again { to: from, times: Some(task.rounds - 1) });
            }
            if task.exit_us > 0 {
                exit.extend([Op::BeginExit, Op::Run(task.exit_us * 1000)]);
            }
            ops.extend(slots.map(Op::Up));
            let dependants = tasks
                .iter()
                .filter(|other| task.name.as_ref().is_some_and(|name| other.needs.contains(name)));
            ops.extend((0..dependants.map(|other| other.count).sum()).map(|_| Op::Up(number)));
            ops.extend(exit);
            kinds.push(Kind {
                name: task.name.clone().unwrap_or_else(|| format!("task-{}", number + 1)),
                count: task.count,
                nice: task.nice,
                scheduling: task.policy.map(PolicyPlan::scheduling),
                is_thread: task.is_thread,
                memory_mb_per_s: task.memory_mb_per_s,
                start: task.start_us * 1000,
                ops,
                timers: 0,
            });
        }
        let channels = tasks.iter().flat_map(|task| &task.steps).filter_map(Act::channel).max();
        Script {
            label,
            path: path.to_owned(),
            kinds,
            barriers: self.barriers.values().map(|barrier| barrier.parties).collect(),
            semaphores: names.semaphores,
            conditions: 0,
            channels: channels.map_or(0, |most| most + 1),
            duration: None,
        }
    }

    /// Checks that the file's form alone does not imply.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { tasks, .. } = self;
        if self.jobs == Some(0) {
            return Err("jobs: at least 1".into());
        }
        if self.count() > MOST_TASKS {
            return Err(format!("more than {MOST_TASKS} tasks"));
        }
        for (number, task) in tasks.iter().enumerate() {
            let name = task.name.clone().unwrap_or_else(|| (number + 1).to_string());
            let wrong = |what: String| Err(format!("task {name}: {what}"));
            if task.name.is_some() && tasks[..number].iter().any(|other| other.name == task.name) {
                return wrong("there are two of that name".into());
            }
            if task.count == 0 || task.rounds == 0 {
                return wrong("count and rounds are at least 1".into());
            }
            if !(-20..=19).contains(&task.nice) {
                return wrong(format!("nice: {} is not from -20 to 19", task.nice));
            }
            if let Some(Err(what)) = task.policy.map(PolicyPlan::check) {
                return wrong(what);
            }
            if ns_of_us(task.exit_us).is_none() {
                return wrong(format!("exit_us: {} is more than {}", task.exit_us, MOST_NS / 1000));
            }
            if task.memory_mb_per_s > MOST_MEMORY {
                return wrong(format!(
                    "memory_mb_per_s: {} is not from 0 to {MOST_MEMORY}",
                    task.memory_mb_per_s
                ));
            }
            if ns_of_us(task.start_us).is_none() {
                return wrong(format!("start_us: {} is more than {}", task.start_us, MOST_NS / 1000));
            }
            if number > 0 && tasks[number - 1].start_us > task.start_us {
                return wrong("starts before the task above it; sort them by start_us".into());
            }
            let is_there = |need: &String| tasks.iter().any(|it| it.name.as_ref() == Some(need));
            if let Some(needed) = task.needs.iter().find(|need| !is_there(need)) {
                return wrong(format!("needs: there is no task {needed}"));
            }
            let mut life = 0u64;
            for step in &task.steps {
                let ns = match step {
                    Act::RunUs(us) | Act::SleepUs(us) => ns_of_us(*us),
                    Act::Yields(0) => return wrong("yields: at least 1".into()),
                    Act::YieldTo(name) if !is_there(name) => {
                        return wrong(format!("yield_to: there is no task {name}"));
                    }
                    Act::Write(channel) | Act::Read(channel) if *channel > MOST_CHANNELS => {
                        return wrong(format!("{channel} is not the number of a pipe, 0 to {MOST_CHANNELS}"));
                    }
                    Act::Pin(cpu) if *cpu >= MAX_CPUS => {
                        return wrong(format!("pin: there is no CPU {cpu}; CPUs are 0 to {}", MAX_CPUS - 1));
                    }
                    Act::Barrier(name) if !self.barriers.contains_key(name) => {
                        return wrong(format!("barrier: there is no [barriers.{name}]"));
                    }
                    _ => Some(0),
                };
                life = ns.and_then(|ns| life.checked_add(ns)).unwrap_or(u64::MAX);
            }
            if life.checked_mul(task.rounds).is_none_or(|ns| ns > MOST_NS) {
                return wrong(format!("its times add up to more than {} s", MOST_NS / 1_000_000_000));
            }
        }
        for (name, barrier) in &self.barriers {
            self.check_barrier(name, barrier)?;
        }
        match cycle(tasks) {
            Some(cycle) => Err(format!("needs go in a circle: {}", cycle.join(" → "))),
            None => Ok(()),
        }
    }

    fn check_barrier(&self, name: &str, barrier: &BarrierPlan) -> Result<(), String> {
        let meets = |step: &Act| matches!(step, Act::Barrier(other) if other == name);
        let tasks: u64 =
            self.tasks.iter().filter(|task| task.steps.iter().any(meets)).map(|task| task.count).sum();
        if barrier.parties == 0 || barrier.parties > tasks {
            return Err(format!(
                "barrier {name}: {} parties, and {tasks} tasks that meet there: no task would ever pass",
                barrier.parties
            ));
        }
        if self.jobs.is_some_and(|jobs| jobs < barrier.parties) {
            return Err(format!(
                "barrier {name}: {} parties, and fewer jobs: no task would ever pass",
                barrier.parties
            ));
        }
        if Wait::named(&barrier.wait).is_none() {
            return Err(format!(
                "barrier {name}: wait: {} is none of {}",
                barrier.wait,
                Wait::NAMES.join(", ")
            ));
        }
        Ok(())
    }
}

/// Numbers for names in the order of their appearance.
#[derive(Default)]
struct Names {
    semaphores: Vec<u64>,
    known: BTreeMap<String, usize>,
}

impl Names {
    fn semaphore(&mut self, name: &str) -> usize {
        *self.known.entry(name.to_owned()).or_insert_with(|| {
            self.semaphores.push(0);
            self.semaphores.len() - 1
        })
    }
}

/// Tasks that need each other, the first one again at the end.
fn cycle(tasks: &[TaskPlan]) -> Option<Vec<String>> {
    let mut is_done = vec![false; tasks.len()];
    // What cannot be taken away, task by task whose needs are met, is on a circle or behind one.
    while let Some(next) = (0..tasks.len()).find(|&at| {
        let met = |need: &String| {
            tasks.iter().zip(&is_done).any(|(task, done)| *done && task.name.as_ref() == Some(need))
        };
        !is_done[at] && tasks[at].needs.iter().all(met)
    }) {
        is_done[next] = true;
    }
    let left = |name: &str| {
        tasks.iter().position(|task| task.name.as_deref() == Some(name)).filter(|&at| !is_done[at])
    };
    let mut path = vec![is_done.iter().position(|done| !done)?];
    loop {
        let next = tasks[*path.last()?].needs.iter().find_map(|need| left(need))?;
        if let Some(from) = path.iter().position(|at| *at == next) {
            path.push(next);
            return Some(path[from..].iter().map(|&at| tasks[at].name.clone().unwrap_or_default()).collect());
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, needed: &str) {
        let error = read(text, "x.toml").unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(needed), "{error}");
    }

    #[test]
    fn reads_all_steps() {
        let text = "jobs = 2\n[barriers.b]\nparties = 2\nwait = \"futex\"\n[[task]]\nname = \"a\"\ncount = 2\n\
                    rounds = 3\nsteps = [{ run_us = 5 }, { sleep_us = 1 }, { yields = 2 }, { barrier = \"b\" }]\n\
                    [[task]]\nname = \"c\"\nneeds = [\"a\"]\nsteps = [{ wake = \"x\" }, { wait = \"x\" }]\n";
        let script = read(text, "x.toml").unwrap();
        assert_eq!(script.barriers, [2]);
        assert_eq!(script.kinds[1].ops[..2], [Op::Down(0), Op::Down(0)], "two instances are needed");
    }

    #[test]
    fn all_steps_are_written_as_they_are_read() {
        let text = "steps = [{ run_us = 7 }, { sleep_us = 1 }, { yields = 2 }, { write = 0 }, { read = 3 }, { pin = 1 }, \
                    \"stay\", \"move\", { barrier = \"b\" }, { wake = \"x\" }, { wait = \"x\" }]";
        let task: TaskPlan = toml::from_str(text).unwrap();
        assert_eq!(task.steps.len(), 11);
        assert!(toml_edit::ser::to_string(&task).unwrap().contains(text), "one line");
    }

    #[test]
    fn refuses_what_could_never_end() {
        refused(
            "[[task]]\nname = \"a\"\nneeds = [\"b\"]\nsteps = []\n[[task]]\nname = \"b\"\nneeds = [\"c\"]\n\
             steps = []\n[[task]]\nname = \"c\"\nneeds = [\"b\"]\nsteps = []\n",
            "needs go in a circle: b → c → b",
        );
        refused(
            "[barriers.b]\nparties = 3\nwait = \"spin\"\n[[task]]\nname = \"a\"\ncount = 2\n\
             steps = [{ barrier = \"b\" }]\n",
            "barrier b: 3 parties, and 2 tasks",
        );
        refused(
            "jobs = 1\n[barriers.b]\nparties = 2\nwait = \"spin\"\n[[task]]\nname = \"a\"\ncount = 2\n\
             steps = [{ barrier = \"b\" }]\n",
            "barrier b: 2 parties, and fewer jobs",
        );
    }

    #[test]
    fn names_line_and_field() {
        refused("[[task]]\nname = \"a\"\nsteps = [{ run_ms = 3 }]\n", "line 3");
        refused("[[task]]\nname = \"a\"\nsteps = [{ run_us = 3 }]\nnicee = 4\n", "unknown field `nicee`");
        refused("[[task]]\nname = \"a\"\nneeds = [\"z\"]\nsteps = []\n", "there is no task z");
        refused(
            "[[task]]\nname = \"a\"\nrounds = 2\nsteps = [{ run_us = 9223372036854775807 }]\n",
            "add up to more",
        );
        refused("[[task]]\nsteps = [{ write = 99999999 }]\n", "task 1: 99999999 is not the number of a pipe");
        refused("[[task]]\nsteps = [{ run_us = -1 }]\n", "line 2");
        refused("[[task]]\nname = \"a\"\nnice = 20\nsteps = []\n", "nice: 20");
        refused("[[task]]\nmemory_mb_per_s = 1000001\nsteps = []\n", "task 1: memory_mb_per_s: 1000001");
    }
}
