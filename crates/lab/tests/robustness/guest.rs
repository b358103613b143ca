//! The part inside the machine: runs each load under each scheduler and prints a line for each result. It is of the
//! class SCHED_FIFO, so that it measures and ends a load also where normal tasks do not run any more.
use crate::common::enter_class;
use crate::kernel_log::{Complaint, KernelLog};
use crate::probe::Probes;
use flsched_lab::robustness::loads::{Load, Rate};
use flsched_lab::robustness::report::{Kind, Run, Trouble, is_policy};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A load that takes so much longer than it should is ended.
const GRACE: Duration = Duration::from_secs(15);
/// How long the test sleeps before it checks a load again.
const STEP: Duration = Duration::from_millis(5);
/// How long attaching, detaching and ending may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a machine is to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub per_cpu: u32,
    pub cpus: u32,
    /// Of guest time, unless a load has its own.
    pub seconds: u32,
    pub runs: u32,
    pub schedulers: Vec<String>,
    pub loads: Vec<String>,
    /// Loads and schedulers that are left out.
    pub without: Vec<(String, String)>,
}

/// A line from the machine.
#[derive(Debug, Serialize, Deserialize)]
pub enum Line {
    Kernel(String),
    Begin { load: String, scheduler: String },
    Step(Step),
    End,
}

/// A run of a load under a scheduler.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    pub load: String,
    pub scheduler: String,
    pub run: Run,
}

impl Plan {
    pub fn instances(&self) -> u32 {
        self.per_cpu * self.cpus
    }

    /// A load's own seconds are the least that it needs.
    pub fn seconds_of(&self, load: &Load) -> u32 {
        load.seconds.map_or(self.seconds, |own| own.max(self.seconds))
    }
}

pub fn play(plan: &str) -> ExitCode {
    match play_all(plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("robustness: in the machine: {why}");
            ExitCode::FAILURE
        }
    }
}

fn play_all(plan: &str) -> Result<(), String> {
    let plan: Plan = serde_json::from_str(plan).map_err(|error| format!("the plan: {error}"))?;
    let loads = Load::all()?;
    enter_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 99)
        .map_err(|error| format!("SCHED_FIFO: {error}"))?;
    // The kernel allows fewer tasks where memory is small, and ends the largest process where it is short.
    for (file, text) in [
        ("/proc/sys/kernel/threads-max", "200000"),
        ("/proc/sys/kernel/pid_max", "400000"),
        ("/proc/self/oom_score_adj", "-1000"),
    ] {
        fs::write(file, text).map_err(|error| format!("{file}: {error}"))?;
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    say(&Line::Kernel(release.trim().to_owned()));
    let mut log = KernelLog::open().map_err(|error| format!("/dev/kmsg: {error}"))?;
    for _ in 0..plan.runs {
        for scheduler in &plan.schedulers {
            let mut policy = Policy::of(scheduler);
            for name in &plan.loads {
                if plan.without.iter().any(|(load, by)| load == name && by == scheduler) {
                    continue;
                }
                let load = loads.iter().find(|load| load.name == *name);
                let load = load.ok_or_else(|| format!("there is no load {name}"))?;
                say(&Line::Begin { load: name.clone(), scheduler: scheduler.clone() });
                let run = match policy.as_mut().map_or(Ok(()), Policy::attach) {
                    Ok(()) => measure(&plan, load, &mut log, policy.as_mut())?,
                    Err(why) => Run { troubles: vec![trouble(Kind::Ejected, why)], ..Run::default() },
                };
                say(&Line::Step(Step { load: name.clone(), scheduler: scheduler.clone(), run }));
            }
            policy.map_or(Ok(()), |mut policy| policy.detach())?;
        }
    }
    say(&Line::End);
    Ok(())
}

fn say(line: &Line) {
    println!("{}", serde_json::to_string(line).expect("numbers and names"));
}

fn trouble(kind: Kind, text: impl Into<String>) -> Trouble {
    Trouble { kind, text: text.into() }
}

