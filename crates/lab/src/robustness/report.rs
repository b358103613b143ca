//! What was measured, as published under `results/`.
use flsched_base::reports::{self, Fields, Kept};
use serde::{Deserialize, Serialize};

/// The default scheduler, to which the others are compared.
pub const BASE: &str = "eevdf";
/// The same once more, last in each boot: how far it is from itself.
pub const BASE_AGAIN: &str = "eevdf again";

/// Whether this name of an arm is a policy's.
pub fn is_policy(scheduler: &str) -> bool {
    scheduler != BASE && scheduler != BASE_AGAIN
}

/// All that was measured on one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub kernel: String,
    /// The clock of the virtual machine.
    pub clock: String,
    pub cpus: u32,
    /// The day of the last measurement.
    pub date: String,
    pub flsched_version: String,
    /// In the order of loads.toml, by instances a CPU.
    pub entries: Vec<Entry>,
}

impl Kept for Report {
    const KIND: &'static str = "robustness";
    const VERSION: u32 = 2;

    fn renamed(old: Fields) -> Fields {
        reports::renamed(old, "version", "flsched_version")
    }
}

/// A load with a number of instances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub load: String,
    /// Instances a CPU.
    pub per_cpu: u32,
    pub command: String,
    /// Whether it has real-time or deadline tasks.
    #[serde(default, skip_serializing_if = "is_false")]
    pub realtime: bool,
    /// By scheduler, in the order of a boot.
    pub arms: Vec<Arm>,
}

/// A load under one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// [`BASE`], a policy, or [`BASE_AGAIN`].
    pub scheduler: String,
    /// At least one.
    pub runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The longest time from a wake-up to running, of tasks of nice 0 that sleep for 2 ms at a time: one that may run
    /// anywhere, and one on each CPU.
    pub longest_wait_ms: f64,
    /// The most tasks that were runnable at a time, on all CPUs.
    pub runnable: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    pub kind: Kind,
    pub text: String,
}

/// A kind of fault, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The virtual machine ended, or said nothing for minutes.
    MachineLost,
    /// The kernel has ejected the scheduler.
    Ejected,
    /// `flsched attach` has detached it, as real-time tasks kept all others waiting.
    Detached,
    /// The kernel's log has a warning.
    KernelLog,
    /// The load did not end by itself.
    NotEnded,
    /// The load reported a failure.
    Failed,
    /// A wait beyond the documented bound.
    Wait,
    /// Less than half as fast.
    Throughput,
}

impl Kind {
    /// As people read it.
    pub fn text(self) -> &'static str {
        match self {
            Self::MachineLost => "machine lost",
            Self::Ejected => "ejected",
            Self::Detached => "detached",
            Self::KernelLog => "kernel log",
            Self::NotEnded => "not ended",
            Self::Failed => "failed",
            Self::Wait => "wait",
            Self::Throughput => "throughput",
        }
    }
}

impl Entry {
    /// The load under this scheduler.
    pub fn arm(&self, scheduler: &str) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.scheduler == scheduler)
    }
}

impl Arm {
    /// Of all runs that have one.
    pub fn rates(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.rate).collect()
    }

    /// The longest wait of all runs.
    pub fn longest_wait_ms(&self) -> f64 {
        self.runs.iter().map(|run| run.longest_wait_ms).fold(0.0, f64::max)
    }

    /// The most runnable tasks of all runs.
    pub fn runnable(&self) -> u32 {
        self.runs.iter().map(|run| run.runnable).max().unwrap_or(0)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_false(value: &bool) -> bool {
    !value
}
