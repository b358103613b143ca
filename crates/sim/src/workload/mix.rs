//! Tasks that are written down step by step, as in a scenario file.
use super::{Channel, ChannelId, Child, Program, Step, View, Workload, World};
use crate::core::CpuMask;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What a task does; times in µs, channels by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Act {
    /// Computes.
    Run(u64),
    /// Sleeps.
    Sleep(u64),
    /// `sched_yield()`.
    Yield,
    /// Sends a message, or waits for room.
    Write(usize),
    /// Receives one, or waits for it.
    Read(usize),
    /// May run on this CPU only, from here on.
    Pin(usize),
    /// Must not be moved from here on.
    Stay,
    /// May be moved again.
    Move,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPlan {
    /// When it is forked, in µs from the beginning.
    #[serde(default)]
    pub start_us: u64,
    /// From -20 to 19.
    #[serde(default)]
    pub nice: i32,
    /// A thread of the first process, not a process.
    #[serde(default)]
    pub is_thread: bool,
    /// Where it may run; empty: everywhere.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// How often it does all its steps.
    #[serde(default = "once")]
    pub times: u64,
    /// In this order.
    pub steps: Vec<Act>,
}

fn once() -> u64 {
    1
}

/// The tasks of a scenario, forked by a first one in the order of their numbers, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix(pub Arc<Vec<TaskPlan>>);

impl fmt::Display for Mix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "mix of {} tasks", self.0.len())
    }
}

impl Act {
    /// The channel that it uses.
    pub fn channel(self) -> Option<usize> {
        match self {
            Self::Write(channel) | Self::Read(channel) => Some(channel),
            _ => None,
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(us) => write!(out, "run {us}"),
            Self::Sleep(us) => write!(out, "sleep {us}"),
            Self::Yield => out.write_str("yield"),
            Self::Write(channel) => write!(out, "write {channel}"),
            Self::Read(channel) => write!(out, "read {channel}"),
            Self::Pin(cpu) => write!(out, "pin {cpu}"),
            Self::Stay => out.write_str("stay"),
            Self::Move => out.write_str("move"),
        }
    }
}

impl From<Act> for String {
    fn from(act: Act) -> Self {
        act.to_string()
    }
}

/// The most that a time in µs, or a channel's number, may be.
const MOST_US: u64 = 1_000_000_000;
const MOST_CHANNELS: u64 = 100_000;

impl TryFrom<String> for Act {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let number = |word: &str, most: u64| {
            let number = word.parse().ok().filter(|number| *number <= most);
            number.ok_or_else(|| format!("{text}: {word} is not a whole number up to {most}"))
        };
        Ok(match text.split(' ').collect::<Vec<_>>()[..] {
            ["run", us] => Self::Run(number(us, MOST_US)?),
            ["sleep", us] => Self::Sleep(number(us, MOST_US)?),
            ["yield"] => Self::Yield,
            ["write", channel] => Self::Write(number(channel, MOST_CHANNELS)? as usize),
            ["read", channel] => Self::Read(number(channel, MOST_CHANNELS)? as usize),
            ["pin", cpu] => Self::Pin(number(cpu, flsched_machine::MAX_CPUS as u64 - 1)? as usize),
            ["stay"] => Self::Stay,
            ["move"] => Self::Move,
            _ => {
                return Err(format!(
                    "{text} is not one of: run US, sleep US, yield, write CHANNEL, read CHANNEL, pin CPU, stay, move"
                ));
            }
        })
    }
}

impl Workload for Mix {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let acts = self.0.iter().flat_map(|task| &task.steps);
        let count = acts.filter_map(|act| act.channel()).max().map_or(0, |most| most + 1);
        let channels = (0..count).map(|_| world.add(Channel::pipe(100))).collect();
        Box::new(Main { mix: self.clone(), channels: Arc::new(channels), forked: 0, phase: Phase::Start })
    }
}

enum Phase {
    Start,
    Fork,
    Wait,
    Stop,
    Exit,
}

struct Main {
    mix: Mix,
    channels: Arc<Vec<ChannelId>>,
    forked: usize,
    phase: Phase,
}

impl Program for Main {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        match self.phase {
            Phase::Start => {
                self.phase = Phase::Fork;
                Step::Start
            }
            Phase::Fork => match self.mix.0.get(self.forked) {
                Some(plan) if plan.start_us * 1000 > view.now => Step::Sleep(plan.start_us * 1000 - view.now),
                Some(plan) => {
                    self.forked += 1;
                    let mut mask = CpuMask::empty();
                    plan.cpus.iter().for_each(|&cpu| mask.set(cpu, true));
                    let program = Member {
                        mix: self.mix.clone(),
                        channels: Arc::clone(&self.channels),
                        task: self.forked - 1,
                        mask: (!plan.cpus.is_empty()).then(|| Box::new(mask)),
                        step: 0,
                        done: 0,
                    };
                    Step::Fork(Child {
                        is_thread: plan.is_thread,
                        nice: plan.nice,
                        ..Child::process(format!("task-{}", self.forked), program)
                    })
                }
                None => {
                    self.phase = Phase::Wait;
                    self.next(view)
                }
            },
            Phase::Wait => {
                self.phase = Phase::Stop;
                Step::WaitChildren { at_most: 0 }
            }
            Phase::Stop => {
                self.phase = Phase::Exit;
                Step::Stop
            }
            Phase::Exit => Step::Exit,
        }
    }
}

struct Member {
    mix: Mix,
    channels: Arc<Vec<ChannelId>>,
    task: usize,
    mask: Option<Box<CpuMask>>,
    step: usize,
    done: u64,
}

impl Program for Member {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if let Some(mask) = self.mask.take() {
            return Step::SetAffinity(mask);
        }
        let plan = &self.mix.0[self.task];
        if self.done == plan.times || plan.steps.is_empty() {
            return Step::Exit;
        }
        let act = plan.steps[self.step];
        self.step += 1;
        if self.step == plan.steps.len() {
            self.step = 0;
            self.done += 1;
        }
        match act {
            Act::Run(us) => Step::Run(us * 1000),
            Act::Sleep(us) => Step::Sleep(us * 1000),
            Act::Yield => Step::Yield,
            Act::Write(channel) => Step::Write(self.channels[channel]),
            Act::Read(channel) => Step::Read(self.channels[channel]),
            Act::Pin(cpu) => {
                let mut mask = CpuMask::empty();
                mask.set(cpu, true);
                Step::SetAffinity(Box::new(mask))
            }
            Act::Stay => Step::DisableMigration,
            Act::Move => Step::EnableMigration,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["run 7", "sleep 1", "yield", "write 0", "read 3", "pin 1", "stay", "move"] {
            assert_eq!(Act::try_from(text.to_owned()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for bad in
            ["", "run", "run x", "run -1", "run 1 2", "jump", "read 99999999", "run 18446744073709551615"]
        {
            assert!(Act::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
