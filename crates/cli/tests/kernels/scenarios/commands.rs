//! The commands `attach`, `run`, `status` and `doctor`.
use super::{EVERYWHERE, ONCE, REPEATABLE, Scenario, scenario};
use crate::common::allow;
use crate::guest::{clear_kernel_log, policy, release};
use crate::load::*;
use crate::machine::Machine;
use crate::scheduler::*;
use flsched_host::verifier;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

pub const SCENARIOS: &[Scenario] = &[
    scenario!(doctor_finds_nothing_wrong, EVERYWHERE),
    scenario!(the_verifier_has_little_work, EVERYWHERE),
    scenario!(without_the_kernels_configuration_says_so, ONCE, &["flsched"]),
    scenario!(missing_capabilities_are_named, ONCE, &["flsched"]),
    scenario!(missing_types_are_named, ONCE, &["flsched"]),
    scenario!(attaches_schedules_detaches, EVERYWHERE),
    scenario!(status_names_policy_and_version, REPEATABLE),
    scenario!(run_passes_exit_codes_and_signals, ONCE),
    scenario!(partial_leaves_others_alone, REPEATABLE),
    scenario!(partial_beside_hogs_never_stands_still, REPEATABLE, &["flsched"]),
    scenario!(partial_beside_hogs_that_the_kernel_prefers, REPEATABLE, &["flsched"]),
    scenario!(partial_beside_hogs_on_other_cpus, REPEATABLE, &["flsched"]),
    scenario!(waits_reach_the_command, ONCE, &["flsched"]),
    scenario!(second_attach_is_refused, ONCE),
    scenario!(lazy_rescheduling_where_the_kernel_has_it, REPEATABLE, &["flsched"]),
    scenario!(sigkill_restores_the_default_scheduler, EVERYWHERE),
    scenario!(a_second_signal_ends_it, ONCE, &["flsched"]),
    scenario!(ejected_and_attached_again, ONCE, &["flsched"]),
    scenario!(suspended_and_attached_again, &[Machine::Wall]),
    scenario!(run_goes_on_after_an_ejection, ONCE, &["flsched"]),
    scenario!(a_stall_names_the_task_and_its_user, &[Machine::Wall], &["flsched"]),
    scenario!(partial_gives_a_starved_task_back, REPEATABLE, &["flsched"]),
    scenario!(partial_with_a_share, REPEATABLE, &["flsched"]),
    scenario!(real_time_hogs_do_not_stop_the_machine, &[Machine::Wall], &["flsched"]),
    scenario!(real_time_hogs_do_not_stop_a_comparison, &[Machine::Wall], &["flsched"]),
    scenario!(nothing_starts_beside_real_time_hogs, &[Machine::Wall], &["flsched"]),
];

/// Has the kernel eject the scheduler, as an administrator can.
const EJECT: &str = "echo S > /proc/sysrq-trigger";

fn eject() {
    assert!(Command::new("sh").args(["-c", EJECT]).status().expect("it starts").success());
}

fn doctor_finds_nothing_wrong() {
    let (code, text) = flsched(&["doctor"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("loads on this kernel"), "{text}");
    let has_server = flsched_host::sched_ext::has_deadline_server();
    assert_eq!(text.contains("no deadline server"), !has_server, "{text}");
}

/// A loop that the verifier does not see through multiplies its work by a hundred. On another kernel it may then refuse
/// the policy, so that a twentieth of what it accepts is enough.
fn the_verifier_has_little_work() {
    let costliest = flsched_host::try_load(policy()).expect("it loads").expect("the kernel counts");
    assert!(costliest.instructions < verifier::LIMIT / 20, "{costliest}");
}

fn without_the_kernels_configuration_says_so() {
    let (there, away) = (format!("/boot/config-{}", release()), "/tmp/config");
    std::fs::copy(&there, away).expect("a copy");
    std::fs::remove_file(&there).expect("removable");
    let outcomes = [run(&[], &["true"]), flsched(&["doctor"])];
    std::fs::copy(away, &there).expect("put back");
    for (code, text) in outcomes {
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&there) && text.contains("copy it there from the kernel's package"), "{text}");
    }
}

