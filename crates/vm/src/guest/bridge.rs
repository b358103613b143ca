//! Carries the command's input and output between its pipes and the ports, losing nothing.
//!
//! Pipes are needed because a port can be open only once, and a command may open, share and close
//! its descriptors at any time; and because a pipe shows when its last writer has closed it.
use super::{ports, priority};
use crate::protocol::{STDERR_PORT, STDIN_PORT, STDOUT_PORT};
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// What a pipe holds.
const BUFFER: usize = 64 << 10;

/// The three ports, open.
pub struct Bridges {
    stdin: File,
    stdout: Output,
    stderr: Output,
}

/// An output port.
struct Output {
    port: File,
    written: Arc<AtomicU64>,
    /// The host has no reader left.
    abandoned: Arc<AtomicBool>,
}

/// The ports with the command at the other end, or with none.
pub struct Connected {
    written: [Arc<AtomicU64>; 2],
    /// Ends when both outputs are through.
    through: Option<mpsc::Receiver<()>>,
}

impl Bridges {
    /// Opens the ports.
    pub fn open() -> io::Result<Self> {
        let output = |name| {
            Ok::<_, io::Error>(Output {
                port: ports::open(name)?,
                written: Arc::default(),
                abandoned: Arc::default(),
            })
        };
        let (stdout, stderr) = (output(STDOUT_PORT)?, output(STDERR_PORT)?);
        Ok(Self { stdin: ports::open(STDIN_PORT)?, stdout, stderr })
    }

    /// Set them when the host's reader of stdout or stderr is gone.
    pub fn abandoned(&self) -> (Arc<AtomicBool>, Arc<AtomicBool>) {
        (self.stdout.abandoned.clone(), self.stderr.abandoned.clone())
    }

    /// No command: nothing will ever be written.
    pub fn unused(self) -> Connected {
        Connected { written: [self.stdout.written, self.stderr.written], through: None }
    }

    /// Carries until the command's pipes end.
    pub fn connect(self, mut child: Child) -> Connected {
        let written = [self.stdout.written.clone(), self.stderr.written.clone()];
        let (through, both) = mpsc::channel();
        let input = child.stdin.take().expect("stdin is a pipe");
        priority::thread("stdin", move || carry_in(self.stdin, input));
        let pipe = child.stdout.take().expect("stdout is a pipe");
        let done = through.clone();
        priority::thread("stdout", move || carry_out(pipe, self.stdout, done));
        let pipe = child.stderr.take().expect("stderr is a pipe");
        priority::thread("stderr", move || carry_out(pipe, self.stderr, through));
        Connected { written, through: Some(both) }
    }
}

impl Connected {
    /// Waits until all output is with the host's side, at most that long.
    pub fn drain(&self, limit: Duration) {
        if let Some(through) = &self.through {
            let _ = through.recv_timeout(limit);
        }
    }

    /// Bytes written to the ports for stdout and stderr.
    pub fn written(&self) -> (u64, u64) {
        let [stdout, stderr] = self.written.each_ref().map(|bytes| bytes.load(Ordering::SeqCst));
        (stdout, stderr)
    }
}

fn carry_in(mut port: File, mut pipe: ChildStdin) {
    // Errors only say that the command has closed its input, which is its right.
    if ports::wait_for_host(&port).is_ok() {
        let _ = copy(&mut port, |bytes| pipe.write_all(bytes));
    }
}

fn carry_out(mut pipe: impl Read, output: Output, through: mpsc::Sender<()>) {
    let mut port = &output.port;
    let result = copy(&mut pipe, |bytes| {
        if output.abandoned.load(Ordering::SeqCst) {
            // Closes the pipe: the command's next write gets SIGPIPE.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        port.write_all(bytes)?;
        output.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok(())
    });
    if let Err(error) = result
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        eprintln!("flsched: output lost: {error}");
    }
    // The port stays open (it is leaked): closing it would discard what the host has not fetched
    // yet.
    std::mem::forget(output);
    drop(through);
}

fn copy(from: &mut impl Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => to(&buffer[..bytes])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
