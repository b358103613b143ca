//! A recording in the Trace Event Format, which Perfetto (ui.perfetto.dev) and Chrome read.
//!
//! The trace has two "processes". "CPUs" has a row for each CPU with the running task, and counters for the CPU's
//! run-queue length and frequency. "Tasks" has a row for each task with the CPU on which it runs; its wake-ups are
//! instants in that row.
use crate::core::Recording;
use crate::engine::Ns;
use serde_json::json;
use std::io::{self, Write};

/// Process ids of the two.
const CPUS: u32 = 1;
const TASKS: u32 = 2;

/// The trace as one JSON object.
pub fn write_trace(recording: &Recording, title: &str, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[", other(recording, title))?;
    let mut lines = Lines { out, is_first: true };
    for (pid, name) in [(CPUS, "CPUs"), (TASKS, "tasks")] {
        lines.meta("process_name", pid, 0, name)?;
    }
    for cpu in 0..recording.nr_cpus {
        lines.meta("thread_name", CPUS, cpu as i64, &format!("CPU {cpu}"))?;
    }
    for (name, pid) in &recording.tasks {
        lines.meta("thread_name", TASKS, i64::from(*pid), name)?;
    }
    for slice in &recording.slices {
        let (name, pid) = &recording.tasks[slice.task];
        let (ts, dur) = (us(slice.from), us(slice.to - slice.from));
        lines.add(&json!({
            "ph": "X", "name": format!("{name} {pid}"), "pid": CPUS, "tid": slice.cpu, "ts": ts, "dur": dur,
        }))?;
        lines.add(&json!({
            "ph": "X", "name": format!("CPU {}", slice.cpu), "pid": TASKS, "tid": pid, "ts": ts, "dur": dur,
        }))?;
    }
    for wake_up in &recording.wake_ups {
        lines.add(&json!({
            "ph": "i", "s": "t", "name": "woken", "pid": TASKS, "tid": recording.tasks[wake_up.task].1,
            "ts": us(wake_up.at), "args": { "cpu": wake_up.cpu },
        }))?;
    }
    for queue in &recording.queues {
        lines.add(&json!({
            "ph": "C", "name": format!("waiting for CPU {}", queue.cpu), "pid": CPUS, "ts": us(queue.at),
            "args": { "tasks": queue.waiting },
        }))?;
    }
    for tuning in &recording.tunings {
        lines.add(&json!({
            "ph": "C", "name": format!("frequency of CPU {}", tuning.cpu), "pid": CPUS, "ts": us(tuning.at),
            "args": { "MHz": tuning.mhz },
        }))?;
    }
    writeln!(out, "\n]}}")
}

fn other(recording: &Recording, title: &str) -> serde_json::Value {
    json!({
        "run": title,
        "complete": recording.full_at.is_none(),
        "recorded until, s": recording.full_at.unwrap_or(recording.end) as f64 / 1e9,
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
