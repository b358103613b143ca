//! The tested policy: attached by the command as a user does, or by this process; and the kernel's state of it.
use crate::guest::policy;
use crate::load::wait_until;
use flsched_host::{Running, Scope, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, ExitStatus};

/// Runs a command under the policy with `flsched run`. Returns exit code and output.
pub fn run(options: &[&str], command: &[&str]) -> (i32, String) {
    flsched(&[&["run", "--policy", policy().name], options, &["--"], command].concat())
}

/// Runs `flsched` to its end. Returns exit code and output.
pub fn flsched(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new("flsched");
    command.args(arguments);
    outcome_of(command)
}

/// Runs a command to its end. Returns exit code and output.
pub fn outcome_of(mut command: Command) -> (i32, String) {
    let output = command.output().expect("it starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}

/// A running `flsched attach POLICY`. It is killed if the scenario panics.
pub struct Attached(pub Child);

impl Attached {
    pub fn with(arguments: &[&str]) -> Self {
        let child = Command::new("flsched").args(["attach", policy().name]).args(arguments).spawn();
        let attached = Self(child.expect("flsched starts"));
        wait_until("the policy is attached", is_attached);
        attached
    }

    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("waitable").is_none()
    }

    /// Interrupts it, as Ctrl-C does.
    pub fn interrupt(mut self) -> ExitStatus {
        kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT).expect("it runs");
        let status = self.0.wait().expect("waitable");
        wait_until("the default scheduler is back", || !is_any_attached());
        status
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The policy, attached by this process. This is faster than by the command, and after an ejection the policy is not
/// attached again. It is detached if the scenario panics.
pub struct Held(Running);

impl Held {
    pub fn start() -> Self {
        Self::with("")
    }

    /// Attaches the policy with these knobs, written as after the colon of `--policy`.
    pub fn with(knobs: &str) -> Self {
        let spec = format!("{}:{knobs}", policy().name).parse().expect("knobs");
        Self(start(&spec, Scope::Machine).expect("it attaches"))
    }

    /// The value of a statistic of the policy.
    pub fn count(&self, statistic: &str) -> u64 {
        let counts = self.0.stats().expect("statistics");
        counts.iter().find(|(name, _)| name == statistic).expect("a statistic's name").1
    }

    /// Writes an entry of one of the policy's maps.
    pub fn set_entry(&self, map: &str, key: usize, words: [u32; 2]) {
        let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.0.set_entry(map, key as u32, &value).expect("an entry");
    }

    /// The run time of one of the policy's callbacks during `run`, in ns, as the kernel counts it.
    pub fn run_time<T>(&self, callback: &str, run: impl FnOnce() -> T) -> f64 {
        const COUNTING: &str = "/proc/sys/kernel/bpf_stats_enabled";
        let program = self.0.callbacks().find(|program| program.name() == callback).expect("a callback");
        let fdinfo = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
        let total = || run_time_of(&fs::read_to_string(&fdinfo).expect("it is ours"));
        fs::write(COUNTING, "1").expect("root may");
        let before = total();
        run();
        let took = total() - before;
        fs::write(COUNTING, "0").expect("root may");
        took as f64
    }

    /// Detaches the policy. Fails if it had ended before.
    pub fn stop(self) {
        let ended = self.0.exited();
        assert!(ended.is_none(), "the kernel has ended it: {ended:?}");
        self.0.stop().expect("it detaches");
        assert!(!is_any_attached());
    }
}

fn run_time_of(fdinfo: &str) -> u64 {
    let line = fdinfo.lines().find_map(|line| line.strip_prefix("run_time_ns:"));
    line.expect("a program's").trim().parse().expect("a number")
}

pub fn sched_ext(file: &str) -> String {
    fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).unwrap_or_default().trim().to_owned()
}

pub fn is_any_attached() -> bool {
    sched_ext("state") != "disabled"
}

pub fn is_attached() -> bool {
    let name = sched_ext("root/ops");
    let is_ours = name.strip_prefix(policy().name).is_some_and(|rest| rest.starts_with('_'));
    sched_ext("state") == "enabled" && is_ours
}
