//! Runs inside a VM: boots it, sends requests to the [`agent`] inside, and boots another when it has ended early.
pub mod agent;

use crate::environment::{Environment, VmEnvironment, first_line, openmp_settings};
use crate::execute::{Ending, ExecError, Executor, RunOutcome, RunRequest};
use crate::{CompareSpec, Contender, workload};
use agent::{Answer, Request};
use flsched_spec::UsageError;
use flsched_vm::{Clock, GuestCommand, GuestExit, Vm, VmError, VmSpec};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Pause between two checks whether to stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the agent may take to describe its machine, on the host's clock.
const ENVIRONMENT_LIMIT: Duration = Duration::from_secs(120);
/// How long a VM may take to end once its input is closed.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// Programs of this machine that the guest needs for a comparison.
pub fn programs(spec: &CompareSpec) -> Result<Vec<PathBuf>, UsageError> {
    let mut programs = Vec::new();
    for contender in &spec.schedulers {
        programs.extend(contender.scheduler.program()?);
    }
    for it in spec.able() {
        programs.extend(workload::programs(it)?);
    }
    programs.sort();
    programs.dedup();
    Ok(programs)
}

/// Files and folders of this machine that the guest needs for a comparison.
pub fn files(spec: &CompareSpec) -> Result<Vec<PathBuf>, UsageError> {
    let mut files = Vec::new();
    for it in spec.able() {
        files.extend(workload::files(it)?);
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// The user's settings of parallel runtimes, which apply inside as on the host.
fn passed_on() -> Vec<(OsString, OsString)> {
    openmp_settings().into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Carries out runs in a VM.
pub struct VmExecutor {
    spec: VmSpec,
    agent: Vec<OsString>,
    session: Option<Session>,
    cold: bool,
    /// Objects of policies from files, which are copied into each VM.
    objects: Option<TempDir>,
}

impl VmExecutor {
    /// An executor that boots the VM of `spec`. `spec.programs` must include those that [`programs`] returns.
    /// `spec.cancel` also ends the wait for a run.
    pub fn new(spec: VmSpec) -> Self {
        Self::with_agent(spec, vec!["flsched".into(), "measure-agent".into()])
    }

    /// The same, with another command than `flsched measure-agent` for the agent.
    pub fn with_agent(spec: VmSpec, agent: Vec<OsString>) -> Self {
        Self { spec, agent, session: None, cold: false, objects: None }
    }

    /// Copies the objects of policies from files into the VM, for the agent inside.
    pub fn with_policies(mut self, schedulers: &[Contender]) -> io::Result<Self> {
        let policies = schedulers.iter().filter_map(|contender| contender.scheduler.policy());
        let from_files: BTreeMap<_, _> =
            policies.filter(|policy| policy.file.is_some()).map(|policy| (policy.name, policy)).collect();
        if from_files.is_empty() {
            return Ok(self);
        }
        let folder = tempfile::Builder::new().prefix("flsched-policies-").tempdir()?;
        for (name, policy) in from_files {
            let path = folder.path().join(format!("{name}.bpf.o"));
            fs::write(&path, policy.object)?;
            let words: [OsString; 4] =
                ["--policy".into(), name.into(), policy.version.into(), path.clone().into()];
            self.agent.extend(words);
            self.spec.files.push(path);
        }
        self.objects = Some(folder);
        Ok(self)
    }

    fn session(&mut self) -> Result<&mut Session, ExecError> {
        if self.session.is_none() {
            self.session = Some(Session::start(&self.spec, &self.agent)?);
            self.cold = true;
        }
        self.session.as_mut().ok_or(ExecError::Agent("no session".into()))
    }

    /// Sends a request and waits for its answer. Any failure ends the VM.
    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Answer, Silence> {
        let cancel = self.spec.cancel.clone();
        let session = self.session().map_err(Silence::Fatal)?;
        session.ask(request, limit, &cancel).map_err(|silence| match self.session.take() {
            Some(session) => session.end(silence),
            None => silence,
        })
    }
}

impl Executor for VmExecutor {
    fn environment(&mut self) -> Result<Environment, ExecError> {
        let host = Environment::of_this_machine();
        let answer = self.ask(&Request::Environment, ENVIRONMENT_LIMIT);
        let mut guest = match answer {
            Ok(Answer::Environment(environment)) => *environment,
            Ok(Answer::Unable { message }) => return Err(ExecError::Agent(message)),
            Ok(Answer::Run(_)) => return Err(ExecError::Agent("answered something else".into())),
            Err(Silence::Fatal(error)) => return Err(error),
            Err(Silence::Hung(reason) | Silence::Died(reason)) => {
                return Err(ExecError::Agent(reason));
            }
        };
        let boot = self.session()?.vm.boot_info().clone();
        let settings = match self.spec.clock {
            Clock::Parallel(settings) => Some(settings),
            Clock::Work | Clock::Wall => None,
        };
        guest.vm = Some(VmEnvironment {
            qemu_version: first_line(&boot.qemu, "--version"),
            turn: settings.map(|it| it.turn),
            pause_ns: settings.map(|it| it.pause_ns),
            jitter: settings.and_then(|it| it.jitter),
            memory_model: settings.and_then(|it| it.memory).map(|memory| memory.to_string()),
            accel: boot.accel,
            accel_note: boot.accel_note,
            memory_mib: self.spec.memory_mib,
            boot_s: boot.boot_time.as_secs_f64(),
            host_kernel: host.kernel,
            host_cpus: host.cpus,
            host_cpu_model: host.cpu_model,
            host_load_average: host.load_average,
        });
        // The load average of a guest that has just booted does not show how busy the host is.
        guest.load_average = Vec::new();
        Ok(guest)
    }

    fn run(&mut self, request: &RunRequest) -> Result<RunOutcome, ExecError> {
        let limit = Duration::try_from_secs_f64(request.limit_s).unwrap_or(Duration::MAX);
        let answer = self.ask(&Request::Run(request.clone()), limit);
        self.cold = self.session.is_none();
        match answer {
            Ok(Answer::Run(outcome)) => Ok(*outcome),
            Ok(Answer::Unable { message }) => Err(ExecError::Unable(message)),
            Ok(Answer::Environment(_)) => Err(ExecError::Agent("answered something else".into())),
            Err(Silence::Fatal(error)) => Err(error),
            Err(Silence::Hung(reason) | Silence::Died(reason)) => {
                Ok(RunOutcome::without_measurement(Ending::Hung { reason }))
            }
        }
    }

    fn is_cold(&self) -> bool {
        self.cold
    }
}

/// Why a request got no answer.
enum Silence {
    /// No valid answer came within the limit. The VM cannot be used any more.
    Hung(String),
    /// The VM ended by itself.
    Died(String),
    /// The failure would repeat in another VM.
    Fatal(ExecError),
}

/// A VM with the agent in it, and the last line of what the agent printed to its error output.
struct Session {
    vm: Vm,
    requests: UnixStream,
    answers: Receiver<io::Result<String>>,
    complaints: Arc<Mutex<String>>,
}

impl Session {
    fn start(spec: &VmSpec, agent: &[OsString]) -> Result<Self, ExecError> {
        let command = GuestCommand { argv: agent.to_vec(), env: passed_on() };
        let mut vm = match Vm::start(spec, &command) {
            Ok(vm) => vm,
            Err(VmError::Interrupted) => return Err(ExecError::Interrupted),
            Err(error) => return Err(error.into()),
        };
        let missing = || ExecError::Agent("its input and output are taken".into());
        let requests = vm.take_stdin().ok_or_else(missing)?;
        let output = vm.take_stdout().ok_or_else(missing)?;
        let (sender, answers) = channel();
        // A thread reads the answers: a read can block without limit, whereas a wait for a channel has a limit.
        // The VM's end closes the stream, which ends the thread.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let complaints = Arc::<Mutex<String>>::default();
        if let Some(errors) = vm.take_stderr() {
            let complaints = complaints.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(errors).lines().map_while(Result::ok) {
                    *complaints.lock().unwrap_or_else(PoisonError::into_inner) = line;
                }
            });
        }
        Ok(Self { vm, requests, answers, complaints })
    }

    fn ask(&mut self, request: &Request, limit: Duration, cancel: &AtomicBool) -> Result<Answer, Silence> {
        let died = |what: &str| Silence::Died(what.to_string());
        let mut line = serde_json::to_string(request)
            .map_err(|error| Silence::Fatal(ExecError::Agent(error.to_string())))?;
        line.push('\n');
        self.requests.write_all(line.as_bytes()).map_err(|_| died("it accepts no requests"))?;
        let start = Instant::now();
        loop {
            if cancel.load(Ordering::Relaxed) {
                return Err(Silence::Fatal(ExecError::Interrupted));
            }
            match self.answers.recv_timeout(CHECK_INTERVAL) {
                Ok(Ok(line)) => {
                    return serde_json::from_str(&line).map_err(|error| {
                        let begin: String = line.chars().take(80).collect();
                        Silence::Hung(format!("not an answer ({error}): {begin}; VM killed"))
                    });
                }
                Ok(Err(error)) => return Err(died(&error.to_string())),
                Err(RecvTimeoutError::Disconnected) => return Err(died("no more answers")),
                Err(RecvTimeoutError::Timeout) if start.elapsed() >= limit => {
                    let reason = format!("no end within {limit:?} on the host's clock; VM killed");
                    return Err(Silence::Hung(reason));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends the VM. If it died by itself, returns why.
    fn end(self, silence: Silence) -> Silence {
        match silence {
            Silence::Died(what) => {
                let cause = match self.vm.wait() {
                    Ok(GuestExit::Code(code)) => format!("the agent exited with {code}"),
                    Ok(GuestExit::Signal(signal)) => format!("signal {signal} killed the agent"),
                    Err(VmError::Interrupted) => return Silence::Fatal(ExecError::Interrupted),
                    Err(error) => error.to_string(),
                };
                let last = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
                let last = if last.is_empty() { what } else { last.clone() };
                Silence::Died(format!("the VM died: {cause} ({last})"))
            }
            other => other,
        }
    }
}

impl Drop for VmExecutor {
    /// Closes the agent's input, so that agent and VM end by themselves; kills the VM if they do not.
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.requests.shutdown(Shutdown::Write);
            let deadline = Instant::now() + SHUTDOWN_LIMIT;
            while Instant::now() < deadline
                && !self.spec.cancel.load(Ordering::Relaxed)
                && !matches!(
                    session.answers.recv_timeout(CHECK_INTERVAL),
                    Err(RecvTimeoutError::Disconnected)
                )
            {}
        }
    }
}
