//! Runs on this machine: attaches the scheduler, runs the workload, detaches, and proves that the scheduler was in
//! force.
mod attach;
mod child;
mod class;
mod counters;
mod frequency;
pub mod preflight;
mod quiet;
mod residency;
mod setting;
mod timeline;
mod why;

use crate::environment::Environment;
use crate::execute::{Attachment, Ending, ExecError, Executor, Probe, Proof, RunOutcome, RunRequest};
use crate::monotonic::monotonic;
use crate::residency::Residency;
use crate::workload::{Measured, runnable};
use crate::{Scheduler, Workload};
use attach::{Detached, Premature};
use child::{Child, ChildEnd};
use class::Class;
use counters::{ContextSwitches, Migrations};
use flsched_spec::workload::Program;
use frequency::Frequencies;
use residency::Watch;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Carries out runs on the machine that this program runs on.
pub struct HostExecutor {
    helper: Vec<OsString>,
    cancel: Arc<AtomicBool>,
    migrations: Migrations,
    frequencies: Frequencies,
    versions: HashMap<String, Option<String>>,
}

impl HostExecutor {
    /// An executor for this machine. Once `cancel` is set, it restores the default scheduler and stops.
    pub fn new(cancel: Arc<AtomicBool>) -> Self {
        Self::with_helper(cancel, vec!["/proc/self/exe".into(), "workload".into()])
    }

    /// The same, with another command than `/proc/self/exe workload` for this build's own workloads.
    pub fn with_helper(cancel: Arc<AtomicBool>, helper: Vec<OsString>) -> Self {
        Self {
            helper,
            cancel,
            migrations: Migrations::open(),
            frequencies: Frequencies::open(),
            versions: HashMap::new(),
        }
    }

    /// The scheduler's version. It is kept, because a peer has to be started to print its version.
    fn version(&mut self, scheduler: &Scheduler) -> Option<String> {
        let label = scheduler.to_string();
        self.versions.entry(label).or_insert_with(|| attach::version(scheduler)).clone()
    }

    /// Runs the workload under the scheduler that is attached.
    fn measure(&mut self, request: &RunRequest, program: &Program) -> Result<Measurement, ExecError> {
        // The folder is removed when this returns, even if the workload had to be killed.
        // Programs work here, as root most times. One that gives parts of it to another user lets that one in.
        let own = Permissions::from_mode(0o700);
        let scratch = tempfile::Builder::new().prefix("flsched-").permissions(own).tempdir();
        let scratch = scratch.map_err(|error| ExecError::Unable(format!("no temporary folder: {error}")))?;
        let argv = runnable(program).argv(&self.helper, scratch.path());
        let limit = Duration::try_from_secs_f64(request.limit_s).unwrap_or(Duration::MAX);
        let switches = ContextSwitches::now();
        let migrations = self.migrations.now();
        let frequencies = self.frequencies.now();
        let watch = Watch::start();
        let mut environment = runnable(program).environment();
        if let Some(waits) = request.waits {
            environment.extend(waits.choose_here().environment());
        }
        let child = match Child::spawn(&argv, environment, Class::of(&request.scheduler)) {
            Ok(child) => child,
            Err(error) => return Ok(Measurement::failed(error.to_string())),
        };
        let class = child.class();
        let end = child.wait(limit, &self.cancel)?;
        let ended_at = monotonic();
        Ok(Measurement {
            elapsed_s: Some(end.elapsed.as_secs_f64()),
            ended_at,
            context_switches: switches.and_then(ContextSwitches::since),
            migrations: migrations.and_then(|before| self.migrations.now()?.checked_sub(before)),
            frequencies: self.frequencies.since(frequencies),
            residency: watch.end(),
            class,
            result: judge(program, &end, limit),
        })
    }
}

/// What watched a run.
enum Watched {
    Nothing,
    Why(flsched_probes::why::Recording),
    Timeline(Box<flsched_recording::Recording>),
}

/// The measurements of a workload while its scheduler was attached.
struct Measurement {
    elapsed_s: Option<f64>,
    /// When the workload ended, on `CLOCK_MONOTONIC`.
    ended_at: Duration,
    context_switches: Option<u64>,
    migrations: Option<u64>,
    frequencies: Vec<(String, f64)>,
    residency: Option<Residency>,
    class: Option<libc::c_int>,
    result: Result<Measured, Ending>,
}

impl Measurement {
    fn failed(reason: String) -> Self {
        Self {
            elapsed_s: None,
            ended_at: Duration::ZERO,
            context_switches: None,
            migrations: None,
            frequencies: Vec::new(),
            residency: None,
            class: None,
            result: Err(Ending::Failed { reason }),
        }
    }
}

