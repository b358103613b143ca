//! Threads that compute and then wait for each other, yielding while they wait: what an OpenMP or
//! MPI program does between its parallel parts, and what hurts when there are more threads than CPUs.
//!
//! Each thread repeats ITERATIONS times: WORK steps of arithmetic, then a barrier. The barrier is the
//! classic central one with a reversing sense; who waits calls `sched_yield` until the sense turns.
use super::parameters::Parameters;
use super::team;
use super::work::compute;
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How it is named.
pub const FORM: &str = "spin-barrier:THREADS:ITERATIONS:WORK";

/// Steps that take about 125,000 instructions with [`compute`] as compiled for x86-64: 32 threads × 50
/// barriers of work alone are then 0.2 s when an instruction takes 1 ns.
const DEFAULT_WORK: u64 = 12_500;

/// `spin-barrier:THREADS:ITERATIONS:WORK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinBarrier {
    /// Threads that meet at the barrier.
    pub threads: u64,
    /// Barriers.
    pub iterations: u64,
    /// Steps of arithmetic before each barrier, in each thread.
    pub work: u64,
}

impl SpinBarrier {
    /// Reads what stands after `spin-barrier:`; what is left out is eight threads for each CPU,
    /// 150 barriers and the default work.
    pub(super) fn parse(parameters: &str, cpus: u64) -> Result<Self, UsageError> {
        let mut parameters = Parameters::new(FORM, parameters);
        let spin = Self {
            threads: parameters.number("THREADS", 8 * cpus, 1..=4096)?,
            iterations: parameters.number("ITERATIONS", 150, 1..=10_000_000)?,
            work: parameters.number("WORK", DEFAULT_WORK, 0..=1_000_000_000)?,
        };
        parameters.end()?;
        Ok(spin)
    }

    /// Arguments for [`super::workload_main`].
    pub(super) fn arguments(&self) -> Vec<String> {
        vec![
            "spin-barrier".into(),
            self.threads.to_string(),
            self.iterations.to_string(),
            self.work.to_string(),
        ]
    }

    /// Runs it here and prints its figures; the result is an exit code.
    pub(super) fn run(&self) -> i32 {
        match self.measure() {
            Ok((time, yields)) => {
                println!("Time: {:.6}\nYields: {yields}", time.as_secs_f64());
                0
            }
            Err(error) => {
                eprintln!("spin-barrier: cannot start {} threads: {error}", self.threads);
                1
            }
        }
    }

    /// From the moment all threads are there until the last is done, and how often they yielded.
    fn measure(&self) -> std::io::Result<(Duration, u64)> {
        let meeting = YieldingBarrier::new(self.threads);
        let ends = team::run(self.threads, |id| self.thread(id, &meeting))?;
        Ok((team::duration(&ends), ends.iter().map(|end| end.result).sum()))
    }

    /// One thread's part; how often it yielded.
    fn thread(&self, id: u64, meeting: &YieldingBarrier) -> u64 {
        let mut sense = false;
        let mut state = id + 1;
        let mut yields = 0;
        for _ in 0..self.iterations {
            state = compute(state, self.work);
            sense = !sense;
            yields += meeting.wait(sense);
        }
        std::hint::black_box(state);
        yields
    }
}

/// A central barrier with a reversing sense, whose waiters yield.
struct YieldingBarrier {
    threads: u64,
    arrived: AtomicU64,
    sense: AtomicBool,
}

impl YieldingBarrier {
    fn new(threads: u64) -> Self {
        Self { threads, arrived: AtomicU64::new(0), sense: AtomicBool::new(false) }
    }

    /// Waits for all threads of this round; how often it yielded. `sense` turns with every round.
    fn wait(&self, sense: bool) -> u64 {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            // The next round may begin as soon as the sense turns, so the counter is reset before.
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

impl fmt::Display for SpinBarrier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "spin-barrier:{}:{}:{}", self.threads, self.iterations, self.work)
    }
}

/// How often its threads yielded, from what it printed.
pub(super) fn yields(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.strip_prefix("Yields: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let spin = |text| SpinBarrier::parse(text, 4).map(|spin| spin.to_string());
        assert_eq!(spin("").unwrap(), format!("spin-barrier:32:150:{DEFAULT_WORK}"));
        assert_eq!(spin("8").unwrap(), format!("spin-barrier:8:150:{DEFAULT_WORK}"));
        assert_eq!(spin("8:5:0").unwrap(), "spin-barrier:8:5:0");
        assert!(spin("0").unwrap_err().to_string().contains("THREADS: `0`"));
        assert!(spin("5000").unwrap_err().to_string().contains("from 1 to 4096"));
        assert!(spin("8:5:1:1").unwrap_err().to_string().contains("too many"));
    }

    #[test]
    fn threads_meet() {
        let (time, _) = SpinBarrier { threads: 5, iterations: 20, work: 10 }.measure().unwrap();
        assert!(time > Duration::ZERO);
        let (_, yields) = SpinBarrier { threads: 1, iterations: 20, work: 10 }.measure().unwrap();
        assert_eq!(yields, 0, "who is alone never waits");
    }

    #[test]
    fn nobody_passes_before_the_last_arrives() {
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