/// As root of a container is: without these capabilities, CAP_SYS_ADMIN among them.
fn without_capabilities(dropped: &'static [(i32, &str)], arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new("flsched");
    let drop_all = move || {
        for (capability, _) in dropped {
            // SAFETY: takes integers only.
            nix::errno::Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, *capability, 0, 0, 0) })?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.args(arguments).pre_exec(drop_all) };
    outcome_of(command)
}

fn missing_capabilities_are_named() {
    const SYS_ADMIN: (i32, &str) = (21, "CAP_SYS_ADMIN");
    const PERFMON: (i32, &str) = (38, "CAP_PERFMON");
    const BPF: (i32, &str) = (39, "CAP_BPF");
    let attach = ["run", "--", "true"];
    let record = ["record", "--out", "/tmp/load", "--", "true"];
    let of_container: &[_] = &[SYS_ADMIN, PERFMON, BPF];
    for (dropped, arguments, named, not_named) in [
        (of_container, &attach[..], "CAP_BPF and CAP_PERFMON", "CAP_SYS_ADMIN"),
        (of_container, &["doctor"], "root, without CAP_BPF and CAP_PERFMON", "loads on this kernel"),
        (of_container, &record, "CAP_SYS_ADMIN", "BTF"),
        (&[SYS_ADMIN, PERFMON], &attach, "needs CAP_PERFMON", "CAP_BPF"),
        (&[SYS_ADMIN, BPF], &attach, "needs CAP_BPF", "CAP_PERFMON"),
        (&[SYS_ADMIN], &record, "needs CAP_SYS_ADMIN", "Operation not permitted"),
    ] {
        let (code, text) = without_capabilities(dropped, arguments);
        assert_eq!(code, 1, "{dropped:?} {arguments:?}: {text}");
        assert!(text.contains(named) && !text.contains(not_named), "{dropped:?} {arguments:?}: {text}");
        assert!(!text.contains("MEMLOCK") && !text.contains("please report"), "{text}");
    }
    assert_eq!(without_capabilities(&[SYS_ADMIN], &attach).0, 0, "the two are enough");
}

/// As on a kernel without CONFIG_DEBUG_INFO_BTF, for which the file is hidden.
fn missing_types_are_named() {
    let btf = "/sys/kernel/btf";
    let none: Option<&str> = None;
    nix::mount::mount(Some("none"), btf, Some("tmpfs"), nix::mount::MsFlags::empty(), none)
        .expect("root may");
    let outcomes = [
        run(&[], &["true"]),
        flsched(&["attach", "flsched"]),
        flsched(&["record", "--out", "/tmp/load", "--", "true"]),
        flsched(&["doctor"]),
    ];
    nix::mount::umount(btf).expect("it is mounted");
    for (code, text) in outcomes {
        assert_eq!(code, 1, "{text}");
        assert!(
            text.contains("/sys/kernel/btf/vmlinux") && text.contains("CONFIG_DEBUG_INFO_BTF=y"),
            "{text}"
        );
        assert!(!text.contains("libbpf") && !text.contains("internal error"), "{text}");
    }
}

fn attaches_schedules_detaches() {
    let (code, text) = run(&[], &["hackbench", "-p", "-g", "2", "-l", "50"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("Time:") && !text.contains("EJECTED"), "{text}");
    assert!(!is_any_attached());
    assert_ne!(sched_ext("enable_seq"), "0");
    Hackbench::start("-p -g 2 -l 20").finish();
}

fn status_names_policy_and_version() {
    let (_, text) = flsched(&["status"]);
    assert!(text.contains("scheduler   default"), "{text}");
    let attached = Attached::with(&[]);
    let (code, text) = flsched(&["status", "--json"]);
    assert_eq!(code, 0);
    let status: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status["policy"], policy().name);
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["tasks"].as_u64().unwrap() > 10, "{text}");
    assert!(attached.interrupt().success());
}

