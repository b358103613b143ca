//! A timeline in the Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome read.
//!
//! The trace has two "processes". "CPUs" has a row for each CPU with the running task, and counters for the CPU's
//! run-queue length and frequency, and for what a policy counts. "Tasks" has a row for each task with the CPU on which it
//! runs, or what it waits for. A wake-up is an instant in that row, and an arrow to it from the row of the task that woke it.
use super::{Timeline, WaitsFor};
use crate::Ns;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::io::{self, Write};

/// Process ids of the two.
const CPUS: u32 = 1;
const TASKS: u32 = 2;

/// The trace as one JSON object.
pub fn write_trace(timeline: &Timeline, title: &str, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[", other(timeline, title))?;
    let mut lines = Lines { out, is_first: true };
    for (pid, name) in [(CPUS, "CPUs"), (TASKS, "tasks")] {
        lines.meta("process_name", pid, 0, name)?;
    }
    let number = |cpu: usize| timeline.cpus[cpu];
    for cpu in &timeline.cpus {
        lines.meta("thread_name", CPUS, i64::from(*cpu), &format!("CPU {cpu}"))?;
    }
    for (name, pid) in &timeline.tasks {
        lines.meta("thread_name", TASKS, i64::from(*pid), name)?;
    }
    for slice in &timeline.slices {
        let pid = timeline.tasks[slice.task].1;
        let (ts, dur) = (us(slice.from), us(slice.to - slice.from));
        lines.add(&json!({
            "ph": "X", "name": timeline.label(slice.task), "pid": CPUS, "tid": number(slice.cpu), "ts": ts, "dur": dur,
        }))?;
        lines.add(&json!({
            "ph": "X", "name": format!("CPU {}", number(slice.cpu)), "pid": TASKS, "tid": pid, "ts": ts, "dur": dur,
        }))?;
    }
    for wait in &timeline.waits {
        lines.add(&json!({
            "ph": "X", "name": wait.what.words(), "pid": TASKS, "tid": timeline.tasks[wait.task].1,
            "ts": us(wait.from), "dur": us(wait.to - wait.from),
        }))?;
    }
    for (id, wake_up) in timeline.wake_ups.iter().enumerate() {
        let (at, tid) = (us(wake_up.at), timeline.tasks[wake_up.task].1);
        lines.add(&json!({
            "ph": "i", "s": "t", "name": "woken", "pid": TASKS, "tid": tid, "ts": at,
            "args": { "cpu": number(wake_up.cpu) },
        }))?;
        let Some(by) = wake_up.by else { continue };
        let flow = |ph: &str, tid: i32| {
            json!({
                "ph": ph, "name": "wakes", "cat": "wake-up", "id": id, "bp": "e", "pid": TASKS, "tid": tid, "ts": at,
            })
        };
        lines.add(&flow("s", timeline.tasks[by].1))?;
        lines.add(&flow("f", tid))?;
    }
    for queue in &timeline.queues {
        lines.add(&json!({
            "ph": "C", "name": format!("waiting for CPU {}", number(queue.cpu)), "pid": CPUS, "ts": us(queue.at),
            "args": { "tasks": queue.waiting },
        }))?;
    }
    for tuning in &timeline.tunings {
        lines.add(&json!({
            "ph": "C", "name": format!("frequency of CPU {}", number(tuning.cpu)), "pid": CPUS, "ts": us(tuning.at),
            "args": { "MHz": tuning.mhz },
        }))?;
    }
    for (name, values) in &timeline.counters {
        for (at, count) in values {
            lines.add(&json!({
                "ph": "C", "name": format!("{name} (per second)"), "pid": CPUS, "ts": us(*at), "args": { "events": count },
            }))?;
        }
    }
    writeln!(out, "\n]}}")
}

impl WaitsFor {
    fn words(self) -> &'static str {
        match self {
            Self::Cpu => "waits for a CPU",
            Self::Message => "waits for a message",
            Self::Lock => "waits for a lock",
            Self::Other => "sleeps",
        }
    }
}

/// The same, compressed by gzip, which ui.perfetto.dev reads as well.
pub fn packed_trace(timeline: &Timeline, title: &str) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    write_trace(timeline, title, &mut out)?;
    out.finish()
}

fn other(timeline: &Timeline, title: &str) -> serde_json::Value {
    json!({
        "run": title,
        "complete": timeline.full_at.is_none(),
        "recorded until, s": timeline.full_at.unwrap_or(timeline.end) as f64 / 1e9,
    })
}

/// Nanoseconds as the format's microseconds with a fraction.
fn us(ns: Ns) -> f64 {
    ns as f64 / 1000.0
}

struct Lines<'a, W> {
    out: &'a mut W,
    is_first: bool,
}

impl<W: Write> Lines<'_, W> {
    fn add(&mut self, event: &serde_json::Value) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{comma}\n{event}")
    }

    fn meta(&mut self, what: &str, pid: u32, tid: i64, name: &str) -> io::Result<()> {
        self.add(&json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } }))
    }
}
