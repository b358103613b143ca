//! Threads that begin their work together.
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread's result, and when its work began and ended.
pub(super) struct End<T> {
    start: Instant,
    end: Instant,
    pub(super) result: T,
}

/// Runs `work` in this number of threads, with a number from 0 for each. No thread begins before all exist.
pub(super) fn run<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> std::io::Result<Vec<End<T>>> {
    let gate = Gate::default();
    std::thread::scope(|scope| {
        let thread = |id: u64| {
            let (gate, work) = (&gate, &work);
            std::thread::Builder::new().stack_size(64 * 1024).spawn_scoped(scope, move || {
                gate.pass().then(|| {
                    let start = Instant::now();
                    let result = work(id);
                    End { start, end: Instant::now(), result }
                })
            })
        };
        let threads_there: std::io::Result<Vec<_>> = (0..threads).map(thread).collect();
        gate.decide(if threads_there.is_ok() { threads } else { 0 });
        Ok(threads_there?.into_iter().filter_map(|handle| handle.join().ok().flatten()).collect())
    })
}

/// The time from the first thread's start to the last one's end.
pub(super) fn duration<T>(ends: &[End<T>]) -> Duration {
    let first = ends.iter().map(|end| end.start).min();
    let last = ends.iter().map(|end| end.end).max();
    last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first)
}

/// A gate at which threads sleep until all exist. If one cannot be started, the others end without working.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    waiting: u64,
    go: Option<bool>,
}

impl Gate {
    /// Waits for the decision. True: begin; false: end without working.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.changed.notify_all();
        loop {
            match state.go {
                Some(go) => return go,
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Opens the gate once `expected` threads wait at it. 0: ends all threads at once.
    fn decide(&self, expected: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting < expected {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.go = Some(expected > 0);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn no_thread_begins_before_all_have_started() {
        let there = AtomicU64::new(0);
        let ends = run(6, |id| {
            there.fetch_add(1, Ordering::SeqCst);
            id
        })
        .unwrap();
        let mut numbers: Vec<_> = ends.iter().map(|end| end.result).collect();
        numbers.sort();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        assert!(duration(&ends) > Duration::ZERO && there.into_inner() == 6);
    }
}
