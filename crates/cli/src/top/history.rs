//! Schedulers that came and went while they were watched.
use super::source::InForce;
use flsched_host::status::Ejection;
use humantime::format_rfc3339_seconds;
use serde::Serialize;
use std::time::SystemTime;

/// How many are kept.
const KEPT: usize = 8;

/// Something that happened to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// UTC.
    pub at: String,
    pub what: String,
}

pub struct History {
    ejections: u64,
    events: Vec<Event>,
}

impl History {
    /// The last ejection of before is no event.
    pub fn new(before: Option<Ejection>) -> Self {
        Self { ejections: before.map_or(0, |it| it.number), events: Vec::new() }
    }

    /// Ejections since boot, as far back as the kernel's log reaches.
    pub fn ejections(&self) -> u64 {
        self.ejections
    }

    /// The oldest first.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// One scheduler has followed another one; the last ejection may be of before. How many events that makes.
    pub fn note(&mut self, from: &InForce, to: &InForce, ejection: Option<Ejection>) -> usize {
        let mut new = 0;
        if let Some(ejection) = ejection.filter(|it| it.number > self.ejections) {
            self.ejections = ejection.number;
            let waiter = ejection.waiter.map(|it| format!("; {it} had waited")).unwrap_or_default();
            self.add(format!("ejected: {} ({}){waiter}", ejection.scheduler, ejection.reason));
            new += 1;
        } else if from.sequence > 0 {
            self.add(format!("detached: {}", from.name));
            new += 1;
        }
        if to.sequence > 0 {
            let settings =
                if to.settings.is_empty() { String::new() } else { format!(" with {}", to.settings) };
            self.add(format!("attached: {}{settings}", to.name));
            new += 1;
        }
        new
    }

    fn add(&mut self, what: String) {
        self.events.push(Event { at: format_rfc3339_seconds(SystemTime::now()).to_string(), what });
        self.events.drain(..self.events.len().saturating_sub(KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(sequence: u64) -> InForce {
        InForce { name: "flsched 0.1.0".into(), sequence, ..InForce::default() }
    }

    fn default() -> InForce {
        InForce { name: "eevdf".into(), ..InForce::default() }
    }

    fn ejection(number: u64) -> Ejection {
        let reason = "runnable task stall".into();
        Ejection { number, scheduler: "flsched_0.1.0".into(), reason, waiter: None }
    }

    fn noted(changes: &[(InForce, InForce, Option<Ejection>)]) -> (u64, Vec<String>) {
        let mut history = History::new(Some(ejection(2)));
        let new: usize = changes.iter().map(|(from, to, last)| history.note(from, to, last.clone())).sum();
        assert!(new >= history.events().len());
        (history.ejections(), history.events().iter().map(|event| event.what.clone()).collect())
    }

    #[test]
    fn only_an_ejection_that_is_new_is_one() {
        let (ejections, events) = noted(&[
            (default(), policy(1), Some(ejection(2))),
            (policy(1), default(), Some(ejection(2))),
            (default(), policy(2), Some(ejection(2))),
            (policy(2), policy(3), Some(ejection(3))),
        ]);
        assert_eq!(ejections, 3);
        assert_eq!(
            events,
            [
                "attached: flsched 0.1.0",
                "detached: flsched 0.1.0",
                "attached: flsched 0.1.0",
                "ejected: flsched_0.1.0 (runnable task stall)",
                "attached: flsched 0.1.0",
            ]
        );
    }

    #[test]
    fn the_oldest_events_go() {
        let change = (default(), policy(1), None);
        assert_eq!(noted(&vec![change; 20]).1.len(), KEPT);
    }
}
