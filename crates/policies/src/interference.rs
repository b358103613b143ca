//! Do CPUs take time from each other? Those of a crowded host or of an emulator that runs them in turns do,
//! and only a measurement tells.
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// A loop is longer than an emulated CPU's turn, which takes up to a millisecond.
const LOOP: Duration = Duration::from_millis(3);
const ROUNDS: usize = 3;
/// A CPU that takes turns with one other needs twice as long, in percent; below this it is chance.
const THRESHOLD_PERCENT: u64 = 140;

/// Does one CPU do less while another one, of another core, works? As measured when it is first asked,
/// which takes some 30 ms. On a machine that is busy then the answer is no more than a guess.
pub(crate) fn cpus_interfere() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| measure().unwrap_or(false))
}

/// `None`: there are no two cores to compare.
fn measure() -> Option<bool> {
    let (one, other) = two_cores()?;
    let is_over = AtomicBool::new(false);
    let is_working = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            if pin_to(other).is_none() {
                return;
            }
            while !is_over.load(Ordering::Relaxed) {
                if is_working.load(Ordering::Relaxed) {
                    work(1000);
                } else {
                    sleep(LOOP / 10);
                }
            }
        });
        let measured = scope.spawn(|| {
            pin_to(one)?;
            let size = iterations();
            let fastest = |works: bool| {
                is_working.store(works, Ordering::Relaxed);
                // Until the other one has seen it.
                sleep(LOOP / 3);
                (0..ROUNDS).map(|_| cpu_time_of(size)).min()
            };
            let (alone, beside) = (fastest(false)?, fastest(true)?);
            Some(is_slowed(alone, beside))
        });
        let slowed = measured.join().ok().flatten();
        is_over.store(true, Ordering::Relaxed);
        slowed
    })
}

fn is_slowed(alone: Duration, beside: Duration) -> bool {
    beside.as_nanos() * 100 > alone.as_nanos() * u128::from(THRESHOLD_PERCENT)
}

/// Two CPUs on which this process may run, of different cores.
fn two_cores() -> Option<(usize, usize)> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let one = cpus.next()?;
    let siblings = format!("/sys/devices/system/cpu/cpu{one}/topology/core_cpus_list");
    let siblings = std::fs::read_to_string(siblings).ok()?;
    let siblings = scx_utils::read_cpulist(&siblings).ok()?;
    Some((one, cpus.find(|cpu| !siblings.contains(cpu))?))
}

fn pin_to(cpu: usize) -> Option<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).ok()?;
    sched_setaffinity(Pid::from_raw(0), &cpus).ok()
}

fn work(iterations: u64) {
    let mut sum = 0_u64;
    for step in 0..iterations {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(step));
    }
}

/// Of this thread: what it waits for others on its CPU does not count.
fn cpu_time_of(iterations: u64) -> Duration {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    let began = now();
    work(iterations);
    now().saturating_sub(began)
}

/// So many take about [`LOOP`].
fn iterations() -> u64 {
    let mut size = 1000;
    while cpu_time_of(size) < LOOP {
        size *= 2;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_turns_is_told_from_chance() {
        let alone = Duration::from_millis(3);
        assert!(!is_slowed(alone, alone * 13 / 10));
        assert!(is_slowed(alone, alone * 2));
    }
}
