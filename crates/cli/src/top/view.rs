//! What happened between two moments.
use super::history::Event;
use super::source::Moment;
use flsched_probes::watch::{Look, Runnable, bucket_from_ns};
use serde::Serialize;
use std::collections::BTreeMap;

/// Latencies of less than twice that are one bar, from 0: no clock of a machine is finer.
const SHORT_NS: u64 = 512;
/// The tasks that wait longest, in reports.
const LONGEST: usize = 10;

/// All that is shown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct View {
    /// `uname -r`.
    pub kernel: String,
    /// The scheduler in force, as comparisons name it.
    pub scheduler: String,
    /// Its knobs that do not have their defaults.
    pub settings: String,
    /// It schedules only tasks of class SCHED_EXT.
    pub is_partial: bool,
    /// Since when it has been attached, in seconds before now; `None`: unknown, or the default scheduler.
    pub attached_for_s: Option<u64>,
    /// Ejections in the kernel's log.
    pub ejections: u64,
    /// The time between the two moments, in seconds.
    pub interval_s: f64,
    /// Of all CPUs, in percent.
    pub busy_percent: f64,
    /// On all CPUs.
    pub switches_per_s: f64,
    /// How many tasks wait for a CPU now.
    pub waiting: usize,
    /// Since when the first of them has waited, in ns.
    pub longest_wait_ns: u64,
    /// From a wake-up to running.
    pub wake_ups: WakeUps,
    /// What the policy counts, per second.
    pub counters: Vec<Counter>,
    pub cpus: Vec<CpuView>,
    /// The tasks that have waited longest.
    pub longest_waits: Vec<TaskView>,
    /// Schedulers that came and went while they were watched.
    pub events: Vec<Event>,
    /// How many of them, the last ones, have come since the view before.
    #[serde(skip)]
    pub new_events: usize,
    /// All tasks that run or wait.
    #[serde(skip)]
    #[cfg_attr(
        not(any(feature = "top", test)),
        expect(dead_code, reason = "only the screen has room for them")
    )]
    pub tasks: Vec<TaskView>,
}

/// Latencies of wake-ups between two moments.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WakeUps {
    /// How many there were, per second.
    pub per_s: f64,
    /// Median, in ns; `None`: there were none.
    pub p50_ns: Option<u64>,
    /// 99th percentile, in ns.
    pub p99_ns: Option<u64>,
    /// Without gaps from the shortest to the longest one.
    pub histogram: Vec<Bar>,
}

/// How many wake-ups took so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// At least so long, and less than twice that; the bar from 0: less than 1,024 ns.
    pub from_ns: u64,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counter {
    /// As in the policy's source.
    pub name: String,
    /// Events per second.
    pub per_s: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CpuView {
    pub cpu: u32,
    /// The number of its last-level cache.
    pub cache: u32,
    /// How much of the time it did not idle, in percent.
    pub busy_percent: f64,
    /// Switches per second.
    pub switches_per_s: f64,
    /// How many tasks wait there now.
    pub queued: usize,
    /// How long the first of them has waited, in ns.
    pub longest_wait_ns: u64,
    /// The task that runs there now.
    pub running: Option<String>,
}

/// A task that runs or waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskView {
    pub pid: u32,
    /// That of its process.
    pub process: u32,
    pub name: String,
    /// -20 to 19.
    pub nice: i32,
    /// `other`, `batch`, `idle`, `ext`, `fifo`, `rr` or `deadline`.
    pub class: &'static str,
    /// The CPU where it runs or waits.
    pub cpu: u32,
    /// On how many CPUs it may run.
    pub may_run_on: u32,
    /// It has a CPU.
    pub runs: bool,
    /// How long it has waited, in ns.
    pub wait_ns: u64,
    /// Its part of one CPU, in percent; `None`: it was not runnable at the moment before.
    pub cpu_percent: Option<f64>,
}

impl View {
    /// `caches`: the last-level cache of each CPU.
    pub fn between(from: &Moment, to: &Moment, caches: &BTreeMap<u32, u32>) -> Self {
        let interval_ns = to.look.at_ns.saturating_sub(from.look.at_ns).max(1);
        let interval_s = interval_ns as f64 / 1e9;
        let tasks = tasks(&from.look, &to.look);
        let cpus = cpus(&from.look, &to.look, &tasks, caches);
        let mut longest_waits: Vec<TaskView> = tasks.iter().filter(|task| !task.runs).cloned().collect();
        let waiting = longest_waits.len();
        longest_waits.sort_by_key(|task| (std::cmp::Reverse(task.wait_ns), task.pid));
        longest_waits.truncate(LONGEST);
        let count = cpus.len().max(1) as f64;
        Self {
            scheduler: to.in_force.name.clone(),
            settings: to.in_force.settings.clone(),
            is_partial: to.in_force.is_partial,
            attached_for_s: to.attached_for.map(|time| time.as_secs()),
            interval_s,
            busy_percent: cpus.iter().map(|cpu| cpu.busy_percent).sum::<f64>() / count,
            switches_per_s: cpus.iter().map(|cpu| cpu.switches_per_s).sum(),
            waiting,
            longest_wait_ns: longest_waits.first().map_or(0, |task| task.wait_ns),
            wake_ups: WakeUps::between(&from.look.wake_ups, &to.look.wake_ups, interval_s),
            counters: counters(from, to, interval_s),
            cpus,
            longest_waits,
            tasks,
            ..Self::default()
        }
    }
}

