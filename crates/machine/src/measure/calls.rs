//! Measures system calls, messages through pipes and sockets, wake-ups, switches, forks and threads.
use super::Error;
use super::layout::{pin, pinned};
use super::sample::Sample;
use nix::sys::wait::waitpid;
use nix::unistd::{self, ForkResult, fork as fork_process, pipe};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// System calls in a batch. A batch takes some tens of µs, which is less than a time slice.
const CALLS: u32 = 200;
/// Round trips of a message in a batch.
const ROUNDS: u32 = 20;
/// Size of a message, as in hackbench.
const BYTES: usize = 100;
/// Number of channels; a sender of hackbench writes to as many.
const CHANNELS: u32 = 20;
/// Messages queued in each channel; no write blocks. With some hundreds of them, messages through sockets cost a
/// third more.
const QUEUED: u32 = 10;

fn ns_of(count: u32, body: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let began = Instant::now();
    body()?;
    Ok(began.elapsed().as_nanos() as f64 / f64::from(count))
}

/// Takes a sample of a measurement that can fail. Returns the first error.
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

fn ends() -> Result<(OwnedFd, OwnedFd), Error> {
    pipe().map_err(|e| Error::System { what: "pipe".into(), cause: e.into() })
}

/// Writes a message by the plain system call, so that the figure has no library code in it.
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
    Err(Error::System { what: what.into(), cause: source })
}

/// The time of a system call that does almost nothing: `getppid()`.
pub fn syscall(batches: usize, cpu: usize) -> Result<Sample, Error> {
    pinned(cpu, || {
        sample(batches, || {
            ns_of(CALLS, || {
                for _ in 0..CALLS {
                    // SAFETY: getppid() has no arguments. `syscall` enters the kernel each time; no result is cached.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                }
                Ok(())
            })
        })
    })
}

/// Times of a kind of channel.
#[derive(Debug)]
pub struct Channels {
    pub make: Sample,
    pub write: Sample,
    pub read: Sample,
}

/// Measures pipes. One thread writes and reads, so there is no waiter and no wake-up.
pub fn pipes(batches: usize, cpu: usize) -> Result<Channels, Error> {
    channels(batches, cpu, ends)
}

/// Measures pairs of stream sockets in the same way.
pub fn sockets(batches: usize, cpu: usize) -> Result<Channels, Error> {
    channels(batches, cpu, || {
        UnixStream::pair().map_err(|source| Error::System { what: "socketpair".into(), cause: source })
    })
}

/// Measures channels with many queued messages, as in hackbench: the kernel has to allocate memory for each.
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

/// The time from the write of a message on CPU `from` until its reader, which slept on CPU `to`, continues.
pub fn one_way(batches: usize, from: usize, to: usize) -> Result<Sample, Error> {
    let (mut there_read, mut there_write) = ends()?;
    let (mut back_read, mut back_write) = ends()?;
    std::thread::scope(|scope| {
        // The loop ends when the other thread has closed its pipe.
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

/// The time of a `fork()` in the parent, and the time from its start until the parent has waited for the child.
pub fn fork(batches: usize, cpu: usize) -> Result<(Sample, Sample), Error> {
    let mut forks = Vec::new();
    let lives = pinned(cpu, || {
        sample(batches, || {
            let began = Instant::now();
            // SAFETY: the child only calls _exit().
            match unsafe { fork_process() } {
                // SAFETY: it only ends the child.
                Ok(ForkResult::Child) => unsafe { libc::_exit(0) },
                Ok(ForkResult::Parent { child }) => {
                    forks.push(began.elapsed().as_nanos() as f64);
                    waitpid(child, None)
                        .map_err(|e| Error::System { what: "waitpid".into(), cause: e.into() })?;
                    Ok(began.elapsed().as_nanos() as f64)
                }
                Err(e) => Err(Error::System { what: "fork".into(), cause: e.into() }),
            }
        })
    })?;
    Ok((Sample::of(forks), lives))
}

/// The time to start a thread, as its creator measures it, and the time from its start until it has been joined.
pub fn thread(batches: usize, cpu: usize) -> Result<(Sample, Sample), Error> {
    let mut starts = Vec::new();
    let lives = pinned(cpu, || {
        sample(batches, || {
            let began = Instant::now();
            let thread = std::thread::Builder::new()
                .spawn(|| ())
                .map_err(|source| Error::System { what: "a thread".into(), cause: source })?;
            starts.push(began.elapsed().as_nanos() as f64);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(began.elapsed().as_nanos() as f64)
        })
    })?;
    Ok((Sample::of(starts), lives))
}