fn measure(
    plan: &Plan,
    load: &Load,
    log: &mut KernelLog,
    policy: Option<&mut Policy>,
) -> Result<Run, String> {
    let seconds = plan.seconds_of(load);
    let command = load.command(plan.instances(), seconds);
    drop(log.complaints());
    let probes = Probes::start(plan.cpus);
    let mut running = Running::start(&command)?;
    let limit = Duration::from_secs(seconds.into()) + GRACE;
    let (mut runnable, mut troubles) = (0, Vec::new());
    let status = loop {
        sleep(STEP);
        runnable = runnable.max(runnable_tasks());
        match running.child.try_wait() {
            Ok(None) if running.began.elapsed() > limit => {
                troubles.push(trouble(Kind::NotEnded, format!("ended after {} s", limit.as_secs())));
                break None;
            }
            Ok(None) => {}
            Ok(status) => break status,
            Err(error) => return Err(format!("{command}: {error}")),
        }
    };
    let took = running.began.elapsed();
    troubles.extend(running.end());
    let mut longest_wait_ms = probes.longest_wait_ms();
    probes.stop();
    let output = Output::read();
    if let Some(status) = status.filter(|status| !status.success()) {
        troubles.push(trouble(Kind::Failed, output.failure(status)));
    }
    for complaint in log.complaints() {
        troubles.push(match complaint {
            Complaint::Ejected(line) => trouble(Kind::Ejected, line),
            Complaint::Other(line) => trouble(Kind::KernelLog, line),
        });
    }
    troubles.extend(policy.and_then(Policy::detached).map(|line| trouble(Kind::Detached, line)));
    longest_wait_ms = longest_wait_ms.max(output.figure(own_wait()).unwrap_or(0.0));
    let rate = match load.rate {
        _ if status.is_none() => None,
        Rate::Reported if load.command.is_some() => output.figure(own_rate()),
        Rate::Reported => output.bogo_rate(),
        Rate::Elapsed => Some(1.0 / took.as_secs_f64()),
        Rate::None => None,
    };
    // Three digits are more than any of these is repeatable to.
    let rounded = |value: f64| format!("{value:.4e}").parse().unwrap_or(value);
    Ok(Run { rate: rate.map(rounded), longest_wait_ms: rounded(longest_wait_ms), runnable, troubles })
}

/// What one of the test's own loads prints before its operations per second.
pub fn own_rate() -> &'static str {
    "operations per second:"
}

/// What it prints before the longest wait of its own tasks, in ms.
pub fn own_wait() -> &'static str {
    "longest wait, ms:"
}

/// Tasks that run or are ready to, on all CPUs.
fn runnable_tasks() -> u32 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = load.split(' ').nth(3).and_then(|tasks| tasks.split('/').next()?.parse().ok());
    running.unwrap_or(0)
}

const WRITTEN: &str = "/tmp/robustness.out";
const YAML: &str = "/tmp/robustness.yaml";

/// A load with all its processes, in a cgroup of its own below that of the test. No controller is on there, so that it
/// competes as if it were in that one.
struct Running {
    child: Child,
    began: Instant,
    group: PathBuf,
}

impl Running {
    fn start(command: &str) -> Result<Self, String> {
        let error = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| format!("{what}: {error}")
        };
        let own = fs::read_to_string("/proc/self/cgroup").map_err(error("/proc/self/cgroup"))?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let group = Path::new("/sys/fs/cgroup").join(own).join("load");
        fs::create_dir_all(&group).map_err(error("a cgroup"))?;
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if words[0] == "load" {
            let me = std::env::current_exe().map_err(error("this program's path"))?;
            words.insert(0, me.display().to_string());
        } else if words.iter().any(|word| word == "stress-ng") {
            let options =
                ["--metrics-brief", "--no-rand-seed", "--oomable", "--temp-path", "/tmp", "--yaml", YAML];
            words.extend(options.map(str::to_owned));
        }
        let _ = fs::remove_file(YAML);
        let output = File::create(WRITTEN).map_err(error(WRITTEN))?;
        let errors = output.try_clone().map_err(error(WRITTEN))?;
        let enter = "echo 0 > /proc/self/oom_score_adj; echo $$ > \"$0\"/cgroup.procs; exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", enter]).arg(&group).args(&words).current_dir("/tmp");
        shell.stdin(Stdio::null()).stdout(output).stderr(errors);
        let began = Instant::now();
        let child = shell.spawn().map_err(error(command))?;
        Ok(Self { child, began, group })
    }

    /// Ends what it has left behind.
    fn end(mut self) -> Option<Trouble> {
        let _ = fs::write(self.group.join("cgroup.kill"), "1");
        let is_empty = || {
            let events = fs::read_to_string(self.group.join("cgroup.events"));
            events.is_ok_and(|events| events.contains("populated 0"))
        };
        let empties = wait(is_empty);
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.group);
        (!empties).then(|| trouble(Kind::NotEnded, "its processes were there 30 s after they were killed"))
    }
}

