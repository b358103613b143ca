//! Things for the scheduler to schedule, and the scheduler as a user would start it.
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::hint::black_box;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

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

pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited 20 s in vain until {what}");
        sleep(Duration::from_millis(20));
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

/// Runs hackbench to its end.
pub fn hackbench(arguments: &str) {
    let status = start_hackbench(arguments).wait().expect("waitable");
    assert!(status.success(), "hackbench {arguments}: {status}");
}

pub fn start_hackbench(arguments: &str) -> Child {
    Command::new("hackbench")
        .args(arguments.split(' '))
        .stdout(Stdio::null())
        .spawn()
        .expect("hackbench starts")
}

pub fn pin_to(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).expect("a CPU number");
    sched_setaffinity(Pid::from_raw(0), &cpus).expect("the CPU is online");
}

pub fn allow(pid: i32, cpus: impl IntoIterator<Item = usize>) {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu).expect("a CPU number"));
    // It may have ended.
    let _ = sched_setaffinity(Pid::from_raw(pid), &set);
}

/// Threads that compute until they are told to stop.
pub struct Hogs {
    stop: Arc<AtomicBool>,
    /// What each has done so far.
    rounds: Arc<Vec<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// `count` of them; `cpu`: all on that one.
    pub fn start(count: usize, cpu: Option<usize>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds: Arc<Vec<_>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let hog = |number: usize| {
            let (stop, rounds) = (stop.clone(), rounds.clone());
            move || {
                if let Some(cpu) = cpu {
                    pin_to(cpu);
                }
                while !stop.load(Ordering::Relaxed) {
                    for step in 0..1000u64 {
                        black_box(step);
                    }
                    rounds[number].fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let threads = (0..count).map(|number| spawn(hog(number))).collect();
        Self { stop, rounds, threads }
    }

    /// Ends them once each has run. A scenario can be over before the last one's first turn comes;
    /// never to run at all is what must not happen.
    pub fn stop(self) {
        wait_until("every hog has run", || self.rounds.iter().all(|done| done.load(Ordering::Relaxed) > 0));
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a hog ends well"));
    }
}

/// The longest time for which a thread on `cpu` that always wants to run did not, over `during`.
pub fn longest_wait_on(cpu: usize, during: Duration) -> Duration {
    spawn(move || {
        pin_to(cpu);
        let began = Instant::now();
        let (mut last, mut longest) = (began, Duration::ZERO);
        while last - began < during {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        longest
    })
    .join()
    .expect("the watcher ends well")
}
