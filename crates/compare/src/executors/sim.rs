//! Runs in the simulator, several at a time if requested. The results do not depend on how many.
use crate::environment::{Environment, Topology};
use crate::execute::{Ending, ExecError, Executor, Probe, Proof, RunOutcome, RunRequest};
use crate::residency::{Residency, Source, Time};
use flsched_machine::Machine;
use flsched_recording::timeline::Timeline;
use flsched_sim::output::Outcome;
use flsched_sim::workload;
use flsched_sim::{Error, Setup, Simulation, load};
use flsched_spec::workload::Model;
use flsched_spec::{UsageError, Workload};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Limit of a run in simulated time, in ns: an hour.
const LIMIT_NS: u64 = 3_600_000_000_000;
/// Pause between two checks whether to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Carries out runs in the simulator.
pub struct SimExecutor {
    machine: Arc<Machine>,
    workloads: Workloads,
    jobs: usize,
    cancel: Arc<AtomicBool>,
    /// Stops the worker threads when this executor is dropped.
    abandoned: Arc<AtomicBool>,
    workers: Option<Receiver<(RunRequest, RunOutcome)>>,
    /// Runs that are finished and not yet requested.
    done: Vec<(RunRequest, RunOutcome)>,
}

impl SimExecutor {
    /// Simulates these workloads on `machine`, with `jobs` runs at a time, at least one. Files that workloads name are
    /// read and checked here, and whether the machine has enough CPUs. `cancel` stops the current run, too.
    pub fn new(
        machine: Machine,
        workloads: &[Workload],
        jobs: usize,
        cancel: Arc<AtomicBool>,
    ) -> Result<Self, UsageError> {
        Ok(Self {
            workloads: Workloads::load(workloads, &machine)?,
            machine: Arc::new(machine),
            jobs,
            cancel,
            abandoned: Arc::default(),
            workers: None,
            done: Vec::new(),
        })
    }
}

impl Executor for SimExecutor {
    fn environment(&mut self) -> Result<Environment, ExecError> {
        let places = &self.machine.places;
        let distinct = |of: &dyn Fn(usize) -> usize| (0..places.len()).map(of).collect::<BTreeSet<_>>().len();
        Ok(Environment {
            kernel: "6.18, modelled".into(),
            cpus: places.len() as u32,
            cpu_model: Some(self.machine.description.clone()),
            topology: Topology {
                sockets: distinct(&|cpu| places[cpu].package),
                cores: distinct(&|cpu| places[cpu].core),
                nodes: distinct(&|cpu| places[cpu].node),
                caches: distinct(&|cpu| places[cpu].cache),
            },
            sched_ext: true,
            model: Some(self.machine.name.clone()),
            ..Environment::default()
        })
    }

