//! FLSCHED as a user starts it, as this process itself can hold it, and what the kernel says of it.
use crate::load::wait_until;
use flsched_policies::{Options, Policy, Running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::process::{Child, Command, ExitStatus};

/// Runs `flsched` to its end: exit code and output.
pub fn flsched(arguments: &[&str]) -> (i32, String) {
    let output = Command::new("flsched").args(arguments).output().expect("flsched starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}

/// `flsched attach flsched` in the background; killed if the scenario panics.
pub struct Attached(pub Child);

impl Attached {
    pub fn with(arguments: &[&str]) -> Self {
        let child = Command::new("flsched").args(["attach", "flsched"]).args(arguments).spawn();
        let attached = Self(child.expect("flsched starts"));
        wait_until("flsched is attached", is_flsched_attached);
        attached
    }

    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("waitable").is_none()
    }

    /// As a user would: Ctrl-C.
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

/// FLSCHED held by this process: quicker than the command, and not attached again after an ejection.
/// Detached if the scenario panics.
pub struct Held(Running);

impl Held {
    pub fn start() -> Self {
        let policy = Policy::find("flsched").expect("it is in this build");
        Self(policy.start(&Options::default()).expect("it attaches"))
    }

    /// Detaches it, which must have been attached until now.
    pub fn stop(self) {
        let ended = self.0.exited();
        assert!(ended.is_none(), "the kernel has ended it: {ended:?}");
        self.0.stop().expect("it detaches");
        assert!(!is_any_attached());
    }
}

pub fn sched_ext(file: &str) -> String {
    fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).unwrap_or_default().trim().to_owned()
}

pub fn is_any_attached() -> bool {
    sched_ext("state") != "disabled"
}

pub fn is_flsched_attached() -> bool {
    sched_ext("state") == "enabled" && sched_ext("root/ops").starts_with("flsched")
}
