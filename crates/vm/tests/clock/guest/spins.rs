//! Busy loops of as many instructions each, one and two to a CPU.
use super::cpu::{pin, round_robin, spin, tsc};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const INSTRUCTIONS: u64 = 20_000_000;
/// Longer than a thread takes to move to its CPU.
const LEAD: Duration = Duration::from_millis(2);

pub fn measure(cpus: usize) {
    let sizes = [1, 2, cpus];
    for (number, &size) in sizes.iter().enumerate() {
        if number > 0 && size == sizes[number - 1] {
            continue;
        }
        run(size, size);
    }
    run(cpus, 2 * cpus);
}

/// Runs this number of loops on this number of CPUs.
fn run(cpus: usize, loops: usize) {
    // Not with a barrier: that is a lock which they would take one after the other.
    let start = Instant::now() + LEAD * (loops as u32 + 5);
    let late = &AtomicUsize::new(0);
    let spans: Vec<(u64, u64)> = scope(|threads| {
        let all: Vec<_> = (0..loops)
            .map(|number| {
                threads.spawn(move || {
                    pin(number % cpus);
                    round_robin();
                    let rest = start.saturating_duration_since(Instant::now());
                    late.fetch_add(usize::from(rest.is_zero()), Ordering::Relaxed);
                    sleep(rest);
                    let begun = tsc();
                    spin(INSTRUCTIONS);
                    (begun, tsc())
                })
            })
            .collect();
        all.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let longest = spans.iter().map(|(begun, ended)| ended - begun).max().unwrap_or(0);
    let first = spans.iter().map(|(begun, _)| *begun).min().unwrap_or(0);
    let last = spans.iter().map(|(_, ended)| *ended).max().unwrap_or(0);
    let all = last - first;
    let late = late.load(Ordering::Relaxed);
    println!(
        "spins cpus={cpus} loops={loops} late={late} instructions={INSTRUCTIONS} longest={longest} all={all}"
    );
}