/// The workload's figures, if it succeeded.
fn judge(program: &Program, end: &ChildEnd, limit: Duration) -> Result<Measured, Ending> {
    let Some(status) = end.status else {
        let reason = format!("{program} did not end within {limit:?}");
        return Err(Ending::Hung { reason });
    };
    if !status.success() {
        let reason = format!("{program}: {status}{}", end.error_tail());
        return Err(Ending::Failed { reason });
    }
    let elapsed_s = end.elapsed.as_secs_f64();
    runnable(program)
        .measured(&end.output(), elapsed_s)
        .map_err(|why| Ending::Failed { reason: format!("{program}: {why}{}", end.error_tail()) })
}

impl Executor for HostExecutor {
    fn environment(&mut self) -> Result<Environment, ExecError> {
        Ok(Environment::of_this_machine())
    }

    fn run(&mut self, request: &RunRequest) -> Result<RunOutcome, ExecError> {
        let Workload::Program(program) = &request.workload else {
            let model = &request.workload;
            return Err(ExecError::Unable(format!("{model} is a model, and no program: use --on sim")));
        };
        let version = self.version(&request.scheduler);
        let attached = match attach::attach(&request.scheduler, &self.cancel)? {
            Ok(attached) => attached,
            Err(reason) => {
                let outcome = RunOutcome::without_measurement(Ending::Failed { reason });
                return Ok(RunOutcome { scheduler_version: version, ..outcome });
            }
        };
        let cancel = self.cancel.clone();
        let mut run = || {
            // Probes have been loaded by now, which takes a while, and begin here.
            let began = monotonic();
            quiet::wait(&cancel);
            let at_start = attach::attachment();
            let measured = self.measure(request, program);
            (began, at_start, measured, attach::attachment())
        };
        let run = match request.probe {
            None => Ok((run(), Watched::Nothing)),
            Some(Probe::Why) => why::recorded(run)
                .map(|(done, it)| (done, Watched::Why(it)))
                .map_err(|error| error.to_string()),
            Some(Probe::Timeline) => timeline::recorded(run)
                .map(|(done, it)| (done, Watched::Timeline(Box::new(it))))
                .map_err(|error| error.to_string()),
        };
        // The default scheduler is restored before this returns, also after an interruption.
        let detached = attached.detach()?;
        let ((began, at_start, measured, at_end), watched) = match run {
            Ok(run) => run,
            Err(reason) => {
                return Ok(RunOutcome::without_measurement(Ending::Failed { reason }));
            }
        };
        let measured = measured?;
        let (why, recorded) = match watched {
            Watched::Nothing => (None, None),
            Watched::Why(recording) => (why::of(&recording, program, &measured), None),
            Watched::Timeline(recording) => (None, timeline::of(&recording, began, program, &measured)),
        };

        let proof = prove(request, &measured, at_start, at_end, &detached);
        let ending = ending(&measured, &detached, &proof, &request.scheduler);
        Ok(RunOutcome {
            ending,
            elapsed_s: measured.elapsed_s,
            context_switches: measured.context_switches,
            migrations: measured.migrations,
            yields: measured.result.as_ref().ok().and_then(|measured| measured.yields),
            figures: measured
                .result
                .map(|of_workload| [of_workload.figures, measured.frequencies].concat())
                .unwrap_or_default(),
            residency: measured.residency,
            proof,
            scheduler_version: version,
            stats: detached.stats,
            why,
            recorded,
            timeline: None,
        })
    }
}

/// Proves that the scheduler was in force, from what the kernel reported before, during and after the run.
fn prove(
    request: &RunRequest,
    measured: &Measurement,
    at_start: Option<Attachment>,
    at_end: Option<Attachment>,
    detached: &Detached,
) -> Proof {
    let class_holds = measured.class == Some(Class::of(&request.scheduler).policy);
    let enabled = |attachment: &Attachment| attachment.state == "enabled";
    let disabled = |state: &str| state == "disabled";
    let attachment_holds = match (&at_start, &at_end) {
        _ if detached.premature.is_some() => false,
        (Some(start), Some(end)) if request.scheduler.is_sched_ext() => {
            enabled(start) && start == end && attach::is_ops_of(start.ops.as_deref(), &request.scheduler)
        }
        (Some(start), Some(end)) => disabled(&start.state) && disabled(&end.state) && start == end,
        (None, None) => !request.scheduler.is_sched_ext(),
        _ => false,
    };
    let after_holds = detached.state_after.as_deref().is_none_or(disabled);
    Proof {
        holds: class_holds && attachment_holds && after_holds,
        class: measured.class.map(class::name),
        at_start,
        at_end,
        state_after: detached.state_after.clone(),
    }
}

