//! Requests and their wake-up latency, as schbench does it: messengers wake workers, a woken worker does a
//! fixed amount of work, tells its messenger and waits for the next request.
//!
//! What is measured is how long a worker waits between being woken and running. Schedulers that look for
//! throughput pay here, if anywhere.
use super::parameters::Parameters;
use super::team;
use super::work::compute;
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Thread;
use std::time::Instant;

/// How it is named.
pub const FORM: &str = "requests:MESSENGERS:WORKERS:REQUESTS:WORK";

/// What its time is.
pub const TIME_IS: &str = "99th percentile of the wake-up latency";

/// Steps that take about 30,000 instructions: 2 × 16 workers with 300 requests each are then about 0.3 s
/// when an instruction takes 1 ns, and enough for a 99.9th percentile.
const DEFAULT_WORK: u64 = 3_000;

/// `requests:MESSENGERS:WORKERS:REQUESTS:WORK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Threads that send requests.
    pub messengers: u64,
    /// Threads that serve them, for each messenger.
    pub workers: u64,
    /// Requests that each worker serves.
    pub requests: u64,
    /// Steps of arithmetic for each request.
    pub work: u64,
}

/// A worker that waits for a request.
struct Waiting {
    thread: Thread,
    woken: Arc<AtomicU64>,
}

impl Requests {
    /// Reads what stands after `requests:`; what is left out is 2:16:300 and the default work.
    pub(super) fn parse(parameters: &str) -> Result<Self, UsageError> {
        let mut parameters = Parameters::new(FORM, parameters);
        let requests = Self {
            messengers: parameters.number("MESSENGERS", 2, 1..=256)?,
            workers: parameters.number("WORKERS", 16, 1..=4096)?,
            requests: parameters.number("REQUESTS", 300, 1..=1_000_000)?,
            work: parameters.number("WORK", DEFAULT_WORK, 0..=1_000_000_000)?,
        };
        parameters.end()?;
        Ok(requests)
    }

    /// Arguments for [`super::workload_main`].
    pub(super) fn arguments(&self) -> Vec<String> {
        let numbers = [self.messengers, self.workers, self.requests, self.work];
        std::iter::once("requests".into()).chain(numbers.map(|number| number.to_string())).collect()
    }

    /// Runs it here and prints its figures; the result is an exit code.
    pub(super) fn run(&self) -> i32 {
        let (latencies_ns, elapsed_s) = match self.measure() {
            Ok(measured) => measured,
            Err(error) => {
                let threads = self.messengers * (1 + self.workers);
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
        0
    }

    /// All wake-up latencies in ascending order, and the seconds from the first request to the last.
    fn measure(&self) -> std::io::Result<(Vec<u64>, f64)> {
        let base = Instant::now();
        // Each thread takes its end; when a messenger's last worker has gone, it goes too.
        let mut messengers = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..self.messengers {
            let (sender, receiver) = channel();
            workers.extend((0..self.workers).map(|_| Mutex::new(Some(sender.clone()))));
            messengers.push(Mutex::new(Some(receiver)));
        }
        let ends = team::run(self.messengers * (1 + self.workers), |id| {
            let id = id as usize;
            match id.checked_sub(messengers.len()) {
                None => {
                    take(&messengers[id]).into_iter().for_each(|requests| wake_all(requests, base));
                    Vec::new()
                }
                Some(worker) => {
                    take(&workers[worker]).map_or_else(Vec::new, |messenger| self.serve(messenger, base))
                }
            }
        })?;
        let elapsed_s = team::duration(&ends).as_secs_f64();
        let mut latencies: Vec<u64> = ends.into_iter().flat_map(|end| end.result).collect();
        latencies.sort_unstable();
        Ok((latencies, elapsed_s))
    }

    /// A worker's part; its wake-up latencies.
    fn serve(&self, messenger: Sender<Waiting>, base: Instant) -> Vec<u64> {
        let woken = Arc::new(AtomicU64::new(0));
        let mut latencies = Vec::with_capacity(self.requests as usize);
        let mut state = 1;
        for _ in 0..self.requests {
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
            state = compute(state, self.work);
        }
        std::hint::black_box(state);
        latencies
    }
}

/// A messenger's part, until nobody waits any more.
fn wake_all(requests: Receiver<Waiting>, base: Instant) {
    for waiting in requests {
        waiting.woken.store(nanoseconds(base), Ordering::Release);
        waiting.thread.unpark();
    }
}

fn take<T>(from: &Mutex<Option<T>>) -> Option<T> {
    from.lock().ok()?.take()
}

/// Since `base`, at least 1: 0 means not yet.
fn nanoseconds(base: Instant) -> u64 {
    base.elapsed().as_nanos() as u64 + 1
}

/// The smallest of the ascending values that `share` of them do not exceed.
fn percentile(ascending: &[u64], share: f64) -> u64 {
    let rank = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

impl fmt::Display for Requests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.arguments().join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let name = |text| Requests::parse(text).map(|it| it.to_string());
        assert_eq!(name("").unwrap(), "requests:2:16:300:3000");
        assert_eq!(name("1:4:10").unwrap(), "requests:1:4:10:3000");
        assert!(name("0").unwrap_err().to_string().contains("MESSENGERS: `0`"));
        assert!(name("1:1:1:1:1").unwrap_err().to_string().contains("too many"));
    }

    #[test]
    fn every_request_is_served_and_timed() {
        let (latencies, elapsed_s) = Requests::parse("2:3:20:10").unwrap().measure().unwrap();
        assert_eq!(latencies.len(), 2 * 3 * 20);
        assert!(latencies.is_sorted() && elapsed_s > 0.0);
    }

    #[test]
    fn percentiles() {
        let values: Vec<u64> = (1..=1000).collect();
        assert_eq!((percentile(&values, 0.5), percentile(&values, 0.99)), (500, 990));
        assert_eq!((percentile(&values, 0.999), percentile(&[7], 0.5)), (999, 7));
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
