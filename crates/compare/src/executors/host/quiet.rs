//! Waits until the machine is quiet, so that earlier work does not count in a run's time.
//!
//! Half a second after a scheduler was detached, kernel threads free its programs and maps. For some schedulers this
//! takes a tenth of a second. The wait precedes every run, also those under the kernel's own schedulers, so that all
//! runs begin alike.
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;
/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// The kernel counts as quiet after its threads have been idle for this long.
const QUIET: Duration = Duration::from_millis(800);
/// Kernel threads count as idle if they take at most a twentieth of a CPU.
const MAX_BUSY_PER_SAMPLE: Duration = SAMPLE_INTERVAL.checked_div(20).expect("20 is not 0");
/// How long to wait on a machine whose kernel threads are never idle.
const LIMIT: Duration = Duration::from_secs(3);

/// Waits until kernel threads are idle. Returns at once where they are not visible, as in a container.
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

/// Total CPU time of all kernel threads that exist now; `None`: they are not visible.
fn kernel_threads_ran() -> Option<Duration> {
    let listed = fs::read_to_string(format!("/proc/{KTHREADD}/task/{KTHREADD}/children")).ok()?;
    let ran_ns = |pid: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    // A thread that has just ended is left out; its CPU time is negligible.
    let total = listed.split_whitespace().filter_map(ran_ns).sum();
    (!listed.is_empty()).then_some(Duration::from_nanos(total))
}