/// How the run ended: well, failed, hung or ejected.
fn ending(measured: &Measurement, detached: &Detached, proof: &Proof, scheduler: &Scheduler) -> Ending {
    match &detached.premature {
        Some(Premature::Ejected(reason)) => return Ending::Ejected { reason: reason.clone() },
        Some(Premature::Ended(reason)) => {
            let reason = format!("{scheduler} ended before the run did: {reason}");
            return Ending::Failed { reason };
        }
        None => {}
    }
    match &measured.result {
        Err(ending) => ending.clone(),
        Ok(_) if !proof.holds => {
            Ending::Failed { reason: format!("{scheduler} was not in force throughout: {}", describe(proof)) }
        }
        Ok(measured) => Ending::Timed { time_s: measured.time_s },
    }
}

fn describe(proof: &Proof) -> String {
    let attachment = |attachment: &Option<Attachment>| match attachment {
        None => "no sched_ext".to_string(),
        Some(Attachment { state, ops, enable_seq }) => {
            format!("{state} {} #{enable_seq}", ops.as_deref().unwrap_or("-"))
        }
    };
    format!(
        "class {}, sched_ext at start: {}, at end: {}, after: {}",
        proof.class.as_deref().unwrap_or("unknown"),
        attachment(&proof.at_start),
        attachment(&proof.at_end),
        proof.state_after.as_deref().unwrap_or("no sched_ext")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    const FLSCHED: &str = concat!("flsched_", env!("CARGO_PKG_VERSION"));

    fn request(scheduler: Scheduler) -> RunRequest {
        RunRequest {
            scheduler,
            waits: None,
            workload: Workload::read("hackbench", Target::Host).unwrap(),
            limit_s: 1.0,
            seed: 0,
            probe: None,
        }
    }

    fn measurement(class: Class) -> Measurement {
        Measurement {
            elapsed_s: Some(1.0),
            ended_at: Duration::from_secs(5),
            context_switches: Some(1),
            migrations: None,
            frequencies: Vec::new(),
            residency: None,
            class: Some(class.policy),
            result: Ok(Measured { time_s: 0.5, ended_at: None, yields: None, figures: Vec::new() }),
        }
    }

    fn detached(premature: Option<Premature>) -> Detached {
        Detached { premature, stats: Vec::new(), state_after: Some("disabled".into()) }
    }

    fn enabled(ops: &str, enable_seq: u64) -> Option<Attachment> {
        Some(Attachment { state: "enabled".into(), ops: Some(ops.into()), enable_seq })
    }

    fn flsched() -> Scheduler {
        "flsched".parse().unwrap()
    }

    fn end_of(
        scheduler: Scheduler,
        start: Option<Attachment>,
        end: Option<Attachment>,
        detached: &Detached,
    ) -> Ending {
        let measured = measurement(Class::of(&scheduler));
        let proof = prove(&request(scheduler.clone()), &measured, start, end, detached);
        ending(&measured, detached, &proof, &scheduler)
    }

    #[test]
    fn a_time_counts_only_with_proof() {
        let timed = Ending::Timed { time_s: 0.5 };
        let good = enabled(FLSCHED, 3);
        assert_eq!(end_of(flsched(), good.clone(), good.clone(), &detached(None)), timed);
        for (start, end) in [
            (good.clone(), enabled(FLSCHED, 4)),
            (good.clone(), None),
            (enabled("bpfland", 3), enabled("bpfland", 3)),
            (None, None),
        ] {
            let ending = end_of(flsched(), start, end, &detached(None));
            assert!(matches!(ending, Ending::Failed { .. }), "{ending:?}");
        }
    }

    #[test]
    fn an_ejected_run_has_no_time() {
        let good = enabled(FLSCHED, 3);
        let stalled = detached(Some(Premature::Ejected("stall".into())));
        let ending = end_of(flsched(), good.clone(), good.clone(), &stalled);
        assert_eq!(ending, Ending::Ejected { reason: "stall".into() });
        let hotplug = detached(Some(Premature::Ended("CPU 1 went offline".into())));
        let ending = end_of(flsched(), good.clone(), good, &hotplug);
        assert!(matches!(ending, Ending::Failed { .. }), "{ending:?}");
    }

    #[test]
    fn a_kernel_class_needs_the_class_and_no_sched_ext() {
        let fifo: Scheduler = "fifo".parse().unwrap();
        let off = Some(Attachment { state: "disabled".into(), ops: None, enable_seq: 0 });
        let timed = Ending::Timed { time_s: 0.5 };
        assert_eq!(end_of(fifo.clone(), None, None, &detached(None)), timed);
        assert_eq!(end_of(fifo.clone(), off.clone(), off, &detached(None)), timed);
        let on = enabled(FLSCHED, 1);
        assert!(matches!(end_of(fifo.clone(), on.clone(), on, &detached(None)), Ending::Failed { .. }));
        let measured = measurement(Class::NORMAL);
        assert!(!prove(&request(fifo), &measured, None, None, &detached(None)).holds);
    }
}
