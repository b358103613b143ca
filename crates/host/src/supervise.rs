//! Keeps a policy attached: starts it again after CPU hotplug and after ejections. After too many
//! ejections the machine stays with the default scheduler.
use crate::loader::start_once;
use crate::{Error, ExitReport, Running, Scope};
use flsched_spec::PolicySpec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many ejections are tolerated, and how long to wait after each.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Ejections within `window` after which the policy stays off.
    pub give_up_after: usize,
    /// The time in which they count.
    pub window: Duration,
    /// Wait before the first restart; doubles with each further ejection in the window.
    pub first_wait: Duration,
}

impl Backoff {
    /// Gives up at the first ejection.
    pub const NEVER: Self = Self { give_up_after: 1, window: Duration::ZERO, first_wait: Duration::ZERO };
}

impl Default for Backoff {
    fn default() -> Self {
        Self { give_up_after: 3, window: Duration::from_secs(600), first_wait: Duration::from_secs(1) }
    }
}

/// What has happened to a policy that is kept attached.
#[derive(Debug)]
pub enum Change {
    /// It is attached again.
    Attached,
    /// CPUs came or went: the kernel ended it, and it starts again at once.
    Hotplug,
    /// The kernel ejected it; it starts again after the wait.
    Ejected(ExitReport, Duration),
    /// The kernel ejected it too often: it stays off.
    GivenUp(ExitReport),
    /// It ended in another way, and stays off.
    Ended(ExitReport),
}

/// Attempts in a row while CPUs come and go faster than the scheduler attaches.
const HOTPLUG_TRIES: usize = 100;
/// Pause between two of these attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A policy that is kept attached. Dropping it restores the default scheduler.
pub struct Supervisor<'a> {
    spec: &'a PolicySpec,
    scope: Scope,
    stop: &'a AtomicBool,
    ejections: Ejections,
    state: State,
}

enum State {
    Attached(Running),
    Waiting { until: Instant },
    Off,
}

impl<'a> Supervisor<'a> {
    /// Attaches it. `stop` ends a wait for CPUs that come and go.
    pub fn attach(
        spec: &'a PolicySpec,
        scope: Scope,
        backoff: Backoff,
        stop: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let state = State::Attached(start(spec, scope, stop)?);
        Ok(Self { spec, scope, stop, ejections: Ejections::new(backoff), state })
    }

    /// While it is attached.
    pub fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Attached(running) => Some(running),
            State::Waiting { .. } | State::Off => None,
        }
    }

    /// Does what is due and returns what has changed since the last call. Call it several times a second. After an
    /// error the policy stays off.
    pub fn check(&mut self) -> Result<Option<Change>, Error> {
        let now = Instant::now();
        match std::mem::replace(&mut self.state, State::Off) {
            State::Attached(running) => match running.exited() {
                None => {
                    self.state = State::Attached(running);
                    Ok(None)
                }
                Some(report) => {
                    running.stop()?;
                    Ok(Some(self.ended(report, now)))
                }
            },
            State::Waiting { until } if until <= now => {
                self.state = State::Attached(start(self.spec, self.scope, self.stop)?);
                Ok(Some(Change::Attached))
            }
            state => {
                self.state = state;
                Ok(None)
            }
        }
    }

    fn ended(&mut self, report: ExitReport, now: Instant) -> Change {
        if report.restart {
            self.state = State::Waiting { until: now };
            return Change::Hotplug;
        }
        if !report.ejected {
            return Change::Ended(report);
        }
        match self.ejections.add(now) {
            Some(wait) => {
                self.state = State::Waiting { until: now + wait };
                Change::Ejected(report, wait)
            }
            None => Change::GivenUp(report),
        }
    }

    /// Restores the default scheduler; `None`: it was already in force.
    pub fn detach(&mut self) -> Result<Option<ExitReport>, Error> {
        match std::mem::replace(&mut self.state, State::Off) {
            State::Attached(running) => running.stop().map(Some),
            State::Waiting { .. } | State::Off => Ok(None),
        }
    }
}

fn start(spec: &PolicySpec, scope: Scope, stop: &AtomicBool) -> Result<Running, Error> {
    for _ in 1..HOTPLUG_TRIES {
        match start_once(spec, scope) {
            Err(Error::HotplugRace) if !stop.load(Ordering::Relaxed) => std::thread::sleep(PAUSE),
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
    fn without_a_second_try_the_first_ejection_is_the_last() {
        assert_eq!(Ejections::new(Backoff::NEVER).add(Instant::now()), None);
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
