//! The kernel's log, sent to the host as it grows.
//!
//! The log is not sent over the serial console. There each byte is an exit from emulated code, so the log would cost
//! more than the events that it reports.
use crate::protocol::{self, GuestMessage};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The highest level of records that are sent: all except debug messages.
const LEVEL: u32 = 6;

/// The kernel's longest record, in bytes.
const RECORD: usize = 8 << 10;

/// The log with a read position.
pub struct KernelLog(File);

impl KernelLog {
    /// Opens the log at its beginning.
    pub fn open() -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?))
    }

    /// Sends the new records.
    pub fn forward(&mut self, control: &File) -> io::Result<()> {
        let lines = self.new_lines()?;
        if lines.is_empty() { Ok(()) } else { protocol::send(control, &GuestMessage::KernelLog { lines }) }
    }

    fn new_lines(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut record = [0; RECORD];
        loop {
            match self.0.read(&mut record) {
                Ok(0) => return Ok(lines),
                Ok(bytes) => lines.extend(readable(&String::from_utf8_lossy(&record[..bytes]))),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(lines),
                    // Records were overwritten before they were read. The next read continues with
                    // the oldest one left.
                    Some(libc::EPIPE) => lines.push("(older lines are lost)".into()),
                    Some(libc::EINTR) => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

impl AsFd for KernelLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Converts `6,339,5140900,-;text\n DEVICE=…` to `[5.140900] text`; `None`: a debug message, or no record.
fn readable(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let mut fields = head.split(',');
    let level: u32 = fields.next()?.parse().ok()?;
    let micros: u64 = fields.nth(1)?.parse().ok()?;
    // The lower three bits are the level; the others are the facility.
    if level & 7 > LEVEL {
        return None;
    }
    let text = text.lines().next().unwrap_or_default();
    Some(format!("[{:5}.{:06}] {text}", micros / 1_000_000, micros % 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn records_become_lines() {
        let record = "6,339,5140900,-;sched_ext: BPF scheduler \"x\" enabled\n SUBSYSTEM=cpu\n";
        assert_eq!(readable(record).unwrap(), "[    5.140900] sched_ext: BPF scheduler \"x\" enabled");
        assert_eq!(readable("4,1,1000007,-;a; b\n").unwrap(), "[    1.000007] a; b");
        assert_eq!(readable("7,1,0,-;debugging\n"), None);
        assert_eq!(readable("nonsense"), None);
    }
}
