//! Carries out a comparison: the plan, the runs, and the report after every run.
use crate::environment::Environment;
use crate::execute::{Ending, ExecError, Executor, Probe, RunOutcome, RunRequest};
use crate::output::{OutputError, Outputs};
use crate::plan::{Arm, Step, arms, plan, watched};
use crate::result::{ArmResult, Report};
use crate::spec::CompareSpec;
use crate::summary::{Record, arm_name, results};
use crate::warnings::warnings;
use crate::{Contender, Target};
use flsched_recording::timeline::{Beside, Run};
use flsched_spec::{PolicyFile, UsageError};
use humantime::format_rfc3339_seconds;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// After this number of hung runs in a row, no further run of the arm is tried.
const HUNG_ENOUGH: usize = 2;

/// What happens during a comparison.
#[derive(Debug)]
pub enum Event<'a> {
    /// The machine is ready; the runs begin.
    Started {
        environment: &'a Environment,
        /// The seed of the order of runs.
        seed: u64,
        /// Runs to do, warm-ups included.
        runs: usize,
    },
    RunStarted(RunInfo<'a>),
    /// A run has ended.
    RunEnded(RunInfo<'a>, &'a RunOutcome),
}

/// The run that an event is about.
#[derive(Debug, Clone, Copy)]
pub struct RunInfo<'a> {
    /// The run's number, from 1.
    pub number: usize,
    /// The number of runs, warm-ups included.
    pub of: usize,
    /// The scheduler's name as in the report.
    pub scheduler: &'a str,
    /// The workload's name as in the report.
    pub workload: &'a str,
    /// It is a warm-up: its time does not count.
    pub warm_up: bool,
    /// What watches it, so that its time does not count.
    pub probe: Option<Probe>,
    /// The time of the previous run of the same workload under the same scheduler.
    pub last_time_s: Option<f64>,
}

/// Gets the events of a comparison.
pub trait Observer {
    /// Called at each event.
    fn event(&mut self, event: &Event<'_>);
}

impl<F: FnMut(&Event<'_>)> Observer for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// Why a comparison is not complete. What was measured so far is in the report, and in the files.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The parts of the request do not fit together.
    #[error("this comparison is not possible")]
    Usage(#[from] UsageError),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted {
        /// The results so far; `None`: no run was finished.
        report: Option<Box<Report>>,
    },
    /// No further run is possible.
    #[error("the comparison cannot continue")]
    Executor {
        source: ExecError,
        /// The results so far; `None`: no run was finished.
        report: Option<Box<Report>>,
    },
    /// The report cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CompareError {
    fn stopped(source: ExecError, report: Option<Report>) -> Self {
        let report = report.map(Box::new);
        match source {
            ExecError::Interrupted => Self::Interrupted { report },
            source => Self::Executor { source, report },
        }
    }
}

/// Carries out all runs and writes the report. Stops when `cancel` is set.
pub fn compare(
    spec: &CompareSpec,
    executor: &mut dyn Executor,
    observer: &mut dyn Observer,
    outputs: &Outputs,
    cancel: &Arc<AtomicBool>,
) -> Result<Report, CompareError> {
    spec.check()?;
    let environment = environment(spec, executor).map_err(|source| CompareError::stopped(source, None))?;
    let mut comparison = Comparison::new(spec, environment);
    executor.prepare(&comparison.requests());
    outputs.write(&comparison.report())?;
    observer.event(&Event::Started {
        environment: &comparison.environment,
        seed: spec.seed,
        runs: comparison.steps.len(),
    });
    let mut pace = Pace::default();
    for index in 0..comparison.steps.len() {
        let stopped = match cancel.load(Ordering::Relaxed) {
            true => Err(ExecError::Interrupted),
            false => comparison.run(index, executor, observer),
        };
        if let Err(source) = stopped {
            let report = comparison.report();
            outputs.write(&report)?;
            return Err(CompareError::stopped(source, Some(report)));
        }
        if !outputs.is_none() && pace.is_due() {
            pace.time(|| outputs.write(&comparison.report()))?;
        }
    }
    let report = comparison.report();
    outputs.write(&report)?;
    Ok(report)
}

/// How often the files are written: after every run, unless that would take a good part of the time, as with thousands
/// of short runs in the simulator.
#[derive(Default)]
struct Pace {
    /// When they were written last, and how long that took.
    last: Option<(Instant, Duration)>,
}

impl Pace {
    /// Writing is to take a twentieth of the time at most.
    const RUNS_PER_WRITING: u32 = 19;

