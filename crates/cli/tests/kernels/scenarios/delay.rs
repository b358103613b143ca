//! How long tasks wait, and how CPU time is shared.
use super::{BOUNDED, EVERYWHERE, REPEATABLE, Scenario, scenario};
use crate::guest::{machine, policy, rounds};
use crate::load::*;
use crate::machine::Machine;
use crate::scheduler::Held;
use nix::fcntl::OFlag;
use nix::libc;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn, yield_now};
use std::time::{Duration, Instant};

pub const SCENARIOS: &[Scenario] = &[
    scenario!(pinned_task_beside_a_hog_keeps_the_bound, EVERYWHERE, BOUNDED),
    scenario!(sixteen_tasks_on_a_cpu_keep_the_bound, EVERYWHERE, BOUNDED),
    scenario!(one_that_yields_among_hogs_keeps_the_bound, REPEATABLE, BOUNDED),
    scenario!(many_pinned_tasks_beside_idle_cpus, EVERYWHERE, BOUNDED),
    scenario!(real_time_tasks_take_cpus_away, REPEATABLE, BOUNDED),
    scenario!(kernel_threads_run_beside_hogs, &[Machine::Work, Machine::Wall], BOUNDED),
    scenario!(background_work_cannot_take_half, REPEATABLE, BOUNDED),
    scenario!(key_to_echo_under_hackbench, REPEATABLE, BOUNDED),
];

/// Up to this number of tasks on a CPU, `max_delay_us` is the bound of a wait.
const CROWD: u32 = 16;
/// FLSCHED's default `max_delay_us`; the other policies except SCHED_RR2 are held to it, too.
const MAX_DELAY: Duration = Duration::from_millis(100);
/// SCHED_RR2's default `slice_us`: a task waits for one slice of each other task.
const RR2_TURN: Duration = Duration::from_millis(100);
/// The kernel's timer tick, at which the current turn ends.
const TICK: Duration = Duration::from_millis(4);
/// An allowance on the wall clock, where four emulated CPUs share the CPU time that the host has left. There only
/// starving tasks can be detected; the bound itself is checked on the work clock.
const HOST_NOISE: Duration = Duration::from_secs(2);

fn host_noise() -> Duration {
    if machine() == Machine::Wall { HOST_NOISE } else { Duration::ZERO }
}

/// How long a task may wait on a CPU with `tasks` tasks, including itself.
fn delay_limit(tasks: u32) -> Duration {
    let promised = match policy().name {
        "rr2" => (RR2_TURN + TICK) * (tasks - 1) + TICK,
        _ => MAX_DELAY * tasks.max(CROWD) / CROWD,
    };
    promised + TICK + host_noise()
}

fn pinned_task_beside_a_hog_keeps_the_bound() {
    let held = Held::start();
    let hog = Hogs::start(1, Some(a_cpu()));
    let longest = longest_wait_on(a_cpu(), millis(400));
    hog.stop();
    held.stop();
    assert!(longest <= delay_limit(2), "waited {longest:?} behind a hog");
    assert!(longest > millis(1), "they did share the CPU: waited {longest:?}");
}

fn sixteen_tasks_on_a_cpu_keep_the_bound() {
    let held = Held::start();
    let hogs = Hogs::start(15, Some(a_cpu()));
    let longest = longest_wait_on(a_cpu(), millis(400));
    hogs.stop();
    held.stop();
    assert!(longest <= delay_limit(16), "waited {longest:?} among 16");
}

fn one_that_yields_among_hogs_keeps_the_bound() {
    let held = Held::start();
    let hogs = Hogs::start(3, Some(a_cpu()));
    let longest = spawn(|| {
        pin_to(a_cpu());
        let began = Instant::now();
        let mut longest = Duration::ZERO;
        while began.elapsed() < millis(400) {
            let before = Instant::now();
            yield_now();
            longest = longest.max(before.elapsed());
        }
        longest
    });
    let longest = longest.join().expect("ends well");
    hogs.stop();
    held.stop();
    assert!(longest <= delay_limit(4), "waited {longest:?} after a yield");
}

