//! One of the processes. It is started, begins its work together with all others, and reports its operations.
//!
//! All threads of all processes sleep in a read of the same pipe, to which nothing is ever written.
//! Closing the pipe wakes them all at once; by then the time to stop is in a file.
use super::PROCESS;
use super::sharing::{Shares, Sightings, cache_of};
use crate::monotonic::monotonic;
use flsched_spec::workload::CoThreads;
use flsched_spec::{UsageError, number};
use nix::sched::sched_getcpu;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;
use tempfile::NamedTempFile;

/// The line that a process prints when all its threads exist.
const READY: &str = "ready";
/// The pause before the start, in which all threads fall asleep.
const SETTLE: Duration = Duration::from_millis(20);
/// Size of a cache line in bytes, on nearly all machines.
const LINE: u64 = 64;
/// Operations between two checks of the clock and of the CPU: about 20 µs at a nanosecond each.
const BATCH: u64 = 16 * 1024;

/// The common start of all processes, and the file with the time at which they stop.
pub(super) struct Start {
    gate: PipeReader,
    closes: Option<PipeWriter>,
    deadline: NamedTempFile,
}

impl Start {
    pub(super) fn new() -> io::Result<Self> {
        let (gate, closes) = pipe()?;
        Ok(Self { gate, closes: Some(closes), deadline: NamedTempFile::new()? })
    }

    /// Starts all processes, which then work for `duration`.
    pub(super) fn go(&mut self, duration: Duration) -> io::Result<()> {
        sleep(SETTLE);
        let end = monotonic() + duration;
        self.deadline.write_all(end.as_nanos().to_string().as_bytes())?;
        drop(self.closes.take());
        Ok(())
    }
}

/// A started process. It is killed when this is dropped before [`Member::finish`].
pub(super) struct Member {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Member {
    pub(super) fn spawn(start: &Start, work: CoThreads) -> io::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .args(std::env::args_os().skip(1).take_while(|word| word != "co-threads"))
            .args([PROCESS, &work.threads.to_string(), &work.bytes.to_string()])
            .arg(start.deadline.path())
            .stdin(Stdio::from(start.gate.try_clone()?))
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("a process without output"))?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    pub(super) fn until_ready(&mut self) -> io::Result<()> {
        match self.line()? == READY {
            true => Ok(()),
            false => Err(io::Error::other("a process could not start its threads")),
        }
    }

    /// Waits for its end. Returns its operations and where its threads ran.
    pub(super) fn finish(mut self) -> io::Result<(u64, Shares)> {
        let line = self.line()?;
        let status = self.child.wait()?;
        let mut words = line.split(' ');
        let operations = words.next().and_then(|word| word.parse().ok());
        let [pairs, same_cpu, same_cache] =
            [(); 3].map(|()| words.next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0));
        match operations {
            Some(operations) if status.success() => Ok((operations, Shares { pairs, same_cpu, same_cache })),
            _ => Err(io::Error::other(format!("a process ended without a result: {status}"))),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs one of the processes here. The arguments are threads, bytes and the file. Returns the exit code.
pub(in super::super) fn run(arguments: &[String]) -> Result<i32, UsageError> {
    let [threads, bytes, deadline] = arguments else {
        return Err(UsageError(format!("{PROCESS}: threads, bytes and a file")));
    };
    let threads = number(PROCESS, threads, 1..=u64::MAX)?;
    let bytes = number(PROCESS, bytes, LINE..=u64::MAX)?;
    Ok(match work(threads, bytes, Path::new(deadline)) {
        Ok((operations, shares)) => {
            println!("{operations} {} {} {}", shares.pairs, shares.same_cpu, shares.same_cache);
            0
        }
        Err(error) => {
            eprintln!("{PROCESS}: {error}");
            1
        }
    })
}

fn work(threads: u64, bytes: u64, deadline: &Path) -> io::Result<(u64, Shares)> {
    let data: Vec<Line> = (0..bytes / LINE).map(|_| Line::default()).collect();
    let there = Barrier::new(threads as usize + 1);
    let did = std::thread::scope(|scope| {
        let thread = |id: u64| {
            let (data, there) = (&data, &there);
            std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, move || {
                there.wait();
                let end = until_start(deadline)?;
                Ok(go_round(data, id * data.len() as u64 / threads, end))
            })
        };
        // If a thread cannot be started, the others would wait for it without limit, so the process
        // exits.
        let handles: Vec<_> = match (0..threads).map(thread).collect::<io::Result<_>>() {
            Ok(handles) => handles,
            Err(error) => {
                eprintln!("{PROCESS}: cannot start {threads} threads: {error}");
                std::process::exit(1);
            }
        };
        there.wait();
        println!("{READY}");
        let join = |handle: std::thread::ScopedJoinHandle<'_, io::Result<Did>>| {
            handle.join().map_err(|_| io::Error::other("a thread panicked"))?
        };
        handles.into_iter().map(join).collect::<io::Result<Vec<Did>>>()
    })?;
    let sightings: Vec<Sightings> = did.iter().map(|did| did.sightings.clone()).collect();
    Ok((did.iter().map(|did| did.operations).sum(), Shares::of(&sightings, cache_of)))
}

/// A cache line of the data.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU64);

/// A thread's operations, and where it ran.
struct Did {
    operations: u64,
    sightings: Sightings,
}

/// Sleeps until the pipe on standard input is closed, then reads the time to stop from the file. The pipe is read by
/// a plain system call: the threads would otherwise wait for the standard library's lock.
fn until_start(deadline: &Path) -> io::Result<Duration> {
    while nix::unistd::read(io::stdin(), &mut [0])? > 0 {}
    let text = std::fs::read_to_string(deadline)?;
    let nanoseconds = text.parse().map_err(|_| io::Error::other("no time to stop in the file"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Increments one line after the other, with plain loads and stores. Increments can be lost when threads write at the
/// same time, which does not matter: the values are not used.
fn go_round(data: &[Line], from: u64, end: Duration) -> Did {
    let mut did = Did { operations: 0, sightings: Sightings::new() };
    let mut lines = data.iter().cycle().skip(from as usize % data.len());
    while monotonic() < end {
        for Line(count) in lines.by_ref().take(BATCH as usize) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        did.operations += BATCH;
        *did.sightings.entry(sched_getcpu().unwrap_or(0)).or_default() += 1;
    }
    did
}
