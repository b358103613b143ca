//! Measures the transfer of a cache line between two CPUs that write it alternately.
use super::Error;
use super::layout::pin;
use super::sample::Sample;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Round trips in a batch.
const TURNS: u64 = 500;
/// The value that ends the other thread.
const END: u64 = u64::MAX;

/// A counter alone on its cache line, and on the adjacent line that a prefetcher may fetch with it.
#[repr(align(128))]
struct Line(AtomicU64);

/// The time from a write on one CPU until the other CPU reads it, in ns.
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
                    // This fails only if END was stored in between; the next load reads it.
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