/// An RCU grace period needs kernel threads and a quiescent state of every CPU. It must not wait for the hogs.
fn kernel_threads_run_beside_hogs() {
    let held = Held::start();
    let hogs = Hogs::start(16, None);
    for _ in 0..3 {
        let began = Instant::now();
        await_grace_period().expect("not with nohz_full");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2) + host_noise(), "a grace period took {took:?}");
    }
    hogs.stop();
    held.stop();
}

/// Thirty tasks that are pinned to a CPU delay neither a task that may run elsewhere nor tasks on other CPUs.
fn many_pinned_tasks_beside_idle_cpus() {
    const PINNED: u32 = 30;
    let held = Held::start();
    let pinned = Hogs::repeating(PINNED as usize, Some(a_cpu()), |number| {
        work_for(millis(1));
        // A third of them sleep and wake up.
        if number % 3 == 0 {
            sleep(millis(2));
        }
    });
    let visitor = spawn(|| {
        pin_to(a_cpu());
        allow(0, possible_cpus());
        longest_wait(millis(300))
    });
    let elsewhere = Crew::start(2, 100, |_, _| {
        work_for(millis(1));
        sleep(millis(1));
    });
    let waited = visitor.join().expect("the visitor ends well");
    elsewhere.finish();
    let longest = longest_wait_on(a_cpu(), millis(400));
    pinned.stop();
    held.stop();
    let limit = delay_limit(PINNED + 2);
    assert!(waited <= limit, "one that may leave waited {waited:?} behind {PINNED} that may not");
    assert!(longest <= limit, "waited {longest:?} among {PINNED} pinned tasks");
}

/// The real-time class takes precedence. A task that it displaces moves to another CPU at once and does not wait for a
/// gap. A pinned task runs in the gaps.
fn real_time_tasks_take_cpus_away() {
    const AT_FIRST: Duration = Duration::from_millis(400);
    const BUSY: Duration = Duration::from_millis(9);
    const GAP: Duration = Duration::from_millis(1);
    const DURING: Duration = Duration::from_millis(1000);
    let held = Held::start();
    // Two CPUs are left for two tasks, which run before the real-time tasks begin.
    let movable: Vec<_> = (0..2).map(|_| spawn(|| (longest_wait(DURING), cpu_time()))).collect();
    let pinned = spawn(|| {
        pin_to(a_cpu());
        (longest_wait(DURING), cpu_time())
    });
    let real_time: Vec<_> = [1, 2]
        .map(|cpu| {
            spawn(move || {
                pin_to(cpu);
                enter_class(libc::SCHED_FIFO, 10).expect("root may");
                let began = Instant::now();
                work_for(AT_FIRST);
                while began.elapsed() < DURING {
                    work_for(BUSY);
                    sleep(GAP);
                }
                cpu_time()
            })
        })
        .into();
    for thread in real_time {
        let had = thread.join().expect("it ends well");
        assert!(had > DURING * 8 / 10, "the real-time class comes first: it had {had:?}");
    }
    let movable = movable.into_iter().map(|thread| thread.join().expect("it ends well"));
    let movable: Vec<(Duration, Duration)> = movable.collect();
    let (longest, had) = pinned.join().expect("it ends well");
    held.stop();
    eprintln!("movable: longest wait and CPU time {movable:?}, pinned: {longest:?} {had:?}");
    for (longest, had) in movable {
        assert!(longest <= delay_limit(2), "waited {longest:?} while CPUs were idle");
        assert!(had >= DURING * 2 / 3, "had {had:?} of two CPUs for two tasks");
    }
    // The pinned task can run only in the gaps, a tenth of the time. A tenth of that is enough here.
    assert!(had >= DURING / 100, "had {had:?} in the gaps of the real-time class");
}

