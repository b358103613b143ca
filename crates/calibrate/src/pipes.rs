//! System calls, messages through pipes, wake-ups, switches and forks.
use crate::Error;
use crate::sample::Sample;
use crate::topology::{pin, pinned};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork as fork_process, pipe};
use std::fs::File;
use std::io::{Read, Write};
use std::time::Instant;

/// Of a batch: some tens of µs, less than a time slice.
const CALLS: u32 = 200;
const ROUNDS: u32 = 20;
/// Of a message, as hackbench's.
const BYTES: usize = 100;

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
fn ends() -> Result<(File, File), Error> {
    let (read, write) = pipe().map_err(|e| Error::System { what: "pipe".into(), source: e.into() })?;
    Ok((read.into(), write.into()))
}

fn send(to: &mut File) -> Result<(), Error> {
    to.write_all(&[1; BYTES]).map_err(|source| Error::System { what: "write to a pipe".into(), source })
}

fn receive(from: &mut File) -> Result<(), Error> {
    let mut message = [0; BYTES];
    from.read_exact(&mut message).map_err(|source| Error::System { what: "read from a pipe".into(), source })
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

/// A message into a pipe and out again, by one thread: nobody waits, nobody wakes.
pub fn message(batches: usize, cpu: usize) -> Result<Sample, Error> {
    pinned(cpu, || {
        let (mut read, mut write) = ends()?;
        sample(batches, || {
            ns_of(CALLS, || {
                for _ in 0..CALLS {
                    send(&mut write)?;
                    receive(&mut read)?;
                }
                Ok(())
            })
        })
    })
}

/// From a message's writing to its reader's going on, who slept on `to`.
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
