//! What the kernel complains about.
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

/// The kernel's log, from the opening on.
pub struct KernelLog(File);

/// A complaint of the kernel.
pub enum Complaint {
    /// It has ended the scheduler by itself.
    Ejected(String),
    Other(String),
}

impl KernelLog {
    pub fn open() -> std::io::Result<Self> {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").map(Self)
    }

    /// What was written since the last call.
    pub fn complaints(&mut self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let mut record = [0; 8192];
        // Each read returns one record; EPIPE: some were overwritten before they were read.
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return complaints,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]).into_owned();
                    let message = text.split_once(';').map_or(text.as_str(), |(_, message)| message);
                    complaints.extend(message.lines().next().and_then(complaint));
                }
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => return complaints,
            }
        }
    }
}

fn complaint(line: &str) -> Option<Complaint> {
    const WORDS: [&str; 8] = [
        "WARNING:",
        "BUG:",
        "Oops",
        "detected stalls",
        "detected expedited stalls",
        "self-detected stall",
        "blocked for more than",
        "soft lockup",
    ];
    // Any end of a scheduler counts, except for those that its user or CPU hotplug caused.
    if line.contains("disabled (") && !line.contains("disabled (unregistered from ") {
        return Some(Complaint::Ejected(line.to_owned()));
    }
    WORDS.iter().any(|word| line.contains(word)).then(|| Complaint::Other(line.to_owned()))
}
