//! The results of a run: as data, and as a table.
mod cpu_time;
mod frequencies;
mod perf;
mod replayed;
mod table;

pub use cpu_time::{CpuTime, Use};
pub use frequencies::{CpuFrequencies, Energy, FrequencyReport};
pub use perf::read_perf_script;
pub use replayed::Replayed;
pub use table::render;

use crate::Setup;
use crate::classes::Class;
use crate::core::Core;
use crate::engine::Ns;
use crate::workload::World;
use flsched_machine::Callback;
use serde::Serialize;
use std::collections::BTreeMap;

/// All figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The machine's name, as in `machines/NAME.toml`.
    pub machine: String,
    /// The number of its CPUs.
    pub cpus: usize,
    /// The scheduler, as the user named it.
    pub scheduler: String,
    /// The workload with all its parameters.
    pub workload: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The time of the part that the workload measures, in simulated seconds.
    pub time_s: f64,
    /// The time of the whole run, in simulated seconds.
    pub whole_s: f64,
    /// The number of tasks.
    pub tasks: usize,
    /// Context switches, including those from and to the idle task.
    pub context_switches: u64,
    /// Moves of tasks from one CPU to another.
    pub migrations: u64,
    /// Sleepers that were woken.
    pub wakeups: u64,
    /// Calls of `sched_yield()`.
    pub yields: u64,
    /// Share of the CPUs' time in which they were not idle.
    pub busy_share: f64,
    /// Share of the CPUs' time spent waiting for locks.
    pub lock_wait_share: f64,
    /// Fairness: Jain's index of the tasks' shares. A task's share is the part of its runnable time in
    /// which it ran. 1: all shares are equal; 1 / tasks: one task had all the time.
    pub fairness: f64,
    /// What the time means; `None`: the duration of the workload.
    pub time_is: Option<&'static str>,
    /// Further figures of the workload's own, by name with the unit last.
    pub figures: Vec<(&'static str, f64)>,
    /// From wake-up to running, in µs: percentile and value.
    pub wakeup_latency_us: BTreeMap<&'static str, f64>,
    /// `None`: the machine's frequencies do not change.
    pub frequencies: Option<FrequencyReport>,
    pub locks: BTreeMap<&'static str, LockReport>,
    /// Callbacks in the order of the scheduling class's interface.
    pub callbacks: Vec<CallbackReport>,
    /// The policy's named counts.
    pub stats: BTreeMap<String, u64>,
    /// Wake-ups, switches, yields, ticks and lock hand-overs.
    pub events: u64,
    /// What the CPUs' time was spent on, and how sure its prices are.
    pub cpu_time: CpuTime,
    /// The workload as it was recorded, if it is a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
}

/// A kind of lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockReport {
    /// Times taken.
    pub taken: u64,
    /// How often a CPU waited.
    pub contended: u64,
    /// Total time that CPUs spun for it, in ns.
    pub spun_ns: Ns,
    /// The same as a share of the CPUs' time.
    pub wait_share: f64,
    /// Total time for which it was held, in ns.
    pub held_ns: Ns,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallbackReport {
    /// Its name as in machine files.
    pub name: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// Total time in it without waits for locks, in ns.
    pub ns: Ns,
}

const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Jain's index of fairness (Jain, Chiu, Hawe: A quantitative measure of fairness, 1984), over the tasks that were
/// ever runnable.
fn fairness(core: &Core) -> f64 {
    let wanted = core.workload_tasks().filter(|task| task.ran + task.waited > 0);
    let shares = wanted.map(|task| task.ran as f64 / (task.ran + task.waited) as f64);
    let (count, sum, squares) = shares.fold((0.0, 0.0, 0.0), |(count, sum, squares), share: f64| {
        (count + 1.0, sum + share, squares + share * share)
    });
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

impl Outcome {
    pub(crate) fn of(setup: &Setup, core: &Core, classes: &[Box<dyn Class>], world: &World) -> Self {
        let end = core.cpus.iter().map(|cpu| cpu.clock).max().unwrap_or(0);
        let (from, to) = (world.started_at.unwrap_or(0), world.stopped_at.unwrap_or(end));
        let all = (end * core.nr_cpus() as u64).max(1) as f64;
        let still_idle = |cpu: &crate::core::Cpu| if cpu.curr.is_none() { end - cpu.idle_since } else { 0 };
        let idled: Ns = core.cpus.iter().map(|cpu| cpu.idled + still_idle(cpu)).sum();
        let latency = |(name, share)| {
            let ns = core.counts.latency.percentile(share)?;
            Some((name, ns as f64 / 1000.0))
        };
        let locks = core.locks.counts().into_iter().map(|(name, counts)| {
            let report = LockReport {
                taken: counts.taken,
                contended: counts.contended,
                spun_ns: counts.spun,
                wait_share: counts.spun as f64 / all,
                held_ns: counts.held,
            };
            (name, report)
        });
        let callbacks = Callback::ALL.iter().map(|&callback| {
            let count = core.counts.callbacks[callback as usize];
            CallbackReport { name: callback.name(), calls: count.calls, ns: count.ns }
        });
        Self {
            machine: setup.machine.name.clone(),
            cpus: core.nr_cpus(),
            scheduler: setup.scheduler.to_string(),
            workload: setup.workload.to_string(),
            seed: setup.seed,
            time_s: world.own_time_s.unwrap_or(to.saturating_sub(from) as f64 / 1e9),
            time_is: setup.workload.time_is(),
            figures: world.figures.clone(),
            fairness: fairness(core),
            whole_s: end as f64 / 1e9,
            tasks: core.workload_tasks().count(),
            context_switches: core.counts.switches,
            migrations: core.counts.migrations,
            wakeups: core.counts.wakeups,
            yields: core.counts.yields,
            busy_share: 1.0 - idled as f64 / all,
            lock_wait_share: core.counts.spun as f64 / all,
            wakeup_latency_us: PERCENTILES.into_iter().filter_map(latency).collect(),
            frequencies: FrequencyReport::of(core),
            locks: locks.collect(),
            callbacks: callbacks.collect(),
            stats: classes.iter().flat_map(|class| class.statistics()).collect(),
            events: core.counts.events,
            cpu_time: CpuTime::of(core),
            replayed: setup.workload.recorded().map(|recorded| Replayed::of(recorded, core, world)),
        }
    }
}