fn run_passes_exit_codes_and_signals() {
    assert_eq!(run(&[], &["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(run(&[], &["sh", "-c", "kill -KILL $$"]).0, 137);
    assert_eq!(run(&[], &["/no/such/program"]).0, 127);
    assert_eq!(flsched(&["run", "--policy", "nosuch", "--", "true"]).0, 2);

    let script = "trap 'exit 42' TERM; while :; do sleep 0.05; done";
    let mut run = Command::new("flsched");
    run.args(["run", "--policy", policy().name, "--", "sh", "-c", script]);
    let mut run = run.spawn().expect("starts");
    wait_until("the policy is attached", is_attached);
    sleep(Duration::from_millis(500));
    let pid = nix::unistd::Pid::from_raw(run.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(42));
    assert!(!is_any_attached());
}

fn partial_leaves_others_alone() {
    let script =
        "cat /sys/kernel/sched_ext/switch_all; grep '^policy' /proc/self/sched; flsched status --json";
    let (code, text) = run(&["--partial"], &["sh", "-c", script]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("0\n"), "{text}");
    // Only sh, and flsched with its helper dmesg, are scheduled by the policy.
    let json = &text[text.find('{').expect("JSON")..];
    // A warning may follow the JSON.
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>();
    let status = values.next().expect("JSON").expect("JSON");
    assert_eq!(status["scope"], "SCHED_EXT tasks");
    assert!((1..=4).contains(&status["tasks"].as_u64().unwrap()), "{text}");
    let policy = text.lines().find(|line| line.starts_with("policy")).expect("a policy line");
    assert!(policy.trim_end().ends_with('7'), "the command is of class SCHED_EXT: {policy}");
}

fn partial_beside_hogs_never_stands_still() {
    let has_server = flsched_host::sched_ext::has_deadline_server();
    // Two on one CPU would leave another one to the command.
    let hogs: Vec<Hogs> = cpus_in("online").into_iter().map(|cpu| Hogs::start(1, Some(cpu))).collect();
    let (code, text) = run(&["--partial"], &["true"]);
    if has_server {
        assert_eq!(code, 0, "{text}");
    } else {
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("no deadline server") && text.contains("--force"), "{text}");
    }
    // sh forks; when the kernel detaches a scheduler, it waits for tasks in a fork.
    let (code, text) = run(&["--partial", "--force"], &["sh", "-c", "uname -r; exit 5"]);
    assert_eq!(code, 5, "{text}");
    assert_eq!(text.contains("DETACHED"), !has_server, "{text}");
    hogs.into_iter().for_each(Hogs::stop);
}

/// Without a real-time priority the process that watches the command would get a hundredth of a CPU beside these hogs.
fn partial_beside_hogs_that_the_kernel_prefers() {
    let has_server = flsched_host::sched_ext::has_deadline_server();
    let script = "for i in 1 2 3 4 5 6; do sleep 0.5; done; exit 5";
    let command = spawn(move || run(&["--partial", "--force"], &["sh", "-c", script]));
    // Beside the hogs, loading it would take minutes.
    wait_until("it is attached", is_attached);
    be_nice(-20);
    let hogs: Vec<Hogs> = cpus_in("online").into_iter().map(|cpu| Hogs::start(1, Some(cpu))).collect();
    if !has_server {
        let began = Instant::now();
        wait_until("it is detached", || !is_attached());
        // The watch waits for 2 s without progress. When it was of the default class, it took 15 s.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        hogs.into_iter().for_each(Hogs::stop);
    }
    let (code, text) = command.join().expect("flsched ends");
    be_nice(0);
    assert_eq!(code, 5, "{text}");
    assert_eq!(text.contains("DETACHED"), !has_server, "{text}");
}

fn partial_beside_hogs_on_other_cpus() {
    let online = cpus_in("online");
    let hogs = Hogs::start(2, Some(online[0]));
    let free = online[1..].to_vec();
    let restricted = spawn(move || {
        allow(0, free);
        run(&["--partial"], &["sh", "-c", "uname -r; exit 5"])
    });
    let (code, text) = restricted.join().expect("flsched ends");
    assert_eq!(code, 5, "{text}");
    assert!(!text.contains("DETACHED"), "{text}");
    hogs.stop();
}

fn waits_reach_the_command() {
    let (code, text) = run(&["--waits", "sleep"], &["sh", "-c", "echo $KMP_BLOCKTIME $OMP_WAIT_POLICY"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("0 passive") && text.contains("waits sleep: set OMP_WAIT_POLICY=passive"),
        "{text}"
    );
}

fn second_attach_is_refused() {
    let attached = Attached::with(&[]);
    let (code, text) = run(&[], &["true"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("attached already") && text.contains("pid"), "{text}");
    // Linux 7.1 and newer have sub-schedulers, which need an explanation.
    let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
    let release = release();
    let mut numbers = release.split(['.', '+', '-']);
    let has_them = (number(numbers.next()), number(numbers.next())) >= (Some(7), Some(1));
    assert_eq!(text.contains("sub-schedulers do not change that"), has_them, "{release}: {text}");
    let (code, text) = flsched(&["doctor"]);
    assert_eq!((code, text.contains("sub-schedulers do not change that")), (1, has_them), "{text}");
    assert!(is_attached(), "the first one stays");
    assert!(attached.interrupt().success());
}

fn lazy_rescheduling_where_the_kernel_has_it() {
    let run = |value: &str| {
        let mut command = Command::new("flsched");
        command.args(["run", "--", "true"]).env("FLSCHED_LAZY_RESCHED", value);
        outcome_of(command)
    };
    let (code, text) = run("1");
    if flsched_host::sched_ext::has_lazy_rescheduling() {
        assert!(code == 0 && text.contains("end lazily"), "{code}: {text}");
    } else {
        assert!(code == 2 && text.contains("this kernel has no SCX_OPS_LAZY_RESCHED"), "{code}: {text}");
    }
    assert_eq!(run("0").0, 0);
    assert_eq!(run("yes").0, 2);
    assert!(!is_any_attached());
}

fn sigkill_restores_the_default_scheduler() {
    let mut attached = Attached::with(&[]);
    attached.0.kill().expect("it runs");
    attached.0.wait().expect("waitable");
    wait_until("the default scheduler is back", || !is_any_attached());
    Hackbench::start("-p -g 2 -l 20").finish();
}

/// Nobody reads what it prints, so it waits for ever before it checks whether to stop.
fn a_second_signal_ends_it() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let size = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETPIPE_SZ).expect("a pipe's size");
    writer.write_all(&vec![b'x'; size as usize]).expect("there is room");
    let mut attach = Command::new("flsched");
    attach.args(["attach", "flsched", "--stats", "1"]).stdout(writer);
    let mut attached = Attached(attach.spawn().expect("it starts"));
    wait_until("the policy is attached", is_attached);
    sleep(Duration::from_secs(2));
    let pid = Pid::from_raw(attached.0.id() as i32);
    kill(pid, Signal::SIGINT).expect("it runs");
    sleep(millis(500));
    assert!(attached.is_alive(), "it has printed");
    kill(pid, Signal::SIGINT).expect("it runs");
    assert_eq!(attached.0.wait().expect("waitable").code(), Some(130));
    wait_until("the default scheduler is back", || !is_any_attached());
    drop(reader);
}

fn ejected_and_attached_again() {
    let attached = Attached::with(&[]);
    for _ in 1..=2 {
        let before = sched_ext("enable_seq");
        eject();
        wait_until("it is attached again", || sched_ext("enable_seq") != before && is_attached());
    }
    eject();
    wait_until("the default scheduler is back", || !is_any_attached());
    sleep(Duration::from_secs(3));
    assert!(!is_any_attached(), "the third pause is a minute");
    let began = Instant::now();
    assert!(attached.interrupt().success());
    assert!(began.elapsed() < Duration::from_secs(2), "{:.1?}", began.elapsed());
    clear_kernel_log();
}

/// A suspended machine takes all CPUs but one offline, which ends a scheduler.
fn suspended_and_attached_again() {
    const STATES: &str = "/sys/power/state";
    const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
    let sleeps = std::fs::read_to_string(STATES).is_ok_and(|states| states.contains("mem"));
    if !sleeps || !std::path::Path::new(ALARM).exists() {
        return;
    }
    let attached = Attached::with(&[]);
    let hogs = Hogs::start(2, None);
    let before = sched_ext("enable_seq");
    std::fs::write(ALARM, "+2").expect("the clock can wake the machine");
    std::fs::write(STATES, "mem").expect("it sleeps, and wakes up");
    wait_until("it is attached again", || sched_ext("enable_seq") != before && is_attached());
    Hackbench::start("-p -g 2 -l 20").finish();
    hogs.stop();
    assert!(attached.interrupt().success());
}

fn run_goes_on_after_an_ejection() {
    let script = format!("{EJECT}; sleep 4; cat /sys/kernel/sched_ext/state; exit 9");
    let (code, text) = run(&[], &["sh", "-c", &script]);
    assert_eq!(code, 9, "{text}");
    assert!(text.starts_with("enabled"), "{text}");
    assert!(text.contains("*** EJECTED ***") && text.contains("takes over for 1 s"), "{text}");
    assert!(text.contains("flsched schedules this machine again"), "{text}");
    clear_kernel_log();
}

/// A real-time task that never sleeps, on a kernel whose sched_ext has no deadline server.
fn a_stall_names_the_task_and_its_user() {
    const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    if flsched_host::sched_ext::has_deadline_server() {
        return;
    }
    let throttle = std::fs::read_to_string(THROTTLE).expect("readable");
    std::fs::write(THROTTLE, "-1").expect("root may");
    let cpu = *cpus_in("online").last().expect("a CPU");
    let mut attach = Command::new("flsched");
    attach.args(["attach", "flsched"]).stderr(Stdio::piped());
    let mut attached = Attached(attach.spawn().expect("it starts"));
    wait_until("the policy is attached", is_attached);
    let mut waits = spinning(cpu, libc::SCHED_OTHER);
    let hog = Hogs::repeating(1, Some(cpu), |_| {
        enter_class(libc::SCHED_FIFO, 1).expect("root may");
        work_for(Duration::from_secs(50));
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while is_any_attached() && Instant::now() < deadline {
        sleep(millis(100));
    }
    let (_, status) = flsched(&["status"]);
    let expected = format!("sh (pid {}) of user 1234", waits.id());
    waits.kill().expect("it runs");
    hog.stop();
    waits.wait().expect("waitable");
    std::fs::write(THROTTLE, throttle).expect("root may");
    kill(Pid::from_raw(attached.0.id() as i32), Signal::SIGINT).expect("it runs");
    let mut log = String::new();
    attached.0.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(attached.0.wait().expect("waitable").success(), "{log}");
    assert!(log.contains("EJECTED") && log.contains(&expected), "{expected}: {log}");
    assert!(status.contains(&format!("waited      {expected}")), "{expected}: {status}");
    clear_kernel_log();
}

/// A shell of user 1234 that computes on a CPU, in this class.
fn spinning(cpu: usize, class: i32) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]).uid(1234);
    let enter = move || {
        pin_to(cpu);
        enter_class(class, 0)
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(enter) };
    command.spawn().expect("it starts")
}

/// A task that starves does not take the scheduler from another one that runs.
fn partial_gives_a_starved_task_back() {
    const SCHED_EXT: i32 = 7;
    let has_server = flsched_host::sched_ext::has_deadline_server();
    let cpus = cpus_in("online");
    let mut attach = Command::new("flsched");
    attach.args(["attach", "flsched", "--partial", "--force"]).stderr(Stdio::piped());
    let mut attached = Attached(attach.spawn().expect("it starts"));
    wait_until("the policy is attached", is_attached);
    let hog = Hogs::start(1, Some(cpus[0]));
    let mut starves = spinning(cpus[0], SCHED_EXT);
    let mut runs = spinning(cpus[1], SCHED_EXT);
    let class_of = |child: &Child| {
        let sched = std::fs::read_to_string(format!("/proc/{}/sched", child.id())).expect("it lives");
        let line = sched.lines().find(|line| line.starts_with("policy")).expect("a policy line");
        line.split_whitespace().last().expect("a number").to_owned()
    };
    // The kernel would end the scheduler after 30 s. What has been given back is safe from then on.
    let end = Instant::now() + Duration::from_secs(40);
    while Instant::now() < end && (has_server || class_of(&starves) != "0") {
        sleep(Duration::from_secs(1));
    }
    let classes = [class_of(&starves), class_of(&runs)];
    let still = is_attached();
    for child in [&mut starves, &mut runs] {
        child.kill().expect("it runs");
        child.wait().expect("waitable");
    }
    hog.stop();
    kill(Pid::from_raw(attached.0.id() as i32), Signal::SIGINT).expect("it runs");
    let mut log = String::new();
    attached.0.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(attached.0.wait().expect("waitable").success() && still, "{log}");
    assert_eq!(classes, [if has_server { "7" } else { "0" }, "7"], "{log}");
    // By its name, which is still that of this program if it starves before it becomes the shell.
    let named = log.contains(&format!("(pid {}) of user 1234 has not run for", starves.id()));
    assert_eq!(named, !has_server, "{log}");
}

/// The old settings are back after the command, and after `flsched` is killed.
fn partial_with_a_share() {
    const SERVERS: &str = "/sys/kernel/debug/sched/ext_server";
    let options = ["--partial", "--share", "50", "--force"];
    if !flsched_host::sched_ext::has_deadline_server() {
        let (code, text) = run(&options, &["true"]);
        assert!(code == 1 && text.contains("this kernel has none") && !is_any_attached(), "{text}");
        return;
    }
    let settings = || {
        let read = |cpu: &usize| {
            let read = |name| std::fs::read_to_string(format!("{SERVERS}/cpu{cpu}/{name}")).expect("debugfs");
            [read("runtime"), read("period")].map(|text| text.trim().to_owned())
        };
        cpus_in("online").iter().map(read).collect::<Vec<_>>()
    };
    let before = settings();
    let (code, text) =
        run(&options, &["cat", &format!("{SERVERS}/cpu0/runtime"), &format!("{SERVERS}/cpu0/period")]);
    assert!(code == 0 && text.starts_with("50000000\n100000000\n"), "{text}");
    assert_eq!(settings(), before);

    let mut killed = Command::new("flsched");
    killed.arg("run").args(options).args(["--", "sleep", "60"]);
    let mut killed = killed.spawn().expect("it starts");
    wait_until("the share is set", || settings() != before);
    killed.kill().expect("it runs");
    killed.wait().expect("waitable");
    wait_until("the old settings are back", || settings() == before);
    wait_until("the default scheduler is back", || !is_any_attached());
    let (code, text) = run(&["--partial", "--share", "91"], &["true"]);
    assert!(code == 2 && text.contains("1..=90"), "{text}");
}

/// Two for each CPU, until then.
fn real_time_hogs(end: Instant) -> Vec<JoinHandle<()>> {
    real_time_hogs_until(move || Instant::now() >= end)
}

fn real_time_hogs_until(is_over: impl Fn() -> bool + Clone + Send + 'static) -> Vec<JoinHandle<()>> {
    let hog = |number: usize| {
        let is_over = is_over.clone();
        spawn(move || {
            enter_class(libc::SCHED_FIFO, 1 + 10 * number as i32).expect("root may");
            while !is_over() {
                work();
            }
        })
    };
    (0..2 * cpus_in("online").len()).map(hog).collect()
}

/// For which this task, which is not of a real-time class, did not run until then.
fn longest_pause(end: Instant) -> Duration {
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    while last < end {
        sleep(millis(100));
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}

/// On a kernel whose sched_ext has no deadline server: under the policy nothing but the hogs would run.
fn real_time_hogs_do_not_stop_the_machine() {
    const LASTS: Duration = Duration::from_secs(20);
    if flsched_host::sched_ext::has_deadline_server() {
        return;
    }
    let mut attach = Command::new("flsched");
    attach.args(["attach", "flsched"]).stderr(Stdio::piped());
    let mut attached = Attached(attach.spawn().expect("it starts"));
    wait_until("the policy is attached", is_attached);
    let end = Instant::now() + LASTS;
    let hogs = real_time_hogs(end);
    let longest = longest_pause(end);
    hogs.into_iter().for_each(|hog| hog.join().expect("it ends well"));
    wait_until("it is attached again", is_attached);
    kill(Pid::from_raw(attached.0.id() as i32), Signal::SIGINT).expect("it runs");
    let mut log = String::new();
    attached.0.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(attached.0.wait().expect("waitable").success(), "{log}");
    eprintln!("longest pause: {longest:.1?}");
    assert!(log.contains("DETACHED by flsched") && longest < LASTS / 2, "{longest:.1?}: {log}");
    clear_kernel_log();
}

/// The same while `compare` has it attached, which in the machines of `flsched vm` is not guarded.
fn real_time_hogs_do_not_stop_a_comparison() {
    const LASTS: Duration = Duration::from_secs(20);
    if flsched_host::sched_ext::has_deadline_server() {
        return;
    }
    let mut compare = Command::new("flsched");
    compare.args([
        "compare",
        "--on",
        "host",
        "--schedulers",
        "flsched,eevdf",
        "--runs",
        "1",
        "--",
        "sleep",
        "5",
    ]);
    compare.env_remove("FLSCHED_CLOCK").stdout(Stdio::piped()).stderr(Stdio::piped());
    let comparison = compare.spawn().expect("it starts");
    wait_until("the policy is attached", is_any_attached);
    let end = Instant::now() + LASTS;
    let hogs = real_time_hogs(end);
    let longest = longest_pause(end);
    hogs.into_iter().for_each(|hog| hog.join().expect("it ends well"));
    let output = comparison.wait_with_output().expect("waitable");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(
        text.contains("real-time tasks kept every other task") && longest < LASTS / 2,
        "{longest:.1?}: {text}"
    );
    clear_kernel_log();
}

fn nothing_starts_beside_real_time_hogs() {
    if flsched_host::sched_ext::has_deadline_server() {
        return;
    }
    // A twentieth of each CPU is left for the command to start.
    let is_done = Arc::new(AtomicBool::new(false));
    let hogs = real_time_hogs_until({
        let is_done = Arc::clone(&is_done);
        let end = Instant::now() + Duration::from_secs(60);
        move || is_done.load(Ordering::Relaxed) || Instant::now() >= end
    });
    let (code, text) = run(&[], &["true"]);
    is_done.store(true, Ordering::Relaxed);
    assert!(code != 0 && text.contains("real-time tasks keep all"), "{code}: {text}");
    assert!(!is_any_attached(), "{text}");
    hogs.into_iter().for_each(|hog| hog.join().expect("it ends well"));
    clear_kernel_log();
}
