//! The command's input and output, between QEMU's sockets and the caller.
use super::control::Control;
use crate::protocol::HostMessage;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER: usize = 64 << 10;

/// The VM's ends of three pairs of sockets.
pub(super) struct Streams {
    stdin: UnixStream,
    stdout: UnixStream,
    stderr: UnixStream,
}

pub(super) struct Ends {
    pub stdin: UnixStream,
    pub stdout: UnixStream,
    pub stderr: UnixStream,
}

/// The connected streams. Threads copy between QEMU's sockets and the caller's.
pub(super) struct Flowing {
    /// Bytes of stdout and stderr that have arrived.
    received: [Arc<AtomicU64>; 2],
    /// Kept open, so that the end of the input is a shutdown and not a close: when its peer closes, QEMU discards
    /// bytes that it has not read.
    _stdin: UnixStream,
    /// The socket of the caller's input; its shutdown stops the thread that reads it.
    input: UnixStream,
}

impl Streams {
    /// Creates three pairs of sockets.
    pub fn new() -> io::Result<(Self, Ends)> {
        let (stdin, stdout, stderr) = (UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?);
        let ours = Self { stdin: stdin.0, stdout: stdout.0, stderr: stderr.0 };
        Ok((ours, Ends { stdin: stdin.1, stdout: stdout.1, stderr: stderr.1 }))
    }

    /// Connects them to QEMU's sockets for stdin, stdout and stderr.
    pub fn connect(self, sockets: [UnixStream; 3], control: &Arc<Control>) -> io::Result<Flowing> {
        let [stdin, stdout, stderr] = sockets;
        let received: [Arc<AtomicU64>; 2] = Default::default();
        let flowing = Flowing {
            received: received.clone(),
            _stdin: stdin.try_clone()?,
            input: self.stdin.try_clone()?,
        };
        let from = self.stdin;
        start("vm-stdin", move || carry_in(from, stdin))?;
        let outputs = [
            ("vm-stdout", stdout, self.stdout, HostMessage::StdoutClosed),
            ("vm-stderr", stderr, self.stderr, HostMessage::StderrClosed),
        ];
        for ((name, from, to, closed), received) in outputs.into_iter().zip(received) {
            let control = control.clone();
            start(name, move || carry_out(from, to, &received, || control.send(closed)))?;
        }
        Ok(flowing)
    }
}

impl Flowing {
    /// Bytes of stdout and stderr that have arrived.
    pub fn received(&self) -> (u64, u64) {
        let [stdout, stderr] = self.received.each_ref().map(|bytes| bytes.load(Ordering::SeqCst));
        (stdout, stderr)
    }
}

impl Drop for Flowing {
    fn drop(&mut self) {
        // The caller may keep its end open, so the thread's read must be ended here.
        let _ = self.input.shutdown(Shutdown::Both);
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

fn carry_in(mut from: UnixStream, mut to: UnixStream) {
    // After an error as well, the command's input has ended.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Copies an output. If the caller has closed its end, reading continues, as the guest must not block.
fn carry_out(mut from: UnixStream, to: UnixStream, received: &AtomicU64, closed: impl Fn()) {
    let mut listener = Some(to);
    let mut buffer = vec![0; BUFFER];
    loop {
        let bytes = match from.read(&mut buffer) {
            // QEMU has ended.
            Ok(0) => return,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        received.fetch_add(bytes as u64, Ordering::SeqCst);
        if let Some(to) = &mut listener
            && to.write_all(&buffer[..bytes]).is_err()
        {
            listener = None;
            closed();
        }
    }
}
