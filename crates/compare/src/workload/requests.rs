//! Requests and their wake-up latency, as in schbench: messengers wake workers; a woken worker does a
//! fixed amount of work, may sleep for a while, notifies its messenger and waits for the next request.
//!
//! The result is the wake-up latency: the time from a worker's wake-up until it runs. Schedulers that favour
//! throughput are worse here.
use super::work::compute;
use super::{Measured, Runnable, built_in, figures, team};
use flsched_spec::workload::Requests;
use nix::sys::prctl::set_timerslack;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The measurements of all workers.
struct Served {
    /// From each wake-up until the worker ran, in ascending order.
    latencies_ns: Vec<u64>,
    /// From the first request to the last.
    elapsed_s: f64,
    /// CPU time of all threads.
    busy_s: f64,
}

/// A worker that waits for a request.
struct Waiting {
    thread: Thread,
    woken: Arc<AtomicU64>,
}

impl Runnable for Requests {
    fn argv(&self, helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        built_in(helper, self)
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured { figures: figures(output), ..Measured::printed(output)? })
    }
}

/// Runs the workload in this process and prints its figures. Returns the exit code.
pub(super) fn run(of: Requests) -> i32 {
    let Served { latencies_ns, elapsed_s, busy_s } = match measure(of) {
        Ok(served) => served,
        Err(error) => {
            let threads = of.messengers * (1 + of.workers);
            eprintln!("requests: cannot start {threads} threads: {error}");
            return 1;
        }
    };
    let microseconds = |share: f64| percentile(&latencies_ns, share) as f64 / 1e3;
    println!("Time: {:.9}", percentile(&latencies_ns, 0.99) as f64 / 1e9);
    println!("Figure: wakeup_p50_us {:.3}", microseconds(0.5));
    println!("Figure: wakeup_p99_us {:.3}", microseconds(0.99));
    println!("Figure: wakeup_p99_9_us {:.3}", microseconds(0.999));
    println!("Figure: requests_per_s {:.1}", latencies_ns.len() as f64 / elapsed_s);
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    println!("Figure: busy_percent {:.1}", 100.0 * busy_s / (elapsed_s * cpus as f64));
    0
}

fn measure(of: Requests) -> std::io::Result<Served> {
    let base = Instant::now();
    let busy_before_s = busy_s()?;
    // Workers inherit it. Otherwise a pause is up to 50 µs longer in the default class, but not in the real-time ones.
    set_timerslack(1)?;
    // Each worker owns a sender of its messenger's channel. When the last of them ends, the channel closes and
    // the messenger ends.
    let mut messengers = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..of.messengers {
        let (sender, receiver) = channel();
        workers.extend((0..of.workers).map(|_| Mutex::new(Some(sender.clone()))));
        messengers.push(Mutex::new(Some(receiver)));
    }
    let ends = team::run(of.messengers * (1 + of.workers), |id| {
        let id = id as usize;
        match id.checked_sub(messengers.len()) {
            None => {
                take(&messengers[id]).into_iter().for_each(|requests| wake_all(requests, base));
                Vec::new()
            }
            Some(worker) => {
                take(&workers[worker]).map_or_else(Vec::new, |messenger| serve(of, messenger, base))
            }
        }
    })?;
    let elapsed_s = team::duration(&ends).as_secs_f64();
    let mut latencies_ns: Vec<u64> = ends.into_iter().flat_map(|end| end.result).collect();
    latencies_ns.sort_unstable();
    Ok(Served { latencies_ns, elapsed_s, busy_s: busy_s()? - busy_before_s })
}

/// The CPU time of this process.
fn busy_s() -> std::io::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// A worker's loop. Returns its wake-up latencies in ns.
fn serve(of: Requests, messenger: Sender<Waiting>, base: Instant) -> Vec<u64> {
    let pause = Duration::from_micros(of.pause_us);
    let woken = Arc::new(AtomicU64::new(0));
    let mut latencies = Vec::with_capacity(of.requests as usize);
    let mut state = 1;
    for _ in 0..of.requests {
        let waiting = Waiting { thread: std::thread::current(), woken: woken.clone() };
        if messenger.send(waiting).is_err() {
            break;
        }
        let sent = loop {
            std::thread::park();
            match woken.swap(0, Ordering::Acquire) {
                0 => {}
                sent => break sent,
            }
        };
        latencies.push(nanoseconds(base).saturating_sub(sent));
        state = compute(state, of.work);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    std::hint::black_box(state);
    latencies
}

/// A messenger's loop: wakes each waiting worker, until all workers have ended.
fn wake_all(requests: Receiver<Waiting>, base: Instant) {
    for waiting in requests {
        waiting.woken.store(nanoseconds(base), Ordering::Release);
        waiting.thread.unpark();
    }
}

fn take<T>(from: &Mutex<Option<T>>) -> Option<T> {
    from.lock().ok()?.take()
}

/// Nanoseconds since `base`, at least 1: 0 means that the worker is not woken yet.
fn nanoseconds(base: Instant) -> u64 {
    base.elapsed().as_nanos() as u64 + 1
}

/// The smallest value that `share` of these ascending values do not exceed.
fn percentile(ascending: &[u64], share: f64) -> u64 {
    let rank = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_served_and_timed() {
        for pause_us in [0, 1000] {
            let of = Requests { messengers: 2, workers: 3, requests: 20, work: 10, pause_us };
            let Served { latencies_ns: latencies, elapsed_s, busy_s } = measure(of).unwrap();
            assert_eq!(latencies.len(), 2 * 3 * 20);
            assert!(latencies.is_sorted() && busy_s > 0.0);
            assert!(elapsed_s > 20.0 * pause_us as f64 / 1e6, "{elapsed_s}");
        }
    }

    #[test]
    fn percentiles() {
        let values: Vec<u64> = (1..=1000).collect();
        assert_eq!((percentile(&values, 0.5), percentile(&values, 0.99)), (500, 990));
        assert_eq!((percentile(&values, 0.999), percentile(&[7], 0.5)), (999, 7));
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
