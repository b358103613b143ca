//! A cache line that two CPUs write alternately.
use super::Error;
use super::layout::pin;
use super::sample::Sample;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Of a batch.
const TURNS: u64 = 500;
/// Given up: the other side is not running.
const END: u64 = u64::MAX;

/// A line of its own, and the neighbour that a prefetcher would fetch with it.
#[repr(align(128))]
struct Line(AtomicU64);

/// From one CPU's write to the other's seeing it, in ns.
pub fn transfer(batches: usize, from: usize, to: usize) -> Result<Sample, Error> {
    let line = Line(AtomicU64::new(0));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(to);
            loop {
                let value = line.0.load(Ordering::Acquire);
                if value == END {
                    return pinned;
                }
                if value % 2 == 1 {
                    // Fails if the end came in between, and is seen next time.
                    let _ = line.0.compare_exchange(value, value + 1, Ordering::AcqRel, Ordering::Acquire);
                } else {
                    spin_loop();
                }
            }
        });
        let one = scope.spawn(|| {
            pin(from)?;
            Ok(Sample::take(batches, || {
                let began = Instant::now();
                for _ in 0..TURNS {
                    let value = line.0.load(Ordering::Acquire);
                    line.0.store(value + 1, Ordering::Release);
                    while line.0.load(Ordering::Acquire) == value + 1 {
                        spin_loop();
                    }
                }
                began.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
            }))
        });
        let found = one.join();
        line.0.store(END, Ordering::Release);
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
