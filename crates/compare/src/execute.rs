//! One run: its input, its result, and the trait of executors.
use crate::environment::Environment;
use crate::residency::Residency;
use crate::timeline::Recorded;
use crate::{Scheduler, Waits, Workload};
use flsched_probes::why::Why;
use flsched_recording::timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One workload under one scheduler, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    pub scheduler: Scheduler,
    /// How the threads of parallel runtimes wait, where the user's environment does not set it.
    #[serde(default)]
    pub waits: Option<Waits>,
    pub workload: Workload,
    /// Seconds after which the run counts as hung and is killed.
    pub limit_s: f64,
    /// The seed of everything that is drawn in the run, where it is repeatable.
    #[serde(default)]
    pub seed: u64,
    /// What watches the run, if anything does.
    #[serde(default)]
    pub probe: Option<Probe>,
}

/// What watches a run, so that its time does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// What breaks the CPU time down by cause.
    Why,
    /// What records which task ran where.
    Timeline,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Ending {
    /// The workload finished, under its scheduler throughout.
    Timed {
        /// The workload's own figure, or its elapsed time.
        time_s: f64,
    },
    /// The kernel ejected the scheduler, so the time is not the scheduler's.
    Ejected {
        /// The reason as the kernel reports it.
        reason: String,
    },
    /// The workload or the scheduler failed.
    Failed {
        /// What failed, and why.
        reason: String,
    },
    /// It did not end in time, or its machine crashed.
    Hung {
        /// What did not happen in time.
        reason: String,
    },
    /// It was skipped, because the runs before it hung.
    #[serde(rename = "not tried")]
    NotTried { reason: String },
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// How it ended, and the time if it has one.
    pub ending: Ending,
    /// From the workload's start to its exit.
    pub elapsed_s: Option<f64>,
    /// On all CPUs, by any task, while the workload ran.
    pub context_switches: Option<u64>,
    /// Migrations, counted in the same way; `None`: not permitted here.
    pub migrations: Option<u64>,
    /// Calls of `sched_yield` that the workload counted.
    pub yields: Option<u64>,
    /// Further figures, the workload's own and the frequencies of the CPUs, by name with the unit last.
    pub figures: Vec<(String, f64)>,
    /// For how long CPUs ran at each frequency; `None`: not known.
    pub residency: Option<Residency>,
    /// The proof that the scheduler was in force.
    pub proof: Proof,
    /// The version that the scheduler reports.
    pub scheduler_version: Option<String>,
    /// The policy's named statistics at the end of the run.
    pub stats: Vec<(String, u64)>,
    /// The breakdown of CPU time, if it was requested.
    #[serde(default)]
    pub why: Option<Why>,
    /// What ran where, if it was requested, as it comes from the machine.
    #[serde(default)]
    pub recorded: Option<Recorded>,
    /// The same, to be drawn.
    #[serde(skip)]
    pub timeline: Option<Arc<Timeline>>,
}

impl RunOutcome {
    /// The outcome of a run that ended before it was measured.
    pub fn without_measurement(ending: Ending) -> Self {
        Self {
            ending,
            elapsed_s: None,
            context_switches: None,
            migrations: None,
            yields: None,
            figures: Vec::new(),
            residency: None,
            proof: Proof::default(),
            scheduler_version: None,
            stats: Vec::new(),
            why: None,
            recorded: None,
            timeline: None,
        }
    }

    /// The run's time, if it has one.
    pub fn time_s(&self) -> Option<f64> {
        match self.ending {
            Ending::Timed { time_s } => Some(time_s),
            _ => None,
        }
    }

    /// Why the run has no time; `None`: it has one.
    pub fn trouble(&self) -> Option<&str> {
        match &self.ending {
            Ending::Timed { .. } => None,
            Ending::Ejected { reason }
            | Ending::Failed { reason }
            | Ending::Hung { reason }
            | Ending::NotTried { reason } => Some(reason),
        }
    }
}

/// The proof that the scheduler under test, and no other, was in force from the workload's start to
/// its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Whether all of the following is as it must be.
    pub holds: bool,
    /// The workload's class as the kernel reports it after the start.
    pub class: Option<String>,
    /// sched_ext's state when the workload started.
    pub at_start: Option<Attachment>,
    /// sched_ext's state when the workload had ended.
    pub at_end: Option<Attachment>,
    /// sched_ext's state after detaching.
    pub state_after: Option<String>,
}

/// The attached scheduler as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// `enabled`, `disabled`, …
    pub state: String,
    /// The scheduler's name in the kernel.
    pub ops: Option<String>,
    /// Schedulers enabled since boot: unchanged over a run, so no other scheduler was attached in
    /// between.
    pub enable_seq: u64,
}

/// Why there is no outcome: no run is possible, so this one is not at fault.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The machine is not able to; the message has the remedy.
    #[error("{0}")]
    Unable(String),
    /// The VM could not be booted.
    #[error("the VM did not start")]
    Vm(#[from] flsched_vm::VmError),
    /// The program inside the VM gave an invalid answer.
    #[error("the measuring program inside the VM: {0}")]
    Agent(String),
}

pub trait Executor {
    /// The machine on which the runs are done.
    fn environment(&mut self) -> Result<Environment, ExecError>;

    /// Announces the runs that will be requested, in their order, if none hangs.
    fn prepare(&mut self, _requests: &[RunRequest]) {}

    /// Does one run. A run that fails is an outcome, not an error.
    fn run(&mut self, request: &RunRequest) -> Result<RunOutcome, ExecError>;

    /// Whether the next run is the first on a machine that has just been started, and needs a
    /// warm-up of its own.
    fn is_cold(&self) -> bool {
        false
    }
}
