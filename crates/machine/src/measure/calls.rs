//! System calls, messages through pipes and sockets, wake-ups, switches, forks and threads.
use super::Error;
use super::layout::{pin, pinned};
use super::sample::Sample;
use nix::sys::wait::waitpid;
use nix::unistd::{self, ForkResult, fork as fork_process, pipe};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Of a batch: some tens of µs, less than a time slice; those of messages some hundreds.
const CALLS: u32 = 200;
const ROUNDS: u32 = 20;
/// Of a message, as hackbench's.
const BYTES: usize = 100;
/// As many as a sender of hackbench writes to.
const CHANNELS: u32 = 20;
/// Messages in each; all find room. With some hundreds of them those of sockets cost a third more.
const QUEUED: u32 = 10;

fn ns_of(count: u32, body: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let began = Instant::now();
    body()?;
    Ok(began.elapsed().as_nanos() as f64 / f64::from(count))
}

/// Takes a sample of something that may fail; the first failure counts.
fn sample(batches: usize, mut body: impl FnMut() -> Result<f64, Error>) -> Result<Sample, Error> {
    let mut failed = None;
    let sample = Sample::take(batches, || {
        if failed.is_some() {
            return f64::NAN;
        }
        body().unwrap_or_else(|error| {
            failed = Some(error);
            f64::NAN
        })
    });
    failed.map_or(Ok(sample), Err)
}

/// A pipe's ends.
fn ends() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe().map_err(|e| Error::System { what: "pipe".into(), source: e.into() })
}

/// By the call alone: what a library adds would count as the kernel's.
fn send(to: &mut impl AsFd) -> Result<(), Error> {
    whole("write a message", unistd::write(to, &[1; BYTES]))
}

fn receive(from: &mut impl AsFd) -> Result<(), Error> {
    whole("read a message", unistd::read(from, &mut [0; BYTES]))
}

fn whole(what: &'static str, result: nix::Result<usize>) -> Result<(), Error> {
    let source = match result {
        Ok(BYTES) => return Ok(()),
        Ok(_) => io::ErrorKind::UnexpectedEof.into(),
        Err(e) => e.into(),
    };
    Err(Error::System { what: what.into(), source })
}

/// A call that does next to nothing.
pub fn syscall(batches: usize, cpu: usize) -> Result<Sample, Error> {
    pinned(cpu, || {
        sample(batches, || {
            ns_of(CALLS, || {
                for _ in 0..CALLS {
                    // SAFETY: asks for a number; through libc, which does not remember it.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                }
                Ok(())
            })
        })
    })
}

/// A channel, and messages into it and out of it.
#[derive(Debug)]
pub struct Channels {
    /// To make one.
    pub make: Sample,
    /// One into it.
    pub write: Sample,
    /// One out of it.
    pub read: Sample,
}

/// Pipes that one thread uses: no waiter and no wake-up.
pub fn pipes(batches: usize, cpu: usize) -> Result<Channels, Error> {
    channels(batches, cpu, ends)
}

/// Pairs of stream sockets.
pub fn sockets(batches: usize, cpu: usize) -> Result<Channels, Error> {
    channels(batches, cpu, || {
        UnixStream::pair().map_err(|source| Error::System { what: "socketpair".into(), source })
    })
}

/// Many are on their way at a time, as hackbench's are: the kernel has to find memory for each.
fn channels<R: AsFd + Send, W: AsFd + Send>(
    batches: usize,
    cpu: usize,
    channel: impl Fn() -> Result<(R, W), Error> + Sync,
) -> Result<Channels, Error> {
    let make = pinned(cpu, || {
        sample(batches, || {
            let mut made = Vec::with_capacity(CHANNELS as usize);
            ns_of(CHANNELS, || (0..CHANNELS).try_for_each(|_| channel().map(|channel| made.push(channel))))
        })
    })?;
    let mut channels = (0..CHANNELS).map(|_| channel()).collect::<Result<Vec<_>, _>>()?;
    let mut reads = Vec::new();
    let write = pinned(cpu, || {
        sample(batches, || {
            let write = ns_of(CHANNELS * QUEUED, || {
                (0..QUEUED).try_for_each(|_| channels.iter_mut().try_for_each(|(_, to)| send(to)))
            })?;
            reads.push(ns_of(CHANNELS * QUEUED, || {
                channels.iter_mut().try_for_each(|(from, _)| (0..QUEUED).try_for_each(|_| receive(from)))
            })?);
            Ok(write)
        })
    })?;
    Ok(Channels { make, write, read: Sample::of(reads) })
}

/// From the write of a message until its reader, which slept on `to`, continues.
pub fn one_way(batches: usize, from: usize, to: usize) -> Result<Sample, Error> {
    let (mut there_read, mut there_write) = ends()?;
    let (mut back_read, mut back_write) = ends()?;
    std::thread::scope(|scope| {
        // It ends when the other side's pipe does.
        let echo = scope.spawn(move || {
            pin(to)?;
            while receive(&mut there_read).is_ok() {
                send(&mut back_write)?;
            }
            Ok::<(), Error>(())
        });
        let found = scope
            .spawn(move || {
                pin(from)?;
                sample(batches, || {
                    ns_of(2 * ROUNDS, || {
                        for _ in 0..ROUNDS {
                            send(&mut there_write)?;
                            receive(&mut back_read)?;
                        }
                        Ok(())
                    })
                })
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        echo.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        found
    })
}

/// A `fork()` for the parent, and with it the child's life until its parent has seen it end.
pub fn fork(batches: usize, cpu: usize) -> Result<(Sample, Sample), Error> {
    let mut forks = Vec::new();
    let lives = pinned(cpu, || {
        sample(batches, || {
            let began = Instant::now();
            // SAFETY: the child does nothing but end.
            match unsafe { fork_process() } {
                Ok(ForkResult::Child) => unsafe { libc::_exit(0) },
                Ok(ForkResult::Parent { child }) => {
                    forks.push(began.elapsed().as_nanos() as f64);
                    waitpid(child, None)
                        .map_err(|e| Error::System { what: "waitpid".into(), source: e.into() })?;
                    Ok(began.elapsed().as_nanos() as f64)
                }
                Err(e) => Err(Error::System { what: "fork".into(), source: e.into() }),
            }
        })
    })?;
    Ok((Sample::of(forks), lives))
}

/// Starting a thread, as its creator sees it; and the thread's life until it has been joined.
pub fn thread(batches: usize, cpu: usize) -> Result<(Sample, Sample), Error> {
    let mut starts = Vec::new();
    let lives = pinned(cpu, || {
        sample(batches, || {
            let began = Instant::now();
            let thread = std::thread::Builder::new()
                .spawn(|| ())
                .map_err(|source| Error::System { what: "a thread".into(), source })?;
            starts.push(began.elapsed().as_nanos() as f64);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(began.elapsed().as_nanos() as f64)
        })
    })?;
    Ok((Sample::of(starts), lives))
}
