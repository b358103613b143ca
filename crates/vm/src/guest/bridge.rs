//! Copies the command's input and output between its pipes and the virtio ports, without loss.
//!
//! The command gets pipes rather than the ports themselves. A port can be open only once, whereas a command may open,
//! share and close its descriptors at any time. A pipe also shows when its last writer has closed it.
use super::{ports, priority};
use crate::protocol::{STDERR_PORT, STDIN_PORT, STDOUT_PORT};
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

/// The capacity of a pipe, in bytes.
const BUFFER: usize = 64 << 10;

pub struct Bridges {
    stdin: File,
    stdout: Output,
    stderr: Output,
}

struct Output {
    port: File,
    written: Arc<AtomicU64>,
    /// Whether the host's reader is gone.
    abandoned: Arc<AtomicBool>,
}

/// The ports, connected to the command's pipes, or unused.
pub struct Connected {
    written: [Arc<AtomicU64>; 2],
    /// Closes when both outputs have been copied; `None`: there is no command.
    through: Option<mpsc::Receiver<()>>,
}

impl Bridges {
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

    /// Flags for stdout and stderr, to be set when the host's reader is gone.
    pub fn abandoned(&self) -> (Arc<AtomicBool>, Arc<AtomicBool>) {
        (self.stdout.abandoned.clone(), self.stderr.abandoned.clone())
    }

    /// For a machine without a command: nothing is written.
    pub fn unused(self) -> Connected {
        Connected { written: [self.stdout.written, self.stderr.written], through: None }
    }

    /// Starts threads that copy until the command's pipes end.
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
    /// Waits until all output has been written to the ports. No process may be left that writes.
    ///
    /// There is no limit, as the host's reader may be slow, and a guest whose clock counts instructions cannot wait for a
    /// time: when it is idle, any time is over at once. The host's limits hold, and the host ends the machine if it is to stop.
    pub fn drain(&self) {
        if let Some(through) = &self.through {
            let _ = through.recv();
        }
    }

    /// Bytes written to the ports for stdout and stderr.
    pub fn written(&self) -> (u64, u64) {
        let [stdout, stderr] = self.written.each_ref().map(|bytes| bytes.load(Ordering::SeqCst));
        (stdout, stderr)
    }
}

fn carry_in(mut port: File, mut pipe: ChildStdin) {
    // An error only means that the command has closed its input, which it may.
    if ports::wait_for_host(&port).is_ok() {
        let _ = copy(&mut port, |bytes| pipe.write_all(bytes));
    }
}

fn carry_out(mut pipe: impl Read, output: Output, through: mpsc::Sender<()>) {
    let mut port = &output.port;
    let result = copy(&mut pipe, |bytes| {
        if output.abandoned.load(Ordering::SeqCst) {
            // The pipe is closed, so the command's next write gets SIGPIPE.
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
    // The port is leaked, so it stays open: closing it would discard bytes that the host has not read
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
