//! The report as data: what `--json` writes. Described for its readers in `docs/reference/compare-json.md`.
use crate::Target;
use crate::clock::Clock;
use crate::digits::{microseconds, ratio, seconds, significant};
use crate::environment::Environment;
use crate::execute::Proof;
use crate::proof::InFile;
use crate::residency::Residency;
use crate::stats::ratio_of_medians;
use crate::verdict::{Evidence, Noise, Verdict};
use flsched_base::reports::Kept;
use flsched_probes::why::Why;
use flsched_recording::timeline::{Beside, Timeline};
use flsched_spec::workload::Published;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A comparison, finished or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The version of the program that measured.
    pub flsched_version: String,
    /// What a second is.
    pub clock: Clock,
    /// `uname -r` where the runs were done.
    pub kernel: String,
    /// CPUs online there.
    pub cpus: u32,
    /// The seed of the order of runs.
    pub seed: u64,
    /// Timed runs requested of each workload under each scheduler.
    pub runs: u32,
    /// On this machine, in a VM on it, or in the simulator.
    pub on: Target,
    /// All runs have been done.
    pub complete: bool,
    /// Date and time of the first run, UTC; empty in the simulator, where the same seed gives the same
    /// report.
    pub started_at: String,
    /// Seconds from then until this was written, on the clock of the machine that compares; 0 in
    /// the simulator.
    pub duration_s: f64,
    /// The command line as typed.
    pub command_line: String,
    /// Seconds after which a run counts as hung.
    pub limit_s: f64,
    /// Warnings about the figures.
    pub warnings: Vec<String>,
    /// Where the runs were done.
    pub environment: Environment,
    /// By workload: how much times vary between identical runs.
    pub noise: BTreeMap<String, Noise>,
    /// By workload: published results for the same work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub published: BTreeMap<String, Published>,
    /// Every workload under every scheduler, in the order named.
    pub results: Vec<ArmResult>,
    /// By workload: what ran where in one more run of each scheduler, if that was requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub timelines: BTreeMap<String, Beside>,
}

impl Kept for Report {
    const KIND: &'static str = "compare";
    const VERSION: u32 = 2;
}

impl Report {
    /// With no more digits than its figures carry; a report that is rounded stays as it is.
    pub fn round(&mut self) {
        self.duration_s = microseconds(self.duration_s);
        if let Some(vm) = &mut self.environment.vm {
            vm.boot_s = microseconds(vm.boot_s);
        }
        self.noise.values_mut().for_each(Noise::round);
        self.results.iter_mut().for_each(ArmResult::round);
    }

    /// Without what is of a single CPU: of a large machine that is most of a report. For simulations, in which a seed gives it
    /// again.
    pub fn summarise(&mut self) {
        let is_of_a_cpu = |name: &str| {
            let number = name.strip_prefix("cpu").and_then(|rest| rest.strip_suffix("_mhz"));
            number.is_some_and(|it| it.parse::<u32>().is_ok())
        };
        for arm in &mut self.results {
            arm.residency.iter_mut().for_each(|it| it.cpus_s.clear());
            arm.figures.retain(|figure| !is_of_a_cpu(&figure.name));
        }
    }

    /// Whether there is at least one time.
    pub fn has_results(&self) -> bool {
        self.results.iter().any(|result| result.time_s.is_some())
    }
}

/// One workload under one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmResult {
    /// The workload with all its parameters.
    pub workload: String,
    /// The scheduler as the user named it; the first one's second appearance is called `NAME
    /// (again)`.
    pub scheduler: String,
    /// The version that the scheduler reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_version: Option<String>,
    /// Runs done, without the warm-up.
    pub runs: usize,
    /// What the time is; `None`: how long the workload takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_is: Option<String>,
    /// The time of a run; `None`: no run has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<Figure>,
    /// The time of each run that has one, in the order of the runs.
    pub times_s: Vec<f64>,
    /// Context switches on all CPUs during a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<Counts>,
    /// Migrations, counted in the same way; `None`: not permitted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations: Option<Counts>,
    /// Calls of `sched_yield`, where the workload counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yields: Option<Counts>,
    /// Further figures of the workload's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Values>,
    /// For how long CPUs ran at each frequency in all runs that have a time; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
    /// Median time of the first scheduler over median time of this one: above 1, this is faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_first: Option<f64>,
    /// Lower end of its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_first_low: Option<f64>,
    /// Upper end of its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_first_high: Option<f64>,
    /// The verdict against the first scheduler.
    pub verdict: Verdict,
    /// What decided the verdict.
    pub verdict_reason: String,
    /// Runs in which the kernel ejected the scheduler.
    pub ejected: usize,
    /// Every run without a time, ejections included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failure>,
    /// The proof that the scheduler was in force.
    pub attached_proof: AttachedProof,
    /// The policy's named statistics, of the last run that has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stats: BTreeMap<String, u64>,
    /// The breakdown of CPU time of one more run; `None`: not requested, or that run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Breakdown>,
    /// Why there is none, although it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_failed: Option<String>,
    /// What ran where in one more run, if that was requested, with everything that a trace holds;
    /// [`Report::timelines`] has what pictures show of it.
    #[serde(skip)]
    pub timeline: Option<Arc<Timeline>>,
    /// Why there is none although it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline_failed: Option<String>,
}

