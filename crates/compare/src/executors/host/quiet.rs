//! Waits until the machine is quiet, so that earlier work does not count in a run's time.
//!
//! Kernel threads free the last scheduler's programs and maps half a second after it was detached, and after
//! some schedulers for a tenth of a second. All runs begin alike, those of the kernel's own schedulers, too.
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// All kernel threads are children of this one.
const KTHREADD: u32 = 2;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// The kernel has nothing to do if its threads have done next to nothing for this long.
const QUIET: Duration = Duration::from_millis(800);
/// Next to nothing: a twentieth of a CPU.
const MAX_BUSY_PER_SAMPLE: Duration = SAMPLE_INTERVAL.checked_div(20).expect("20 is not 0");
/// How long to wait on a machine whose kernel is never idle.
const LIMIT: Duration = Duration::from_secs(3);

/// Waits until the kernel has nothing to do, if kernel threads can be seen here; not in a container.
pub(super) fn wait(cancel: &AtomicBool) {
    let Some(mut before) = kernel_threads_ran() else { return };
    let began = Instant::now();
    let mut busy_at = began;
    while busy_at.elapsed() < QUIET && began.elapsed() < LIMIT && !cancel.load(Ordering::Relaxed) {
        sleep(SAMPLE_INTERVAL);
        let Some(now) = kernel_threads_ran() else { return };
        if now.saturating_sub(before) > MAX_BUSY_PER_SAMPLE {
            busy_at = Instant::now();
        }
        before = now;
    }
}

/// CPU time that all kernel threads of now have had.
fn kernel_threads_ran() -> Option<Duration> {
    let listed = fs::read_to_string(format!("/proc/{KTHREADD}/task/{KTHREADD}/children")).ok()?;
    let ran_ns = |pid: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    // A task that has ended in between had little to do.
    let total = listed.split_whitespace().filter_map(ran_ns).sum();
    (!listed.is_empty()).then_some(Duration::from_nanos(total))
}