/// Tasks of nice 19 and of SCHED_IDLE get less than other tasks on their CPU, but they make progress.
fn background_work_cannot_take_half() {
    const DURING: Duration = Duration::from_millis(800);
    let held = Held::start();
    for (kind, step_back) in [("nice 19", be_nicest as fn()), ("SCHED_IDLE", enter_idle_class)] {
        // CPU time of the two tasks, in ns; the second one is the background task.
        let had = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let counted = had.clone();
        let hogs = Hogs::repeating(2, Some(a_cpu()), move |number| {
            if number == 1 && counted[number].load(Ordering::Relaxed) == 0 {
                step_back();
            }
            work_for(Duration::from_micros(100));
            counted[number].store(cpu_time().as_nanos() as u64, Ordering::Relaxed);
        });
        hogs.go_on();
        let now = || [0, 1].map(|number| had[number].load(Ordering::Relaxed));
        let (from, before) = (Instant::now(), now());
        sleep(DURING);
        let (during, after) = (from.elapsed(), now());
        hogs.stop();
        let share = |number: usize| (after[number] - before[number]) as f64 / during.as_nanos() as f64;
        let (normal, background) = (share(0), share(1));
        eprintln!("beside {kind}: normal work had {normal:.2} of the CPU, the other {background:.2}");
        assert!(normal >= 0.6, "beside {kind} normal work had only {normal:.2} of the CPU");
        assert!(background > 0.0, "{kind} had nothing of the CPU");
    }
    held.stop();
}

fn be_nicest() {
    be_nice(19);
}

fn enter_idle_class() {
    enter_class(libc::SCHED_IDLE, 0).expect("root may");
}

/// A user types into a program that waits for a terminal, while other tasks keep every CPU busy. The typing thread is
/// of the real-time class, because the policy must not delay the typing itself.
fn key_to_echo_under_hackbench() {
    const KEYS: usize = 20;
    const EVERY: Duration = Duration::from_millis(50);
    let groups = 10 * rounds();
    let tasks = groups * 40;
    let held = Held::start();
    let (mut terminal, mut echo) = echoing_terminal();
    let bench = Hackbench::start(&format!("-p -g {groups} -l 1000000"));
    let typist = spawn(move || {
        enter_class(libc::SCHED_FIFO, 10).expect("root may");
        // Until all of hackbench's tasks exist.
        sleep(millis(30) * groups);
        let began = Instant::now();
        let mut delays: Vec<Duration> = (0..KEYS as u32)
            .map(|key| {
                sleep((began + EVERY * key).saturating_duration_since(Instant::now()));
                let pressed = Instant::now();
                terminal.write_all(b"x").expect("the terminal takes a key");
                terminal.read_exact(&mut [0]).expect("the terminal shows it");
                pressed.elapsed()
            })
            .collect();
        delays.sort();
        echo.kill().expect("it runs");
        echo.wait().expect("waitable");
        delays
    });
    let delays = typist.join().expect("the typist ends well");
    drop(bench);
    held.stop();
    // Of so few delays, the longest is the 99th percentile.
    let (median, p99) = (delays[KEYS / 2], delays[KEYS - 1]);
    eprintln!("key to echo under {tasks} tasks: median {median:?}, p99 {p99:?}");
    assert!(p99 <= delay_limit(tasks / possible_cpus().len() as u32), "p99 {p99:?} of {delays:?}");
}

/// The user's end of a pseudo terminal, and a program at the other end that echoes each key.
fn echoing_terminal() -> (PtyMaster, Child) {
    let terminal = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("/dev/ptmx");
    grantpt(&terminal).expect("grantpt");
    unlockpt(&terminal).expect("unlockpt");
    let name = ptsname_r(&terminal).expect("it has a name");
    let mut options = OpenOptions::new();
    // It must not become the terminal of this session: its hangup would end this process.
    let line = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).expect("/dev/pts");
    // Raw mode: the kernel does not echo, and passes each key on at once.
    let mut settings = tcgetattr(&line).expect("it is a terminal");
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings).expect("it is a terminal");
    let other = line.try_clone().expect("a file");
    (terminal, Command::new("cat").stdin(line).stdout(other).spawn().expect("cat starts"))
}
