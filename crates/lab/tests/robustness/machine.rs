//! The side of the host: boots a machine for some loads, and another one if that is lost.
use crate::guest::{Line, Plan, Step};
use flsched_lab::robustness::loads::Load;
use flsched_lab::robustness::report::{Arm, Entry, Kind, Run, Trouble};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// After so much real time without a line from it, a machine is lost. On a quiet host the longest load takes some minutes;
/// on a busy one half of this was not enough.
const SILENCE: Duration = Duration::from_secs(3600);
const MEMORY: &str = "3G";
/// What the loads start.
const PROGRAMS: [&str; 11] = [
    "stress-ng",
    "hackbench",
    "cyclictest",
    "cyclicdeadline",
    "ptsematest",
    "sigwaittest",
    "svsematest",
    "pi_stress",
    "rt-migrate-test",
    "ssdd",
    "nice",
];

/// Machines that are run at a time: one of the parallel clock needs one CPU.
pub fn at_a_time() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1))
}

/// A machine, and what it is to run.
#[derive(Debug, Clone)]
pub struct Boot {
    pub kernel: String,
    pub clock: String,
    pub cpus: u32,
    pub plan: Plan,
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { per_cpu, loads, .. } = &self.plan;
        write!(f, "{}, {per_cpu} a CPU: {}", self.kernel, loads.join(", "))
    }
}

/// What became of a machine.
struct Outcome {
    release: String,
    steps: Vec<Step>,
    /// The load and the scheduler with which it was lost, and how.
    lost: Option<(String, String, String)>,
}

impl Boot {
    /// The kernel's release and what was measured. A machine that is lost is booted again without what it was lost with,
    /// so that all schedulers of a load are of one boot.
    pub fn play(&self) -> Result<(String, Vec<Entry>), String> {
        let mut plan = self.plan.clone();
        let mut losses = Vec::new();
        loop {
            let Outcome { release, steps, lost } = self.boot(&plan)?;
            match lost {
                Some((load, scheduler, how)) => {
                    eprintln!("{}: the machine was lost with {load} under {scheduler}: {how}", self.kernel);
                    plan.without.push((load.clone(), scheduler.clone()));
                    let troubles = vec![Trouble { kind: Kind::MachineLost, text: how }];
                    losses.push(Step { load, scheduler, run: Run { troubles, ..Run::default() } });
                }
                None => return Ok((release, self.entries(steps.into_iter().chain(losses).collect())?)),
            }
        }
    }

    fn entries(&self, steps: Vec<Step>) -> Result<Vec<Entry>, String> {
        let plan = &self.plan;
        let loads = Load::all()?;
        let loads = loads.into_iter().filter(|load| plan.loads.contains(&load.name));
        let arm = |load: &Load, scheduler: &String| {
            let of = |step: &&Step| step.load == load.name && step.scheduler == *scheduler;
            let runs: Vec<Run> = steps.iter().filter(of).map(|step| step.run.clone()).collect();
            (!runs.is_empty()).then(|| Arm { scheduler: scheduler.clone(), runs })
        };
        let entry = |load: Load| Entry {
            arms: plan.schedulers.iter().filter_map(|scheduler| arm(&load, scheduler)).collect(),
            per_cpu: plan.per_cpu,
            command: load.command(plan.instances(), plan.seconds_of(&load)),
            realtime: load.realtime,
            load: load.name,
        };
        Ok(loads.map(entry).collect())
    }

    fn boot(&self, plan: &Plan) -> Result<Outcome, String> {
        let mut child = self.command(plan)?.spawn().map_err(|error| format!("flsched vm: {error}"))?;
        let lines = lines_of(child.stdout.take().expect("it is piped"));
        let errors = text_of(child.stderr.take().expect("it is piped"));
        let mut outcome = Outcome { release: String::new(), steps: Vec::new(), lost: None };
        let mut begun = None;
        let how = loop {
            match lines.recv_timeout(SILENCE) {
                Ok(Line::Kernel(release)) => outcome.release = release,
                Ok(Line::Begin { load, scheduler }) => begun = Some((load, scheduler)),
                Ok(Line::Step(step)) => {
                    let Step { load, scheduler, run } = &step;
                    let rate = run.rate.map_or("–".into(), |rate| format!("{rate}/s"));
                    let wait = run.longest_wait_ms;
                    eprintln!("  {} {load} {} {scheduler}: {rate}, {wait} ms", self.kernel, plan.per_cpu);
                    outcome.steps.push(step);
                }
                Ok(Line::End) => break None,
                Err(RecvTimeoutError::Timeout) => {
                    break Some(format!("silent for {} s", SILENCE.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => break Some("it ended".to_owned()),
            }
        };
        end(&mut child);
        let errors = errors.join().expect("it only reads");
        let Some(how) = how else { return Ok(outcome) };
        let how = format!("{how}; {}", last_words(&errors));
        let Some((load, scheduler)) = begun else { return Err(format!("{self}: {how}")) };
        outcome.lost = Some((load, scheduler, how));
        Ok(outcome)
    }

    fn command(&self, plan: &Plan) -> Result<Command, String> {
        let me = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
        let mut command = crate::own::flsched();
        command.args(["vm", "--kernel", &self.kernel, "--clock", &self.clock, "--memory", MEMORY]);
        command.args(["--cpus", &self.cpus.to_string()]);
        for program in PROGRAMS {
            let path: PathBuf = which::which(program).map_err(|error| format!("{program}: {error}"))?;
            command.arg("--include").arg(path);
        }
        let plan = serde_json::to_string(plan).expect("numbers and names");
        command.arg("--").arg(me).args(["--guest", &plan]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A test that is interrupted leaves no machine behind.
        flsched_base::process::end_with_parent(&mut command);
        Ok(command)
    }
}

/// Lines that are not ours are shown.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<Line> {
    let (sender, receiver) = channel();
    spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(line) => drop(sender.send(line)),
                Err(_) => eprintln!("{line}"),
            }
        }
    });
    receiver
}

fn text_of(mut output: impl Read + Send + 'static) -> JoinHandle<String> {
    spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Interrupts it, so that it takes the machine down first.
fn end(child: &mut Child) {
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let _ = child.wait();
}

fn last_words(errors: &str) -> String {
    let lines: Vec<&str> = errors.lines().collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}
