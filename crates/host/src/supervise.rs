//! Keeps a policy attached: starts it again after CPU hotplug and after ejections. The pause before it starts grows with each
//! ejection. The default scheduler runs the machine meanwhile.
use crate::guard::{CALM, Guard, Raised};
use crate::loader::start_once;
use crate::processes;
use crate::sched_ext;
use crate::{Error, ExitReport, Running, Scope};
use flsched_spec::PolicySpec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the policy stays off after the first, second, … ejection; after the last of these, each time.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(600)];
/// What follows if the guard cannot be started.
pub(crate) const UNGUARDED: &str = "real-time tasks that do not sleep can stop this machine for as long as they run: its \
                                    sched_ext has no deadline server, and flsched may not detach the scheduler in time \
                                    without CAP_SYS_NICE, real-time classes (RestrictRealtime=no in a unit) and \
                                    sight of all tasks (in a container the host's PID namespace; with hidepid CAP_SYS_PTRACE)";
/// An ejection after this time without one is the first again.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// What has happened to a policy that is kept attached.
#[derive(Debug)]
pub enum Change {
    /// It is attached again.
    Attached,
    /// CPUs came or went: the kernel ended it, and it starts again at once.
    Hotplug,
    /// The kernel ejected it; it starts again after the wait.
    Ejected(ExitReport, Duration),
    /// It could not be attached again, for a reason that may pass, such as a lack of memory; the next try is after the wait.
    Refused(Error, Duration),
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
    /// Where sched_ext has no deadline server.
    guard: Option<Guard>,
    is_unguarded: bool,
    state: State,
}

enum State {
    Attached(Running),
    Waiting { until: Instant },
    Off,
}

impl<'a> Supervisor<'a> {
    /// Attaches it. `stop` ends a wait for CPUs that come and go.
    pub fn attach(spec: &'a PolicySpec, scope: Scope, stop: &'a AtomicBool) -> Result<Self, Error> {
        processes::check(spec)?;
        let guard = (!sched_ext::has_deadline_server()).then(Guard::start);
        let is_unguarded = matches!(guard, Some(Err(_)));
        let guard = guard.and_then(Result::ok);
        let running = start(spec, scope, guard.as_ref(), stop)?;
        let ejections = Ejections::default();
        Ok(Self { spec, scope, stop, ejections, guard, is_unguarded, state: State::Attached(running) })
    }

    /// What the user should know about it: properties of the machine that make the policy perform worse, and that nothing
    /// detaches it in time if real-time tasks do not sleep.
    pub fn warnings(&self) -> Vec<String> {
        let of_policy = self.running().into_iter().flat_map(Running::warnings).cloned();
        of_policy.chain(self.is_unguarded.then(|| UNGUARDED.to_owned())).collect()
    }

    /// Before the link is closed. Whether the guard has detached it.
    fn release(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::release)
    }

    /// Gives the calling thread the lowest real-time priority until the result is dropped. A thread that watches for starving
    /// tasks needs it: the tasks of the default class that starve them would keep it from running, too. `None` where sched_ext
    /// has a deadline server, because no task starves there, and without the privilege.
    pub fn raise(&self) -> Option<Raised> {
        self.guard.as_ref().map(Guard::raise)
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
                Some(mut report) => {
                    if self.release() {
                        report.set_by_guard();
                    }
                    running.stop()?;
                    Ok(Some(self.ended(report, now)))
                }
            },
            State::Waiting { until }
                if until <= now && !self.guard.as_ref().is_some_and(Guard::is_pressed) =>
            {
                match start(self.spec, self.scope, self.guard.as_ref(), self.stop) {
                    Ok(running) => {
                        self.state = State::Attached(running);
                        Ok(Some(Change::Attached))
                    }
                    Err(Error::EjectedAtOnce { report, .. }) => Ok(Some(self.ended(*report, now))),
                    // Somebody has decided for another scheduler, or for none.
                    Err(error @ (Error::Busy { .. } | Error::Usage(_) | Error::Privileges(_))) => Err(error),
                    Err(error) => {
                        let wait = self.ejections.add(now);
                        self.state = State::Waiting { until: Instant::now() + wait };
                        Ok(Some(Change::Refused(error, wait)))
                    }
                }
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
        let mut wait = self.ejections.add(now);
        if report.by_guard {
            wait = wait.max(CALM);
        }
        self.state = State::Waiting { until: now + wait };
        Change::Ejected(report, wait)
    }

    /// Restores the default scheduler; `None`: it was already in force.
    pub fn detach(&mut self) -> Result<Option<ExitReport>, Error> {
        match std::mem::replace(&mut self.state, State::Off) {
            State::Attached(running) => {
                if let Some(guard) = &self.guard {
                    running.detach_guarded(guard);
                }
                running.stop().map(Some)
            }
            State::Waiting { .. } | State::Off => Ok(None),
        }
    }
}

fn start(
    spec: &PolicySpec,
    scope: Scope,
    guard: Option<&Guard>,
    stop: &AtomicBool,
) -> Result<Running, Error> {
    for _ in 1..HOTPLUG_TRIES {
        match start_once(spec, scope, guard) {
            Err(Error::HotplugRace) if !stop.load(Ordering::Relaxed) => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
    start_once(spec, scope, guard)
}

/// The ejections that still count.
#[derive(Default)]
struct Ejections {
    count: usize,
    last: Option<Instant>,
}

impl Ejections {
    /// How long to wait before the restart.
    fn add(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) >= FORGOTTEN) {
            self.count = 0;
        }
        self.last = Some(now);
        let pause = PAUSES[self.count.min(PAUSES.len() - 1)];
        self.count += 1;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_never_end() {
        let mut ejections = Ejections::default();
        let mut now = Instant::now();
        let pauses: Vec<u64> = (0..6)
            .map(|_| {
                let pause = ejections.add(now);
                now += pause + Duration::from_secs(40);
                pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 10, 60, 600, 600, 600]);
    }

    #[test]
    fn after_an_hour_without_one_they_are_forgotten() {
        let mut ejections = Ejections::default();
        let start = Instant::now();
        for second in [0, 1, 2, 3] {
            ejections.add(start + Duration::from_secs(second));
        }
        assert_eq!(ejections.add(start + Duration::from_secs(3 + 3599)).as_secs(), 600);
        assert_eq!(ejections.add(start + Duration::from_secs(3 + 3599 + 3600)).as_secs(), 1);
    }
}
