//! How long an idle CPU takes to run a task that a busy one has woken.
use super::cpu::{beside, pin, spin, spread, tsc};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{park, scope};

const WAKER: usize = 2;
const SLEEPER: usize = 1;
const TIMES: u64 = 300;
/// Between two of them, in instructions: long enough for the sleeper's CPU to become idle.
const APART: u64 = 60_000;

pub fn measure(_: usize) {
    let sent = &AtomicU64::new(0);
    let done = &AtomicBool::new(false);
    let late = scope(|threads| {
        let sleeper = threads.spawn(move || {
            pin(SLEEPER);
            let mut late = Vec::new();
            while !done.load(Ordering::SeqCst) {
                park();
                match sent.swap(0, Ordering::SeqCst) {
                    0 => {}
                    sent => late.push(tsc().wrapping_sub(sent) as i64),
                }
            }
            late
        });
        beside(WAKER, &[], || {
            for number in 0..TIMES {
                // At all points of a round.
                spin(APART + number * 37);
                sent.store(tsc(), Ordering::SeqCst);
                sleeper.thread().unpark();
            }
            spin(APART);
            done.store(true, Ordering::SeqCst);
            sleeper.thread().unpark();
        });
        sleeper.join().expect("it does not panic")
    });
    println!("wakes times={} {}", late.len(), spread(late));
}