    fn prepare(&mut self, requests: &[RunRequest]) {
        if self.jobs < 2 {
            return;
        }
        let (sender, receiver) = channel();
        let next = Arc::new(AtomicUsize::new(0));
        let requests: Arc<Vec<RunRequest>> = Arc::new(requests.to_vec());
        for _ in 0..self.jobs {
            let (sender, next, requests) = (sender.clone(), Arc::clone(&next), Arc::clone(&requests));
            let (machine, workloads) = (Arc::clone(&self.machine), self.workloads.clone());
            let (cancel, abandoned) = (Arc::clone(&self.cancel), Arc::clone(&self.abandoned));
            std::thread::spawn(move || {
                while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (cancel, abandoned) = (Arc::clone(&cancel), Arc::clone(&abandoned));
                    let stop = move || cancel.load(Ordering::Relaxed) || abandoned.load(Ordering::Relaxed);
                    let outcome = simulate(&machine, &workloads, request, stop);
                    if sender.send((request.clone(), outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        self.workers = Some(receiver);
    }

    fn run(&mut self, request: &RunRequest) -> Result<RunOutcome, ExecError> {
        let outcome = loop {
            if let Some(at) = self.done.iter().position(|(of, _)| of == request) {
                break self.done.swap_remove(at).1;
            }
            let Some(workers) = &self.workers else {
                let cancel = Arc::clone(&self.cancel);
                let stop = move || cancel.load(Ordering::Relaxed);
                break simulate(&self.machine, &self.workloads, request, stop);
            };
            match workers.recv_timeout(CHECK_INTERVAL) {
                Ok(done) => self.done.push(done),
                Err(RecvTimeoutError::Timeout) if self.cancel.load(Ordering::Relaxed) => {
                    return Err(ExecError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The workers are done, so this run was not announced to prepare().
                Err(RecvTimeoutError::Disconnected) => self.workers = None,
            }
        };
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(ExecError::Interrupted),
            false => Ok(outcome),
        }
    }
}

impl Drop for SimExecutor {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }
}

/// Workloads, and what the simulator loaded for each.
#[derive(Clone)]
struct Workloads(Arc<[(Workload, Arc<dyn workload::Workload>)]>);

impl Workloads {
    fn load(workloads: &[Workload], machine: &Machine) -> Result<Self, UsageError> {
        let checked = |model: &Model| -> Result<_, Error> {
            let loaded = load(model)?;
            loaded.check(machine.nr_cpus())?;
            Ok(loaded)
        };
        let load = |workload: &Workload| match workload {
            Workload::Model(model) => match checked(model) {
                Ok(loaded) => Ok((workload.clone(), loaded)),
                Err(error) => Err(UsageError(error.to_string())),
            },
            Workload::Program(program) => {
                Err(UsageError(format!("{program} is a program, which the simulator cannot run")))
            }
        };
        workloads.iter().map(load).collect::<Result<_, _>>().map(Self)
    }

    fn get(&self, workload: &Workload) -> Result<Arc<dyn workload::Workload>, UsageError> {
        let found = self.0.iter().find(|(name, _)| name == workload);
        let (_, loaded) =
            found.ok_or_else(|| UsageError(format!("{workload} was not loaded for the simulator")))?;
        Ok(Arc::clone(loaded))
    }
}

fn simulate(
    machine: &Arc<Machine>,
    workloads: &Workloads,
    request: &RunRequest,
    stop: impl Fn() -> bool + 'static,
) -> RunOutcome {
    let started = Instant::now();
    let limit_s = request.limit_s;
    let stop = move || stop() || started.elapsed().as_secs_f64() > limit_s;
    let run = || -> Result<(Outcome, Option<Arc<Timeline>>), Error> {
        let setup = Setup {
            machine: Arc::clone(machine),
            scheduler: request.scheduler.clone(),
            workload: workloads.get(&request.workload)?,
            seed: request.seed,
            limit: LIMIT_NS,
        };
        let simulation = Simulation::new(setup)?.stop_if(stop);
        match request.probe {
            Some(Probe::Timeline) => {
                let (outcome, timeline) = simulation.run_recorded();
                let outcome = outcome?;
                let timeline = measured_part(timeline, &request.workload, &outcome);
                Ok((outcome, Some(Arc::new(timeline))))
            }
            _ => Ok((simulation.run()?, None)),
        }
    };
    match run() {
        Ok((outcome, timeline)) => RunOutcome { timeline, ..outcome_of(&outcome) },
        Err(error) => {
            let reason = error.to_string();
            RunOutcome::without_measurement(match error {
                Error::Limit(_) => Ending::Hung { reason },
                Error::Stopped => Ending::Hung { reason: format!("no end within {limit_s} s of real time") },
                // The kernel would have ejected the policy.
                Error::Violation(_) => Ending::Ejected { reason },
                _ => Ending::Failed { reason },
            })
        }
    }
}

/// The part in which the workload measured its time, which is the last one; all of it if its figure is no duration.
fn measured_part(timeline: Timeline, workload: &Workload, outcome: &Outcome) -> Timeline {
    let end = timeline.end;
    let is_duration = workload.time_is().is_none();
    let measured = if is_duration { (outcome.time_s * 1e9) as u64 } else { end };
    timeline.part(end.saturating_sub(measured)..end)
}

fn outcome_of(outcome: &Outcome) -> RunOutcome {
    let mut figures: Vec<(String, f64)> =
        outcome.figures.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    let latency = |name: &str| outcome.wakeup_latency_us.get(name).copied();
    let all = [
        ("all_wakeups_p50_us", latency("p50")),
        ("all_wakeups_p99_us", latency("p99")),
        ("busy_percent", Some(outcome.busy_share * 100.0)),
        ("lock_wait_percent", Some(outcome.lock_wait_share * 100.0)),
        ("fairness_percent", Some(outcome.fairness * 100.0)),
    ];
    figures.extend(all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))));
    let frequencies = outcome.frequencies.as_ref();
    let cpus = || frequencies.iter().flat_map(|all| &all.cpus);
    figures.extend(frequencies.map(|all| ("busy_mhz".to_owned(), all.busy_mhz)));
    figures.extend(cpus().map(|(cpu, of_cpu)| (format!("cpu{cpu}_mhz"), of_cpu.busy_mhz)));
    if let Some(energy) = frequencies.and_then(|all| all.energy) {
        figures.push(("energy_j".into(), energy.energy_j));
        figures.push(("core_energy_j".into(), energy.core_energy_j));
    }
    let times = cpus().flat_map(|(&cpu, of_cpu)| {
        of_cpu.busy_s_by_mhz.iter().map(move |(&mhz, &s)| Time { cpu, mhz: mhz.into(), s })
    });
    RunOutcome {
        residency: Residency::of(Source::Model, times),
        elapsed_s: Some(outcome.whole_s),
        context_switches: Some(outcome.context_switches),
        migrations: Some(outcome.migrations),
        yields: Some(outcome.yields),
        figures,
        // A simulation has no other scheduler that could be in force.
        proof: Proof { holds: true, ..Proof::default() },
        stats: outcome.stats.iter().map(|(name, value)| (name.clone(), *value)).collect(),
        ..RunOutcome::without_measurement(Ending::Timed { time_s: outcome.time_s })
    }
}
