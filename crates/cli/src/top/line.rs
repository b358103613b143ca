//! A view as one line, where there is no terminal.
use super::view::View;
use super::words::{count, span, time};
use std::time::Duration;

/// The busiest counters that a line has.
const COUNTERS: usize = 4;

/// All that matters most, and the events since the line before, each on a line of its own.
pub fn line(view: &View) -> String {
    let mut parts = vec![scheduler(view)];
    parts.push(format!("{} CPUs {:.0} % busy", view.cpus.len(), view.busy_percent));
    parts.push(format!("{} switches/s", count(view.switches_per_s)));
    parts.push(waiting(view));
    if let (Some(p50), Some(p99)) = (view.wake_ups.p50_ns, view.wake_ups.p99_ns) {
        parts.push(format!("wake-up p50 {} p99 {}", time(p50), time(p99)));
    }
    let mut busiest: Vec<_> = view.counters.iter().filter(|it| it.per_s > 0.0).collect();
    busiest.sort_by(|a, b| b.per_s.total_cmp(&a.per_s));
    parts.extend(busiest.iter().take(COUNTERS).map(|it| format!("{} {}/s", it.name, count(it.per_s))));
    let new = view.events.iter().skip(view.events.len().saturating_sub(view.new_events));
    let events = new.map(|event| format!("{} {}\n", event.at, event.what));
    events.collect::<String>() + &parts.join(" · ")
}

/// `12 wait, the first for 43 ms`.
pub fn waiting(view: &View) -> String {
    match view.waiting {
        0 => "no task waits".into(),
        waiting => format!("{waiting} wait, the first for {}", time(view.longest_wait_ns)),
    }
}

/// `flsched 0.1.0 (slice_us=5000) for 3 min`.
pub fn scheduler(view: &View) -> String {
    let mut text = view.scheduler.clone();
    if !view.settings.is_empty() {
        text += &format!(" ({})", view.settings);
    }
    if view.is_partial {
        text += ", SCHED_EXT tasks only";
    }
    if let Some(seconds) = view.attached_for_s {
        text += &format!(" for {}", span(Duration::from_secs(seconds)));
    }
    text
}