    fn is_due(&self) -> bool {
        self.last.is_none_or(|(written, took)| written.elapsed() >= took * Self::RUNS_PER_WRITING)
    }

    fn time<T>(&mut self, write: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = write();
        self.last = Some((Instant::now(), started.elapsed()));
        result
    }
}

/// All runs of a comparison, in the order in which [`compare()`] requests them if none hangs.
pub fn requests(spec: &CompareSpec) -> Vec<RunRequest> {
    Comparison::new(spec, Environment::default()).requests()
}

/// Where the runs are done, as the report has it.
pub fn environment(spec: &CompareSpec, executor: &mut dyn Executor) -> Result<Environment, ExecError> {
    let environment = executor.environment()?;
    Ok(Environment { policy_files: policy_files(&spec.schedulers), ..environment })
}

/// The files of policies that the user gave as files.
fn policy_files(schedulers: &[Contender]) -> BTreeMap<String, PolicyFile> {
    let policies = schedulers.iter().filter_map(|contender| contender.scheduler.policy());
    policies.filter_map(|policy| Some((policy.name.to_owned(), policy.file.clone()?))).collect()
}

/// The state of a comparison in progress.
struct Comparison<'a> {
    spec: &'a CompareSpec,
    arms: Vec<Arm>,
    steps: Vec<Step>,
    /// The seed of each step.
    seeds: Vec<u64>,
    environment: Environment,
    started: Instant,
    started_at: String,
    records: Vec<Record>,
}

impl<'a> Comparison<'a> {
    fn new(spec: &'a CompareSpec, environment: Environment) -> Self {
        let mut steps = plan(spec.workloads.len(), spec.schedulers.len(), spec.runs, spec.seed);
        for (probe, is_asked) in [(Probe::Why, spec.why), (Probe::Timeline, spec.timeline)] {
            if is_asked {
                steps.extend(watched(probe, spec.workloads.len(), spec.schedulers.len()));
            }
        }
        if spec.on == Target::Sim {
            // The simulator needs no warm-up.
            steps.retain(|step| !step.warm_up);
        }
        let mut comparison = Self {
            spec,
            arms: arms(spec.schedulers.len()),
            steps,
            seeds: Vec::new(),
            environment,
            started: Instant::now(),
            started_at: format_rfc3339_seconds(SystemTime::now()).to_string(),
            records: Vec::new(),
        };
        comparison.seeds = comparison.draw_seeds();
        comparison
    }

    fn run(
        &mut self,
        index: usize,
        executor: &mut dyn Executor,
        observer: &mut dyn Observer,
    ) -> Result<(), ExecError> {
        let step = self.steps[index];
        if let Some(reason) = self.spec.unable.get(&step.workload) {
            let outcome = RunOutcome::without_measurement(Ending::NotTried { reason: reason.clone() });
            self.records.push(Record { run: index + 1, step, outcome });
            return Ok(());
        }
        let scheduler = arm_name(self.spec, &self.arms[step.arm]);
        let workload = self.spec.workloads[step.workload].to_string();
        let info = RunInfo {
            number: index + 1,
            of: self.steps.len(),
            scheduler: &scheduler,
            workload: &workload,
            warm_up: step.warm_up,
            probe: step.probe,
            last_time_s: self.of_same(&step).find_map(|record| record.outcome.time_s()),
        };
        observer.event(&Event::RunStarted(info));
        let mut outcome = self.outcome(index, executor)?;
        if let Some(recorded) = outcome.recorded.take() {
            outcome.timeline = recorded.timeline().ok().map(Arc::new);
        }
        observer.event(&Event::RunEnded(info, &outcome));
        self.records.push(Record { run: index + 1, step, outcome });
        Ok(())
    }