impl ArmResult {
    /// Compares it with another arm, whose time is the numerator. `noise` is that of the workload.
    pub fn evidence(&self, first: &Self, noise: Option<Noise>) -> Evidence {
        Evidence {
            ratio: ratio_of_medians(&first.times_s, &self.times_s),
            noise,
            timed_runs: first.times_s.len().min(self.times_s.len()),
            untimed_runs: self.failed.len(),
            untimed_first: first.failed.len(),
        }
    }

    fn round(&mut self) {
        self.times_s.iter_mut().for_each(|it| *it = seconds(*it));
        if let Some(Figure { median, low, high }) = &mut self.time_s {
            [median, low, high].into_iter().for_each(|it| *it = seconds(*it));
        }
        for Values { median, values, .. } in &mut self.figures {
            values.iter_mut().chain([median]).for_each(|it| *it = significant(*it));
        }
        self.residency.iter_mut().for_each(Residency::round);
        let ratios = [&mut self.ratio_to_first, &mut self.ratio_to_first_low, &mut self.ratio_to_first_high];
        ratios.into_iter().flatten().for_each(|it| *it = ratio(*it));
        if let Some(Breakdown { time_s, longer_percent, why }) = &mut self.why {
            *time_s = seconds(*time_s);
            longer_percent.iter_mut().for_each(|it| *it = significant(*it));
            why.span_s = seconds(why.span_s);
            percentages(why).into_iter().for_each(|it| *it = significant(*it));
        }
    }
}

/// The breakdown of a run's CPU time. The run counts in no other figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    pub time_s: f64,
    /// How much longer that is than the median of the runs without the probe, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longer_percent: Option<f64>,
    /// Causes in percent of all CPUs' time.
    #[serde(flatten)]
    pub why: Why,
}

fn percentages(why: &mut Why) -> [&mut f64; 14] {
    [
        &mut why.user,
        &mut why.kernel,
        &mut why.of_which_vain,
        &mut why.wake_ups,
        &mut why.switching,
        &mut why.lock_waits,
        &mut why.interrupts,
        &mut why.probe,
        &mut why.idle_task_waits,
        &mut why.of_which_late,
        &mut why.idle_nothing,
        &mut why.of_which_start,
        &mut why.of_which_tail,
        &mut why.other,
    ]
}

/// A median and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Half of the runs are below.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Counts of each run that has a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Half of the runs are below.
    pub median: f64,
    /// In the order of the runs.
    pub values: Vec<u64>,
}

/// A figure of each run that has a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// What it is, with the unit last.
    pub name: String,
    /// Half of the runs are below.
    pub median: f64,
    /// In the order of the runs.
    pub values: Vec<f64>,
}

/// A run without a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The run's number in the order of all runs, from 1.
    pub run: usize,
    pub kind: FailureKind,
    pub reason: String,
}

/// Why a run has no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The kernel ejected the scheduler.
    Ejected,
    /// The workload or the scheduler failed.
    Failed,
    /// It did not end in time, or its machine crashed.
    Hung,
    /// The runs before it hung, in a row.
    #[serde(rename = "not tried")]
    NotTried,
}

/// The proof that the scheduler under test was in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "InFile", into = "InFile")]
pub struct AttachedProof {
    /// Runs for which it is proved.
    pub verified: usize,
    /// Runs done.
    pub of: usize,
    /// What the kernel reported in each run.
    pub runs: Vec<RunProof>,
}

/// What the kernel reported in one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProof {
    /// The run's number in the order of all runs, from 1.
    pub run: usize,
    #[serde(flatten)]
    pub proof: Proof,
}
