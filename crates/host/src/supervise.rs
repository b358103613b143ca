//! Keeps a policy attached: starts it again after CPU hotplug, and after ejections until there were
//! too many, when the machine is left to the default scheduler.
use crate::loader::start_once;
use crate::{Error, ExitReport, Running, Scope};
use flsched_spec::PolicySpec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many ejections are too many.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Ejections within `window` after which it stays off.
    pub give_up_after: usize,
    /// The time in which they count.
    pub window: Duration,
    /// Wait before the first restart; doubles with each further ejection in the window.
    pub first_wait: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { give_up_after: 3, window: Duration::from_secs(600), first_wait: Duration::from_secs(1) }
    }
}

/// What the supervisor tells while it works.
pub enum Event<'a> {
    /// Attached (again).
    Attached(&'a Running),
    /// CPUs came or went: the kernel ended it and it starts again at once.
    Hotplug,
    /// The kernel threw it out; it starts again after the wait.
    Ejected(&'a ExitReport, Duration),
    /// Called about ten times a second while it is attached.
    Tick(&'a Running),
}

const POLL: Duration = Duration::from_millis(100);
/// Tries in a row against CPUs that come and go faster than the scheduler attaches.
const HOTPLUG_TRIES: usize = 100;

/// Runs the policy until `stop` is set; returns its last report, with the default scheduler restored.
pub fn supervise(
    spec: &PolicySpec,
    scope: Scope,
    backoff: Backoff,
    stop: &AtomicBool,
    mut tell: impl FnMut(Event<'_>),
) -> Result<ExitReport, Error> {
    let mut ejections = Ejections::new(backoff);
    loop {
        let running = start(spec, scope, stop)?;
        tell(Event::Attached(&running));
        let report = loop {
            if stop.load(Ordering::Relaxed) {
                return running.stop();
            }
            if let Some(report) = running.exited() {
                running.stop()?;
                break report;
            }
            tell(Event::Tick(&running));
            std::thread::sleep(POLL);
        };
        if report.restart {
            tell(Event::Hotplug);
            continue;
        }
        if !report.ejected {
            return Ok(report);
        }
        match ejections.add(Instant::now()) {
            Some(wait) => {
                tell(Event::Ejected(&report, wait));
                let until = Instant::now() + wait;
                while Instant::now() < until {
                    if stop.load(Ordering::Relaxed) {
                        return Ok(report);
                    }
                    std::thread::sleep(POLL);
                }
            }
            None => {
                return Err(Error::EjectedRepeatedly {
                    policy: spec.policy.name.to_owned(),
                    count: backoff.give_up_after,
                    window: backoff.window,
                    last: report.reason,
                });
            }
        }
    }
}

fn start(spec: &PolicySpec, scope: Scope, stop: &AtomicBool) -> Result<Running, Error> {
    for _ in 1..HOTPLUG_TRIES {
        match start_once(spec, scope) {
            Err(Error::HotplugRace) if !stop.load(Ordering::Relaxed) => std::thread::sleep(POLL),
            outcome => return outcome,
        }
    }
    start_once(spec, scope)
}

/// The ejections that still count.
struct Ejections {
    backoff: Backoff,
    times: Vec<Instant>,
}

impl Ejections {
    fn new(backoff: Backoff) -> Self {
        Self { backoff, times: Vec::new() }
    }

    /// How long to wait before the restart; `None`: stay off.
    fn add(&mut self, now: Instant) -> Option<Duration> {
        self.times.retain(|time| now.duration_since(*time) < self.backoff.window);
        self.times.push(now);
        let count = self.times.len();
        (count < self.backoff.give_up_after).then(|| self.backoff.first_wait * (1 << (count - 1).min(16)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backs_off_then_gives_up() {
        let mut ejections = Ejections::new(Backoff::default());
        let now = Instant::now();
        assert_eq!(ejections.add(now), Some(Duration::from_secs(1)));
        assert_eq!(ejections.add(now), Some(Duration::from_secs(2)));
        assert_eq!(ejections.add(now), None);
    }

    #[test]
    fn old_ejections_do_not_count() {
        let mut ejections = Ejections::new(Backoff::default());
        let start = Instant::now();
        for hour in 0..10 {
            let wait = ejections.add(start + Duration::from_secs(3600 * hour));
            assert_eq!(wait, Some(Duration::from_secs(1)));
        }
    }
}