    /// The first runs of all schedulers have the same seed, and so do the second runs. The second copy of
    /// the first scheduler has seeds of its own, as the difference that they make is the noise.
    fn draw_seeds(&self) -> Vec<u64> {
        let runs = u64::from(self.spec.runs);
        let seed = |index: usize| {
            let step = self.steps[index];
            let alike = |other: &&Step| (other.workload, other.arm) == (step.workload, step.arm);
            let before = self.steps[..index].iter().filter(alike).count() as u64;
            let again = u64::from(self.arms[step.arm].again);
            self.spec.seed.wrapping_add(before + again * (runs + 1))
        };
        (0..self.steps.len()).map(seed).collect()
    }

    fn requests(&self) -> Vec<RunRequest> {
        (0..self.steps.len()).map(|index| self.request(index)).collect()
    }

    fn request(&self, index: usize) -> RunRequest {
        let step = self.steps[index];
        let contender = &self.spec.schedulers[self.arms[step.arm].scheduler];
        RunRequest {
            scheduler: contender.scheduler.clone(),
            waits: contender.waits,
            workload: self.spec.workloads[step.workload].clone(),
            limit_s: self.spec.limit.as_secs_f64(),
            seed: self.seeds[index],
            probe: step.probe,
        }
    }

    fn outcome(&self, index: usize, executor: &mut dyn Executor) -> Result<RunOutcome, ExecError> {
        let step = &self.steps[index];
        if let Some(reason) = self.hopeless(step) {
            return Ok(RunOutcome::without_measurement(Ending::NotTried { reason }));
        }
        let request = self.request(index);
        if executor.is_cold() && !step.warm_up {
            let warm_up = executor.run(&RunRequest { probe: None, ..request.clone() })?;
            if warm_up.time_s().is_none() {
                return Ok(warm_up);
            }
        }
        executor.run(&request)
    }

    /// After two hung runs in a row the rest of an arm is skipped: every further run would take the
    /// whole time limit.
    fn hopeless(&self, step: &Step) -> Option<String> {
        let hung = self
            .of_same(step)
            .skip_while(|record| matches!(record.outcome.ending, Ending::NotTried { .. }))
            .take_while(|record| matches!(record.outcome.ending, Ending::Hung { .. }))
            .count();
        (hung >= HUNG_ENOUGH).then(|| format!("the last {HUNG_ENOUGH} runs hung"))
    }

    /// Earlier runs of the same workload under the same scheduler, the latest first.
    fn of_same(&self, step: &Step) -> impl Iterator<Item = &Record> {
        let (workload, arm) = (step.workload, step.arm);
        let same = move |other: &Step| other.workload == workload && other.arm == arm;
        self.records.iter().rev().filter(move |record| same(&record.step))
    }

    fn report(&self) -> Report {
        let spec = self.spec;
        let (noise, results) = results(spec, &self.arms, &self.records);
        let timelines = pictured(&results);
        // The same seed gives the same bytes.
        let is_model = spec.on == Target::Sim;
        let mut report = Report {
            flsched_version: env!("CARGO_PKG_VERSION").into(),
            clock: spec.clock,
            kernel: self.environment.kernel.clone(),
            cpus: self.environment.cpus,
            seed: spec.seed,
            runs: spec.runs,
            on: spec.on,
            complete: self.records.len() == self.steps.len(),
            started_at: if is_model { String::new() } else { self.started_at.clone() },
            duration_s: if is_model { 0.0 } else { self.started.elapsed().as_secs_f64() },
            command_line: shell_words::join(&spec.command_line),
            limit_s: spec.limit.as_secs_f64(),
            warnings: warnings(spec, &self.environment, &results),
            environment: self.environment.clone(),
            noise,
            published: spec
                .workloads
                .iter()
                .filter_map(|workload| Some((workload.to_string(), workload.published()?)))
                .collect(),
            results,
            timelines,
        };
        report.round();
        report
    }
}

/// What pictures show of the runs that were recorded.
fn pictured(results: &[ArmResult]) -> BTreeMap<String, Beside> {
    let mut runs: BTreeMap<String, Vec<Run<'_>>> = BTreeMap::new();
    for result in results {
        if let Some(timeline) = &result.timeline {
            let run = Run { name: result.scheduler.clone(), timeline };
            runs.entry(result.workload.clone()).or_default().push(run);
        }
    }
    runs.into_iter().map(|(workload, runs)| (workload, Beside::new(&runs))).collect()
}

#[cfg(test)]
mod tests;
