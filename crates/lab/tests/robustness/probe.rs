//! Tasks of nice 0 that sleep and measure how long it takes from their wake-up until they run.
use crate::common::allow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

/// Running probes: one that may run anywhere, and one on each CPU.
pub struct Probes {
    began: Instant,
    stop: Arc<AtomicBool>,
    probes: Vec<(Arc<Probe>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Probe {
    /// When it is to run next, in ns after the start.
    due: AtomicU64,
    longest_ns: AtomicU64,
}

impl Probes {
    /// To be called from a thread whose children are of nice 0.
    pub fn start(cpus: u32) -> Self {
        let (began, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let start = |cpu: Option<u32>| {
            let probe = Arc::new(Probe::default());
            let (shared, stop) = (probe.clone(), stop.clone());
            let thread = spawn(move || {
                if let Some(cpu) = cpu {
                    allow(0, [cpu as usize]);
                }
                shared.run(began, &stop);
            });
            (probe, thread)
        };
        let probes = std::iter::once(None).chain((0..cpus).map(Some)).map(start).collect();
        Self { began, stop, probes }
    }

    /// The longest wait until now in ms, also of a probe that still waits.
    pub fn longest_wait_ms(&self) -> f64 {
        let now = since(self.began);
        let longest = self.probes.iter().map(|(probe, _)| {
            let due = probe.due.load(Ordering::Acquire);
            let waits = if due == 0 { 0 } else { now.saturating_sub(due) };
            probe.longest_ns.load(Ordering::Acquire).max(waits)
        });
        longest.max().unwrap_or(0) as f64 / 1e6
    }

    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.probes.into_iter().for_each(|(_, thread)| thread.join().expect("a probe only sleeps"));
    }
}

impl Probe {
    fn run(&self, began: Instant, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let due = since(began) + PAUSE.as_nanos() as u64;
            self.due.store(due, Ordering::Release);
            sleep(PAUSE);
            let wait = since(began).saturating_sub(due);
            self.longest_ns.fetch_max(wait, Ordering::AcqRel);
        }
        self.due.store(0, Ordering::Release);
    }
}

fn since(began: Instant) -> u64 {
    began.elapsed().as_nanos() as u64
}
