//! The messages between host and guest on the control port, one JSON object a line.
//!
//! The command's own input and output never pass here: they have a port each.
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, Write};

/// Where process 1 finds its [`Assignment`]. If the file exists, the program *is* process 1.
pub const ASSIGNMENT_PATH: &str = "/flsched-guest.json";

/// Name of the port for [`GuestMessage`]s and [`HostMessage`]s.
pub const CONTROL_PORT: &str = "flsched.control";
/// Name of the port with the command's standard input.
pub const STDIN_PORT: &str = "flsched.stdin";
/// Name of the port with the command's standard output.
pub const STDOUT_PORT: &str = "flsched.stdout";
/// Name of the port with the command's standard error.
pub const STDERR_PORT: &str = "flsched.stderr";

/// What process 1 has to do; packed into the initramfs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Program and arguments. Empty: only report that the machine is up (the KVM probe).
    pub argv: Vec<OsString>,
    /// The command's whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The cgroup in which it runs.
    pub cgroup: Cgroup,
    /// Where the command runs; made if missing.
    ///
    /// Not a path, as serde takes only text for one.
    pub directory: OsString,
    /// The guest's host name.
    pub hostname: String,
}

/// Where in the tree of cgroups the command runs. The kernel's fair class spends time on every level with
/// a CPU controller; other classes do not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cgroup {
    /// As in a login session under systemd, which turns the CPU controller on for each level there
    /// (`Delegate=pids memory cpu` of `user@.service`, since systemd 248).
    #[default]
    Login,
    /// In the root, as on a machine without cgroups.
    Root,
}

/// How the command ended, or why it never began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// There is no such program.
    NotFound,
    /// The program is there but cannot be executed; the `errno`.
    NotExecutable(i32),
}

/// From process 1 to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub enum GuestMessage {
    /// The machine is up and prepared.
    Ready {
        /// `uname -r`.
        release: String,
        /// CPUs online.
        cpus: u32,
    },
    Started {
        /// Its process id in the guest.
        pid: i32,
    },
    /// The answer to [`HostMessage::Ping`].
    Pong,
    /// New lines of the kernel's log.
    KernelLog {
        /// `[seconds] text`.
        lines: Vec<String>,
    },
    /// The command is over and all its output handed to the ports.
    Exit {
        outcome: Outcome,
        /// Bytes written to [`STDOUT_PORT`] in all.
        stdout: u64,
        /// Bytes written to [`STDERR_PORT`] in all.
        stderr: u64,
    },
    /// Process 1 could not do its work.
    Fault { reason: String },
}

/// From the host to process 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum HostMessage {
    /// Answer, which shows the host that the machine runs.
    ///
    /// The host asks rather than the guest telling: an idle guest's clock runs ahead of real time
    /// where it counts instructions, so a guest cannot know when a second is over.
    Ping,
    /// Send this signal to the command's process group.
    Signal { number: i32 },
    /// Write into the kernel's log where each task is: the command takes too long.
    ShowTasks,
    /// The command's standard output has no reader any more: close the pipe, so that the command
    /// gets SIGPIPE as it would on the host.
    StdoutClosed,
    /// The same for standard error.
    StderrClosed,
    /// Everything has arrived: power off.
    PowerOff,
}

/// Writes one message as one line with one `write`, so that lines of several threads never mix.
pub fn send<W: Write>(mut port: W, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    port.write_all(&line)?;
    port.flush()
}

/// Reads the next message; `None` at the end of the stream.
pub fn receive<M: for<'de> Deserialize<'de>>(port: &mut impl BufRead) -> io::Result<Option<M>> {
    let mut line = Vec::new();
    if port.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn messages_survive_the_trip() {
        let sent = [
            GuestMessage::Ready { release: "6.18.15".into(), cpus: 4 },
            GuestMessage::KernelLog { lines: vec!["a \"quoted\"\nline".into()] },
            GuestMessage::Exit { outcome: Outcome::Signal(9), stdout: 1 << 40, stderr: 0 },
            GuestMessage::Exit { outcome: Outcome::NotFound, stdout: 0, stderr: 0 },
        ];
        let mut wire = Vec::new();
        for message in &sent {
            send(&mut wire, message).unwrap();
        }
        assert_eq!(wire.iter().filter(|&&byte| byte == b'\n').count(), sent.len());
        let mut wire = wire.as_slice();
        for message in sent {
            assert_eq!(receive::<GuestMessage>(&mut wire).unwrap(), Some(message));
        }
        assert_eq!(receive::<GuestMessage>(&mut wire).unwrap(), None);
    }

    #[test]
    fn an_assignment_may_hold_any_bytes() {
        let odd = OsString::from_vec(vec![b'a', 0xff, b'\n']);
        let sent = Assignment {
            argv: vec!["echo".into(), odd.clone()],
            env: vec![("X".into(), odd.clone())],
            cgroup: Cgroup::Login,
            directory: odd,
            hostname: "flsched".into(),
        };
        let text = serde_json::to_vec(&sent).unwrap();
        assert_eq!(serde_json::from_slice::<Assignment>(&text).unwrap(), sent);
    }
}
