//! How late a task is that sleeps until a given moment.
use super::cpu::{beside, others, spread};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

const CPU: usize = 1;
/// Lengths of sleep in us, and how often.
const SLEEPS: &[(i64, usize)] = &[(50, 400), (1000, 40), (10_000, 8)];

pub fn measure(cpus: usize) {
    for busy in [Vec::new(), others(cpus, CPU)] {
        for &(us, times) in SLEEPS {
            let late = beside(CPU, &busy, || lateness(us, times));
            println!("timers busy={} sleep={} {}", busy.len(), us * 1000, spread(late));
        }
    }
}

/// In ns.
fn lateness(us: i64, times: usize) -> Vec<i64> {
    set_timerslack(1).expect("any process may");
    let clock = ClockId::CLOCK_MONOTONIC;
    let now = || clock_gettime(clock).expect("there is one");
    (0..times)
        .map(|_| {
            let due = now() + TimeSpec::microseconds(us);
            clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &due).expect("it can sleep");
            (now() - due).num_nanoseconds()
        })
        .collect()
}
