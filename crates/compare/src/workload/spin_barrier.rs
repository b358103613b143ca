//! Threads that compute and then wait for each other at a barrier, where they yield. OpenMP and MPI programs do this
//! between their parallel parts, and it is slow where there are more threads than CPUs.
//!
//! Each thread does WORK steps of arithmetic and then waits at the barrier, ITERATIONS times. It is the classic central
//! barrier with sense reversal. A waiter calls `sched_yield` until the sense changes.
use super::work::compute;
use super::{Measured, Runnable, built_in, team};
use flsched_spec::workload::SpinBarrier;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

impl Runnable for SpinBarrier {
    fn argv(&self, helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        built_in(helper, self)
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured { yields: yields(output), ..Measured::printed(output)? })
    }
}

/// Runs the workload in this process and prints its figures. Returns the exit code.
pub(super) fn run(of: SpinBarrier) -> i32 {
    match measure(of) {
        Ok((time, yields)) => {
            println!("Time: {:.6}\nYields: {yields}", time.as_secs_f64());
            0
        }
        Err(error) => {
            eprintln!("spin-barrier: cannot start {} threads: {error}", of.threads);
            1
        }
    }
}

/// The time from the first thread's start to the last one's end, and the number of yields.
fn measure(of: SpinBarrier) -> std::io::Result<(Duration, u64)> {
    let meeting = YieldingBarrier::new(of.threads);
    let ends = team::run(of.threads, |id| thread(of, id, &meeting))?;
    Ok((team::duration(&ends), ends.iter().map(|end| end.result).sum()))
}

/// A thread's loop. Returns the number of its yields.
fn thread(of: SpinBarrier, id: u64, meeting: &YieldingBarrier) -> u64 {
    let mut sense = false;
    let mut state = id + 1;
    let mut yields = 0;
    for _ in 0..of.iterations {
        state = compute(state, of.work);
        sense = !sense;
        yields += meeting.wait(sense);
    }
    std::hint::black_box(state);
    yields
}

/// A central barrier with sense reversal, whose waiters yield.
struct YieldingBarrier {
    threads: u64,
    arrived: AtomicU64,
    sense: AtomicBool,
}

impl YieldingBarrier {
    fn new(threads: u64) -> Self {
        Self { threads, arrived: AtomicU64::new(0), sense: AtomicBool::new(false) }
    }

    /// Waits for all threads of this round. Returns the number of yields. The caller inverts `sense` every round.
    fn wait(&self, sense: bool) -> u64 {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            // The counter is reset first, as the next round may begin as soon as the sense
            // changes.
            self.arrived.store(0, Ordering::Relaxed);
            self.sense.store(sense, Ordering::Release);
            return 0;
        }
        let mut yields = 0;
        while self.sense.load(Ordering::Acquire) != sense {
            std::thread::yield_now();
            yields += 1;
        }
        yields
    }
}

/// The number of yields that it printed.
fn yields(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.strip_prefix("Yields: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_meet() {
        let (time, _) = measure(SpinBarrier { threads: 5, iterations: 20, work: 10 }).unwrap();
        assert!(time > Duration::ZERO);
        let (_, yields) = measure(SpinBarrier { threads: 1, iterations: 20, work: 10 }).unwrap();
        assert_eq!(yields, 0, "a lone thread never waits");
    }

    #[test]
    fn no_thread_passes_before_the_last_arrives() {
        let (threads, rounds) = (4u64, 50u64);
        let barrier = YieldingBarrier::new(threads);
        let arrivals = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut sense = false;
                    for round in 1..=rounds {
                        arrivals.fetch_add(1, Ordering::AcqRel);
                        sense = !sense;
                        barrier.wait(sense);
                        assert!(arrivals.load(Ordering::Acquire) >= round * threads);
                    }
                });
            }
        });
    }

    #[test]
    fn reads_its_own_output() {
        assert_eq!(yields("Time: 0.500000\nYields: 17\n"), Some(17));
        assert_eq!(yields(""), None);
    }
}
