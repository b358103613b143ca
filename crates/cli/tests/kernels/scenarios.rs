//! What FLSCHED must stand on every kernel. Each scenario leaves the machine on the default
//! scheduler; `guest.rs` checks that, and the kernel's log, after each.
use crate::guest::clock;
use crate::load::*;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A name and what happens.
pub type Scenario = (&'static str, fn());

pub const ALL: &[Scenario] = &[
    ("doctor_finds_nothing_wrong", doctor_finds_nothing_wrong),
    ("attaches_schedules_detaches", attaches_schedules_detaches),
    ("status_names_policy_and_version", status_names_policy_and_version),
    ("run_passes_exit_codes_and_signals", run_passes_exit_codes_and_signals),
    ("partial_leaves_others_alone", partial_leaves_others_alone),
    ("second_attach_is_refused", second_attach_is_refused),
    ("pinned_task_beside_a_hog_keeps_the_bound", pinned_task_beside_a_hog_keeps_the_bound),
    ("sixteen_tasks_on_a_cpu_keep_the_bound", sixteen_tasks_on_a_cpu_keep_the_bound),
    ("one_that_yields_among_hogs_keeps_the_bound", one_that_yields_among_hogs_keeps_the_bound),
    ("kernel_threads_run_beside_hogs", kernel_threads_run_beside_hogs),
    ("affinity_changes_under_load", affinity_changes_under_load),
    ("hotplug_under_load", hotplug_under_load),
    ("sigkill_restores_the_default_scheduler", sigkill_restores_the_default_scheduler),
];

/// The bound of `max_delay_us`' default, and a tick of 4 ms for the one that is just running.
const DELAY_BOUND: Duration = Duration::from_millis(104);
/// On the wall clock four emulated CPUs share what the host has left for them: there only a task that
/// nobody serves can be told from one that waits. The bound itself is judged on the instructions clock.
const HOST_NOISE: Duration = Duration::from_secs(2);

fn host_noise() -> Duration {
    if clock() == "wall" { HOST_NOISE } else { Duration::ZERO }
}

fn delay_limit() -> Duration {
    DELAY_BOUND + host_noise()
}

fn flsched(arguments: &[&str]) -> (i32, String) {
    let output = Command::new("flsched").args(arguments).output().expect("flsched starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}

fn doctor_finds_nothing_wrong() {
    let (code, text) = flsched(&["doctor"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("loads on this kernel"), "{text}");
}

fn attaches_schedules_detaches() {
    let (code, text) = flsched(&["run", "--", "hackbench", "-p", "-g", "2", "-l", "50"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("Time:") && !text.contains("EJECTED"), "{text}");
    assert!(!is_any_attached());
    assert_ne!(sched_ext("enable_seq"), "0");
    hackbench("-p -g 2 -l 20");
}

fn status_names_policy_and_version() {
    let (_, text) = flsched(&["status"]);
    assert!(text.contains("scheduler   default"), "{text}");
    let attached = Attached::with(&[]);
    let (code, text) = flsched(&["status", "--json"]);
    assert_eq!(code, 0);
    let status: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status["policy"], "flsched");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["tasks"].as_u64().unwrap() > 10, "{text}");
    assert!(attached.interrupt().success());
}

fn run_passes_exit_codes_and_signals() {
    assert_eq!(flsched(&["run", "--", "sh", "-c", "exit 7"]).0, 7);
    assert_eq!(flsched(&["run", "--", "sh", "-c", "kill -KILL $$"]).0, 137);
    assert_eq!(flsched(&["run", "--", "/no/such/program"]).0, 127);
    assert_eq!(flsched(&["run", "--policy", "nosuch", "--", "true"]).0, 2);

    let script = "trap 'exit 42' TERM; while :; do sleep 0.05; done";
    let mut run = Command::new("flsched").args(["run", "--", "sh", "-c", script]).spawn().expect("starts");
    wait_until("flsched is attached", is_flsched_attached);
    sleep(Duration::from_millis(500));
    let pid = nix::unistd::Pid::from_raw(run.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(42));
    assert!(!is_any_attached());
}

fn partial_leaves_others_alone() {
    let script =
        "cat /sys/kernel/sched_ext/switch_all; grep '^policy' /proc/self/sched; flsched status --json";
    let (code, text) = flsched(&["run", "--partial", "--", "sh", "-c", script]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("0\n"), "{text}");
    // sh, and flsched with its helper dmesg: nobody else.
    let json = &text[text.find('{').expect("JSON")..];
    let status: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(status["scope"], "SCHED_EXT tasks");
    assert!((1..=4).contains(&status["tasks"].as_u64().unwrap()), "{text}");
    let policy = text.lines().find(|line| line.starts_with("policy")).expect("a policy line");
    assert!(policy.trim_end().ends_with('7'), "the command is of class SCHED_EXT: {policy}");
}

fn second_attach_is_refused() {
    let attached = Attached::with(&[]);
    let (code, text) = flsched(&["run", "--", "true"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("attached already") && text.contains("pid"), "{text}");
    assert!(is_flsched_attached(), "the first one stays");
    assert!(attached.interrupt().success());
}

fn pinned_task_beside_a_hog_keeps_the_bound() {
    let attached = Attached::with(&[]);
    let hog = Hogs::start(1, Some(1));
    let longest = longest_wait_on(1, Duration::from_millis(600));
    hog.stop();
    assert!(attached.interrupt().success());
    assert!(longest <= delay_limit(), "waited {longest:?} behind a hog");
    assert!(longest > Duration::from_millis(1), "they did share the CPU: waited {longest:?}");
}

fn sixteen_tasks_on_a_cpu_keep_the_bound() {
    let attached = Attached::with(&[]);
    let hogs = Hogs::start(15, Some(1));
    let longest = longest_wait_on(1, Duration::from_millis(600));
    hogs.stop();
    assert!(attached.interrupt().success());
    assert!(longest <= delay_limit(), "waited {longest:?} among 16");
}

fn one_that_yields_among_hogs_keeps_the_bound() {
    let attached = Attached::with(&[]);
    let hogs = Hogs::start(3, Some(1));
    let longest = std::thread::spawn(|| {
        pin_to(1);
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        while began.elapsed() < Duration::from_millis(600) {
            let before = Instant::now();
            std::thread::yield_now();
            longest = longest.max(before.elapsed());
        }
        longest
    });
    let longest = longest.join().expect("ends well");
    hogs.stop();
    assert!(attached.interrupt().success());
    assert!(longest <= delay_limit(), "waited {longest:?} after a yield");
}

/// An RCU grace period needs kernel threads and every CPU; it must not wait for the hogs.
fn kernel_threads_run_beside_hogs() {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1; // waits for a grace period
    let attached = Attached::with(&[]);
    let hogs = Hogs::start(16, None);
    for _ in 0..3 {
        let began = Instant::now();
        // SAFETY: takes integers only.
        let outcome = unsafe { nix::libc::syscall(nix::libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
        assert_eq!(outcome, 0, "membarrier");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2) + host_noise(), "a grace period took {took:?}");
    }
    hogs.stop();
    assert!(attached.interrupt().success());
}

/// 200 a second for a second, on tasks that talk to each other.
fn affinity_changes_under_load() {
    let mut attached = Attached::with(&[]);
    let mut bench = Command::new("hackbench")
        .args(["-p", "-g", "2", "-l", "500"])
        .stdout(Stdio::null())
        .spawn()
        .expect("hackbench starts");
    let hogs = Hogs::start(4, None);
    let began = Instant::now();
    for change in 0usize..200 {
        let due = began + Duration::from_millis(5) * change as u32;
        sleep(due.saturating_duration_since(Instant::now()));
        let tasks = children_of(bench.id());
        if let Some(task) = tasks.get(change % tasks.len().max(1)) {
            match change % 3 {
                0 => allow(*task, [change % 4]),
                1 => allow(*task, [change % 4, (change + 1) % 4]),
                _ => allow(*task, 0..4),
            }
        }
    }
    assert!(bench.wait().expect("waitable").success(), "hackbench finished its work");
    hogs.stop();
    assert!(attached.is_alive() && is_flsched_attached());
    assert!(attached.interrupt().success());
}

fn children_of(pid: u32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The kernel ends a scheduler when CPUs come or go; ours must be back each time.
fn hotplug_under_load() {
    let mut attached = Attached::with(&[]);
    let mut bench = start_hackbench("-p -g 2 -l 300");
    let hogs = Hogs::start(4, None);
    for cpu in [3, 2, 1] {
        for online in ["0", "1"] {
            fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), online).expect("hotplug");
            wait_until("flsched is attached again", is_flsched_attached);
        }
    }
    assert!(bench.wait().expect("waitable").success(), "hackbench finished its work");
    hogs.stop();
    assert!(attached.is_alive());
    assert!(attached.interrupt().success());
}

fn sigkill_restores_the_default_scheduler() {
    let mut attached = Attached::with(&[]);
    attached.0.kill().expect("it runs");
    attached.0.wait().expect("waitable");
    wait_until("the default scheduler is back", || !is_any_attached());
    hackbench("-p -g 2 -l 20");
}
