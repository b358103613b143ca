//! hackbench of rt-tests: every group has 20 senders and 20 receivers, each sender writes LOOPS
//! messages to each receiver. It measures wake-ups and context switches.
use super::parameters::Parameters;
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What senders and receivers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// `fork`.
    Process,
    /// POSIX threads.
    Thread,
}

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Pipes.
    Pipe,
    /// Unix sockets.
    Socket,
}

/// `hackbench:{process,thread}-{pipe,socket}:GROUPS:LOOPS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hackbench {
    /// Processes or threads.
    pub task: Task,
    /// Pipes or sockets.
    pub channel: Channel,
    /// Groups of 40 tasks.
    pub groups: u64,
    /// Messages from each sender to each receiver.
    pub loops: u64,
}

/// How it is named.
pub(super) const FORM: &str = "hackbench:{process,thread}-{pipe,socket}:GROUPS:LOOPS";

/// The programs take some tenths of a second on the parallel clock. With fewer loops, one run of EEVDF differs
/// from the next by a quarter.
const LOOPS: u64 = 300;
/// For models.
const MODEL_LOOPS: u64 = 100;

const MODES: [(&str, (Task, Channel)); 4] = [
    ("process-pipe", (Task::Process, Channel::Pipe)),
    ("process-socket", (Task::Process, Channel::Socket)),
    ("thread-pipe", (Task::Thread, Channel::Pipe)),
    ("thread-socket", (Task::Thread, Channel::Socket)),
];

impl Hackbench {
    /// The defaults are `process-pipe`, and for programs a group for each CPU.
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        let (task, channel) = words.choice("hackbench mode", &MODES)?;
        let groups = words.default(|cpus| cpus, 4);
        let loops = words.default(|_| LOOPS, MODEL_LOOPS);
        Ok(Self {
            task,
            channel,
            groups: words.number("GROUPS", groups, 1..=10_000)?,
            loops: words.number("LOOPS", loops, 1..=100_000_000)?,
        })
    }
}

impl fmt::Display for Hackbench {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_mine = |mode: &&(&str, (Task, Channel))| mode.1 == (self.task, self.channel);
        let mode = MODES.iter().find(is_mine).map_or("", |(name, _)| name);
        write!(out, "hackbench:{mode}:{}:{}", self.groups, self.loops)
    }
}