fn wait(mut condition: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        sleep(STEP);
    }
    true
}

/// What a load has written.
struct Output {
    text: String,
    yaml: String,
}

impl Output {
    fn read() -> Self {
        let read = |file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
        Self { text: read(WRITTEN), yaml: read(YAML) }
    }

    fn figure(&self, title: &str) -> Option<f64> {
        self.text.lines().find_map(|line| line.strip_prefix(title)?.trim().parse().ok())
    }

    fn bogo_rate(&self) -> Option<f64> {
        let lines = self.yaml.lines();
        let rates = lines.filter_map(|line| line.trim().strip_prefix("bogo-ops-per-second-real-time:"));
        rates.filter_map(|rate| rate.trim().parse().ok()).find(|rate: &f64| *rate > 0.0)
    }

    fn failure(&self, status: ExitStatus) -> String {
        let telling = |line: &&str| line.contains("error") || line.contains("fail") || line.contains("skip");
        let line = self.text.lines().find(telling).or_else(|| self.text.lines().last());
        format!("{status}; {}", line.unwrap_or("no output"))
    }
}

const ATTACH_LOG: &str = "/tmp/robustness.attach";

/// A policy, attached as a user does it.
struct Policy {
    name: String,
    attach: Option<Child>,
}

impl Policy {
    fn of(scheduler: &str) -> Option<Self> {
        is_policy(scheduler).then(|| Self { name: scheduler.to_owned(), attach: None })
    }

    fn is_attached(&self) -> bool {
        let read =
            |file: &str| fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).unwrap_or_default();
        let name = read("root/ops");
        read("state").trim() == "enabled"
            && name.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('_'))
    }

    /// After an ejection `attach` waits longer and longer; here it begins anew.
    fn attach(&mut self) -> Result<(), String> {
        if self.attach.is_some() && self.is_attached() {
            return Ok(());
        }
        self.detach()?;
        let log = File::create(ATTACH_LOG).map_err(|error| format!("{ATTACH_LOG}: {error}"))?;
        let child =
            Command::new("flsched").args(["attach", &self.name]).stdin(Stdio::null()).stderr(log).spawn();
        self.attach = Some(child.map_err(|error| format!("flsched attach: {error}"))?);
        if wait(|| self.is_attached()) {
            return Ok(());
        }
        let said = fs::read_to_string(ATTACH_LOG).unwrap_or_default();
        Err(format!("not attached after {} s: {}", PATIENCE.as_secs(), said.replace('\n', " | ")))
    }

    /// Whether our own guard has detached it since it was attached.
    fn detached(&mut self) -> Option<String> {
        let said = fs::read_to_string(ATTACH_LOG).unwrap_or_default();
        let line = said.lines().find(|line| line.contains("DETACHED by flsched"))?.to_owned();
        // Once is enough.
        let _ = File::create(ATTACH_LOG);
        Some(line)
    }

    fn detach(&mut self) -> Result<(), String> {
        let Some(mut child) = self.attach.take() else { return Ok(()) };
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
        if !wait(|| !matches!(child.try_wait(), Ok(None))) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "flsched attach {} did not end within {} s of SIGINT",
                self.name,
                PATIENCE.as_secs()
            ));
        }
        Ok(())
    }
}
