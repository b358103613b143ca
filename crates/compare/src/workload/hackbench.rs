//! hackbench of rt-tests: every group has 20 senders and 20 receivers, each sender writes LOOPS
//! messages to each receiver. It measures wake-ups and context switches.
use super::parameters::Parameters;
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What carries out a sender's and a receiver's work.
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
pub const FORM: &str = "hackbench:{process,thread}-{pipe,socket}:GROUPS:LOOPS";

/// With fewer, one run of EEVDF differs from the next one by a quarter.
const DEFAULT_LOOPS: u64 = 300;

const MODES: [(&str, Task, Channel); 4] = [
    ("process-pipe", Task::Process, Channel::Pipe),
    ("process-socket", Task::Process, Channel::Socket),
    ("thread-pipe", Task::Thread, Channel::Pipe),
    ("thread-socket", Task::Thread, Channel::Socket),
];

impl Hackbench {
    /// Reads what stands after `hackbench:`; what is left out is `process-pipe`, a group for each CPU, and
    /// loops that take some tenths of a second on the parallel clock.
    pub(super) fn parse(parameters: &str, cpus: u64) -> Result<Self, UsageError> {
        let mut parameters = Parameters::new(FORM, parameters);
        let mode = parameters.word().unwrap_or("process-pipe");
        let Some((_, task, channel)) = MODES.into_iter().find(|(name, ..)| *name == mode) else {
            let valid = MODES.map(|(name, ..)| name.to_string());
            return Err(UsageError::unknown("hackbench mode", mode, &valid));
        };
        let groups = parameters.number("GROUPS", cpus, 1..=10_000)?;
        let loops = parameters.number("LOOPS", DEFAULT_LOOPS, 1..=100_000_000)?;
        parameters.end()?;
        Ok(Self { task, channel, groups, loops })
    }

    /// The command line. Processes and sockets are what hackbench does when told nothing.
    pub(super) fn argv(&self) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec!["hackbench".into()];
        if self.task == Task::Thread {
            argv.push("--threads".into());
        }
        if self.channel == Channel::Pipe {
            argv.push("--pipe".into());
        }
        argv.extend(["--groups".into(), self.groups.to_string().into()]);
        argv.extend(["--loops".into(), self.loops.to_string().into()]);
        argv
    }
}

impl fmt::Display for Hackbench {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = MODES
            .into_iter()
            .find(|(_, task, channel)| *task == self.task && *channel == self.channel)
            .map_or("", |(name, ..)| name);
        write!(out, "hackbench:{mode}:{}:{}", self.groups, self.loops)
    }
}

/// Where it is, or how to get it.
pub(super) fn program() -> Result<PathBuf, UsageError> {
    which::which("hackbench").map_err(|_| {
        UsageError("hackbench is not in PATH; on Debian or Ubuntu: apt-get install rt-tests".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_fill_what_is_left_out() {
        let full = Hackbench::parse("process-pipe:4:300", 9).unwrap();
        assert_eq!(Hackbench::parse("", 4).unwrap(), full);
        assert_eq!(Hackbench::parse("process-pipe", 4).unwrap(), full);
        assert_eq!(Hackbench::parse("process-pipe:4", 9).unwrap(), full);
        assert_eq!(Hackbench::parse("", 64).unwrap().groups, 64);
    }

    #[test]
    fn command_lines() {
        let line = |text| {
            let argv = Hackbench::parse(text, 4).unwrap().argv();
            argv.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(line("process-pipe:4:100"), "hackbench --pipe --groups 4 --loops 100");
        assert_eq!(line("thread-socket:2:9"), "hackbench --threads --groups 2 --loops 9");
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text| Hackbench::parse(text, 4).unwrap_err().to_string();
        assert!(error("proces-pipe").contains("did you mean `process-pipe`"));
        assert!(error("process-pipe:0").contains("GROUPS: `0` is not a whole number from 1"));
        assert!(error("process-pipe:4:x").contains("LOOPS: `x`"));
        assert!(error("process-pipe:4:1:1").contains("too many"));
    }
}