impl WakeUps {
    fn between(from: &[u64], to: &[u64], interval_s: f64) -> Self {
        let counts: Vec<u64> = to.iter().zip(from).map(|(to, from)| to.saturating_sub(*from)).collect();
        let all: u64 = counts.iter().sum();
        // The middle of the bucket in which it is.
        let percentile = |percent: u64| {
            let rank = (all * percent).div_ceil(100).max(1);
            let mut below = 0;
            let bucket = counts.iter().position(|count| {
                below += count;
                below >= rank
            })?;
            Some(u64::midpoint(bucket_from_ns(bucket), bucket_from_ns(bucket + 1)))
        };
        let mut powers: BTreeMap<u32, u64> = BTreeMap::new();
        for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            *powers.entry(bucket_from_ns(bucket).max(SHORT_NS).ilog2()).or_default() += count;
        }
        Self {
            per_s: all as f64 / interval_s,
            p50_ns: percentile(50),
            p99_ns: percentile(99),
            histogram: without_gaps(&powers),
        }
    }
}

/// A bar for each power of two from the first to the last.
fn without_gaps(powers: &BTreeMap<u32, u64>) -> Vec<Bar> {
    let (Some((&first, _)), Some((&last, _))) = (powers.first_key_value(), powers.last_key_value()) else {
        return Vec::new();
    };
    let from_ns = |power: u32| if 1 << power <= SHORT_NS { 0 } else { 1 << power };
    let bar = |power| Bar { from_ns: from_ns(power), count: powers.get(&power).copied().unwrap_or(0) };
    (first..=last).map(bar).collect()
}

/// A policy that has just been attached counts from 0.
fn counters(from: &Moment, to: &Moment, interval_s: f64) -> Vec<Counter> {
    let is_same = from.in_force.sequence == to.in_force.sequence;
    let before =
        |name: &str| from.statistics.iter().find(|(it, _)| it == name).map_or(0, |(_, count)| *count);
    let since = |name: &str, count: u64| if is_same { count.saturating_sub(before(name)) } else { count };
    let rate = |(name, count): &(String, u64)| Counter {
        name: name.clone(),
        per_s: since(name, *count) as f64 / interval_s,
    };
    to.statistics.iter().map(rate).collect()
}

fn cpus(from: &Look, to: &Look, tasks: &[TaskView], caches: &BTreeMap<u32, u32>) -> Vec<CpuView> {
    let interval_ns = to.at_ns.saturating_sub(from.at_ns).max(1) as f64;
    let before: BTreeMap<u32, _> = from.cpus.iter().map(|count| (count.cpu, count)).collect();
    let mut cpus: BTreeMap<u32, CpuView> = BTreeMap::new();
    for count in &to.cpus {
        let (switches, idle_ns) = before.get(&count.cpu).map_or((0, 0), |it| (it.switches, it.idle_ns));
        let idle = count.idle_ns.saturating_sub(idle_ns) as f64 / interval_ns;
        cpus.insert(
            count.cpu,
            CpuView {
                cpu: count.cpu,
                cache: caches.get(&count.cpu).copied().unwrap_or(0),
                busy_percent: 100.0 * (1.0 - idle).clamp(0.0, 1.0),
                switches_per_s: count.switches.saturating_sub(switches) as f64 * 1e9 / interval_ns,
                ..CpuView::default()
            },
        );
    }
    for task in tasks {
        let Some(cpu) = cpus.get_mut(&task.cpu) else { continue };
        if task.runs {
            cpu.running = Some(format!("{} {}", task.name, task.pid));
        } else {
            cpu.queued += 1;
            cpu.longest_wait_ns = cpu.longest_wait_ns.max(task.wait_ns);
        }
    }
    cpus.into_values().collect()
}

fn tasks(from: &Look, to: &Look) -> Vec<TaskView> {
    let interval_ns = to.at_ns.saturating_sub(from.at_ns).max(1) as f64;
    let before: BTreeMap<u32, u64> = from.runnable.iter().map(|task| (task.pid, task.runtime_ns)).collect();
    let percent = |task: &Runnable| {
        let had = task.runtime_ns.saturating_sub(*before.get(&task.pid)?);
        Some(100.0 * had as f64 / interval_ns)
    };
    to.runnable.iter().map(|task| TaskView::of(task, percent(task))).collect()
}

impl TaskView {
    fn of(task: &Runnable, cpu_percent: Option<f64>) -> Self {
        const NICE_0: i32 = 120;
        const LEAST: i32 = 100;
        Self {
            pid: task.pid,
            process: task.tgid,
            // Any user can give a task any name.
            name: task.name.chars().map(|it| if it.is_control() { '?' } else { it }).collect(),
            nice: task.static_prio.max(LEAST) - NICE_0,
            class: class(task.policy),
            cpu: task.cpu,
            may_run_on: task.nr_cpus_allowed,
            runs: task.runs,
            wait_ns: task.wait_ns,
            cpu_percent,
        }
    }
}

/// `SCHED_…`, as `chrt` names it.
fn class(policy: u32) -> &'static str {
    match policy {
        1 => "fifo",
        2 => "rr",
        3 => "batch",
        5 => "idle",
        6 => "deadline",
        7 => "ext",
        _ => "other",
    }
}
