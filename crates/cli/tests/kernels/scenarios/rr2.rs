//! The behaviour of SCHED_RR2: strict priorities over the whole machine, round robin within a level, a trickle for
//! lower levels, and grouping of co-threads.
use super::cpus::Group;
use super::{REPEATABLE, Scenario, scenario};
use crate::load::*;
use crate::machine::Machine;
use crate::scheduler::{Held, flsched};
use nix::libc;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const RR2: &[&str] = &["rr2"];
/// The machine with two groups of CPUs.
const NODES: &[Machine] = &[Machine::Nodes];

pub const SCENARIOS: &[Scenario] = &[
    scenario!(lower_levels_never_run_beside_waiting_higher_ones, REPEATABLE, RR2),
    scenario!(higher_levels_run_at_once, REPEATABLE, RR2),
    scenario!(a_changed_nice_value_counts_at_once, REPEATABLE, RR2),
    scenario!(turns_in_a_level, REPEATABLE, RR2),
    scenario!(a_hog_leaves_a_trickle, REPEATABLE, RR2),
    scenario!(kernel_threads_leave_the_trickle_to_others, REPEATABLE, RR2),
    scenario!(a_hog_is_no_stall, REPEATABLE, RR2),
    scenario!(search_steps, REPEATABLE, RR2),
    scenario!(search_step_any, NODES, RR2),
    scenario!(cothreads_share_a_cpu, REPEATABLE, RR2),
    scenario!(no_cothreads_no_difference, REPEATABLE, RR2),
    scenario!(large_teams_spread, NODES, RR2),
    scenario!(teams_of_listed_processes, REPEATABLE, RR2),
    scenario!(teams_of_a_cgroup, REPEATABLE, RR2),
    scenario!(processes_that_are_not_there, REPEATABLE, RR2),
];

/// An allowance for the emulated machine's own work, and for the tick at which a turn ends.
const TICKS: Duration = Duration::from_millis(12);

/// A separate process that computes until this is dropped.
struct Burner(Child);

impl Burner {
    fn start(nice: i32, cpu: Option<usize>) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; while :; do :; done"]).stdout(Stdio::piped());
        let above_others = || {
            be_nice(-20);
            Ok(())
        };
        // SAFETY: between fork and exec there is only a system call.
        unsafe { command.pre_exec(above_others) };
        let mut burner = Self(command.spawn().expect("sh starts"));
        // Its level is lowered only when it computes. Until then it can hold locks in the kernel for which other
        // tasks wait, while it waits for tasks of higher levels.
        let mut word = [0];
        burner.0.stdout.take().expect("a pipe").read_exact(&mut word).expect("it computes");
        if let Some(cpu) = cpu {
            allow(burner.0.id() as i32, [cpu]);
        }
        renice(&burner, nice);
        burner
    }

    /// Its CPU time.
    fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.0.id())).expect("it runs");
        Duration::from_nanos(stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        // It must have a high level to exit: below other tasks it would not run.
        renice(self, -20);
        let _ = self.0.wait();
    }
}

/// Moves this thread to the real-time class, so that it does not wait for the tasks that it starts. They are normal
/// tasks.
fn above_all() {
    enter_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 50).expect("root may");
}

/// While enough tasks of the highest level are runnable, they have all CPUs. Tasks of lower levels get no CPU time, on
/// whichever CPUs they may run.
fn lower_levels_never_run_beside_waiting_higher_ones() {
    const DURING: Duration = Duration::from_millis(600);
    above_all();
    let held = Held::with("trickle_us=0");
    let cpus = possible_cpus().len();
    let lower: Vec<Burner> = (0..3).map(|_| Burner::start(5, None)).collect();
    let pinned: Vec<Burner> = possible_cpus().map(|cpu| Burner::start(1, Some(cpu))).collect();
    let lowest = Burner::start(19, None);
    let higher: Vec<Burner> = (0..cpus + 2).map(|_| Burner::start(0, None)).collect();
    // Two more that sleep and wake up, so that pushes and pulls never end.
    let moving = Hogs::part_time(2);
    sleep(millis(100));
    let below = || lower.iter().chain(&pinned).chain([&lowest]).map(Burner::cpu_time).sum::<Duration>();
    let before = below();
    sleep(DURING);
    let had = below() - before;
    let above: Duration = higher.iter().map(Burner::cpu_time).sum();
    eprintln!("those below had {had:?} of {:?}, those above {above:?}", DURING * cpus as u32);
    assert!(above > DURING * cpus as u32 / 2, "those above had {above:?}");
    // If two CPUs decide at the same moment, a lower level can run until the next tick.
    assert!(had < DURING * cpus as u32 / 100, "those below had {had:?} while others waited");
    moving.stop();
    drop((lower, pinned, lowest, higher));
    held.stop();
}

/// A woken task does not wait for tasks of lower levels, whatever CPU they run on. It leaves a CPU
/// that it would share with a task of its level for one that runs a task of a lower level.
fn higher_levels_run_at_once() {
    const ROUNDS: u32 = 100;
    let held = Held::start();
    let hogs: Vec<Burner> = possible_cpus().map(|_| Burner::start(10, None)).collect();
    let delays = |nice: i32| {
        spawn(move || {
            be_nice(nice);
            let mut late: Vec<Duration> = (0..ROUNDS)
                .map(|_| {
                    let due = Instant::now() + millis(3);
                    sleep(millis(3));
                    work_for(millis(1));
                    due.elapsed() - millis(1)
                })
                .collect();
            late.sort();
            (late[ROUNDS as usize / 2], late[ROUNDS as usize - 1])
        })
    };
    let sleepers: Vec<_> = [0, 0, -5].map(delays).into();
    let late: Vec<_> = sleepers.into_iter().map(|it| it.join().expect("it ends well")).collect();
    eprintln!(
        "median and longest delays of nice 0, 0, -5 among hogs of nice 10: {late:?}, preempted {}",
        held.count("preempted")
    );
    for (median, longest) in late {
        assert!(
            median < millis(1) && longest < AT_ONCE,
            "waited {median:?} to {longest:?} for less important tasks"
        );
    }
    assert!(held.count("preempted") > u64::from(ROUNDS), "they interrupt, and do not wait for turns");
    drop(hogs);
    held.stop();
}

/// A change of the running task's nice value below that of the waiting one takes effect at once.
fn a_changed_nice_value_counts_at_once() {
    above_all();
    let held = Held::with("trickle_us=0");
    let cpu = a_cpu();
    let one = Burner::start(0, Some(cpu));
    let other = Burner::start(1, Some(cpu));
    let times = || (one.cpu_time(), other.cpu_time());
    sleep(millis(50));
    let first = times();
    sleep(millis(100));
    let second = times();
    renice(&one, 2);
    sleep(TICKS);
    let third = times();
    sleep(millis(100));
    let fourth = times();
    eprintln!("one and other: {first:?} {second:?}, then {third:?} {fourth:?}");
    // While one task is being moved to the CPU, the other may run there for some microseconds.
    assert!(
        second.0 - first.0 > millis(80) && second.1 - first.1 < millis(1),
        "nice 0 runs, nice 1 does not"
    );
    assert!(
        fourth.1 - third.1 > millis(80) && fourth.0 - third.0 < millis(1),
        "nice 1 runs, nice 2 does not"
    );
    drop((one, other));
    held.stop();
}

fn renice(burner: &Burner, nice: i32) {
    // SAFETY: takes integers only.
    let outcome = unsafe { libc::setpriority(libc::PRIO_PROCESS, burner.0.id(), nice) };
    assert_eq!(outcome, 0, "setpriority {nice}");
}

/// Within a level no task waits longer than one slice of each of the others.
fn turns_in_a_level() {
    const TASKS: u32 = 8;
    const SLICE: Duration = Duration::from_millis(10);
    let held = Held::with("slice_us=10000");
    let crew: Vec<_> = (0..TASKS).map(|_| spawn(|| longest_wait_on(a_cpu(), SLICE * TASKS * 6))).collect();
    let waits: Vec<Duration> = crew.into_iter().map(|it| it.join().expect("it ends well")).collect();
    eprintln!("longest waits of {TASKS} tasks with turns of {SLICE:?}: {waits:?}");
    // A turn ends at the first tick after its slice.
    let limit = (SLICE + TICKS / 3) * TASKS;
    assert!(waits.iter().all(|wait| *wait <= limit), "{waits:?} > {limit:?}");
    held.stop();
}

/// Each of several tasks below a hog on its CPU gets slices, as often as `trickle_us` sets.
fn a_hog_leaves_a_trickle() {
    each_below_a_hog_has_turns();
}

/// The same beside kernel threads that wake up again and again, in the level of two of these tasks.
fn kernel_threads_leave_the_trickle_to_others() {
    let stop = Arc::new(AtomicBool::new(false));
    let waker = spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                // The read lets a kernel worker of each CPU sum up its statistics.
                std::fs::read("/proc/sys/vm/stat_refresh").expect("root may");
            }
        }
    });
    each_below_a_hog_has_turns();
    stop.store(true, Ordering::Relaxed);
    waker.join().expect("it ends");
}

fn each_below_a_hog_has_turns() {
    const BELOW: u32 = 5;
    const EVERY: Duration = Duration::from_millis(40);
    above_all();
    let held = Held::with("trickle_us=40000");
    let cpu = a_cpu();
    let hog = Burner::start(-10, Some(cpu));
    let below: Vec<Burner> = [0, 0, 5, 10, 19].map(|nice| Burner::start(nice, Some(cpu))).into();
    // The first slices are not measured.
    sleep(EVERY * BELOW + TICKS);
    let before: Vec<Duration> = below.iter().map(Burner::cpu_time).collect();
    let (hog_before, began) = (hog.cpu_time(), Instant::now());
    // In the time of two slices for each task, every task has at least one.
    sleep((EVERY + TICKS) * BELOW * 2);
    let during = began.elapsed();
    let had: Vec<Duration> = below.iter().zip(&before).map(|(it, before)| it.cpu_time() - *before).collect();
    let hog_had = hog.cpu_time() - hog_before;
    eprintln!(
        "of {during:?} the hog had {hog_had:?}, those below {had:?}, trickled {}",
        held.count("trickled")
    );
    assert!(had.iter().all(|had| *had > Duration::ZERO), "a task had no CPU time: {had:?}");
    assert!(hog_had > during * 3 / 4, "the hog had only {hog_had:?} of {during:?}");
    drop((hog, below));
    held.stop();
}

/// The kernel ejects a scheduler under which a runnable task waits for 30 s, or a task in an RCU read-side section for
/// 21 s. Even with the largest `trickle_us`, the trickle is frequent enough for all waiting tasks.
fn a_hog_is_no_stall() {
    above_all();
    let held = Held::with("trickle_us=10000000");
    let cpu = a_cpu();
    let hog = Burner::start(-20, Some(cpu));
    let below: Vec<Burner> = [-19, 0, 5, 10, 19].map(|nice| Burner::start(nice, Some(cpu))).into();
    let before: Vec<Duration> = below.iter().map(Burner::cpu_time).collect();
    sleep(Duration::from_secs(35));
    let had: Vec<Duration> = below.iter().zip(&before).map(|(it, before)| it.cpu_time() - *before).collect();
    eprintln!("in 35 s those below had {had:?}, trickled {}", held.count("trickled"));
    assert!(had.iter().all(|had| *had > Duration::ZERO), "a task had no CPU time: {had:?}");
    drop((hog, below));
    held.stop();
}

/// A thread that ran on a given CPU last, and that sleeps until it is woken to work.
struct Sleeper {
    wake_ups: Sender<()>,
    thread: JoinHandle<()>,
}

impl Sleeper {
    fn on(cpu: usize) -> Self {
        let (wake_ups, received) = channel();
        let thread = spawn(move || {
            pin_to(cpu);
            allow(0, possible_cpus());
            while received.recv().is_ok() {
                work_for(millis(2));
            }
        });
        sleep(millis(30));
        Self { wake_ups, thread }
    }

    fn wake(&self) {
        self.wake_ups.send(()).expect("it sleeps");
        sleep(millis(30));
    }

    fn end(self) {
        drop(self.wake_ups);
        self.thread.join().expect("it ends well");
    }
}

/// A thread of this process that computes on `cpu` until it is stopped.
fn companion(cpu: usize, nice: i32, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let stop = stop.clone();
    spawn(move || {
        pin_to(cpu);
        be_nice(nice);
        while !stop.load(Ordering::Relaxed) {
            work();
        }
    })
}

/// How often the search for a CPU ends with `step`, when threads of nice 0 wake up that ran on CPU 2 last. No CPU is
/// idle. `hogs`: CPU and nice value of each hog. `co_thread`: CPU and nice value of a thread of the same process.
fn hits(step: &str, knobs: &str, hogs: &[(usize, i32)], co_thread: Option<(usize, i32)>) -> u64 {
    hits_from(0, step, knobs, hogs, co_thread)
}

/// The same if the threads are woken from CPU `waker`.
fn hits_from(
    waker: usize,
    step: &str,
    knobs: &str,
    hogs: &[(usize, i32)],
    co_thread: Option<(usize, i32)>,
) -> u64 {
    let held = Held::with(&format!("load_threads=0,trickle_us=0,{knobs}"));
    // The waker is of a higher class, so its CPU is not available.
    pin_to(waker);
    // The threads start before there are tasks above them. There are several, because a kernel thread may run
    // on a CPU just when one of them wakes up.
    let sleepers: Vec<_> = (0..3).map(|_| Sleeper::on(2)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let co_thread = co_thread.map(|(cpu, nice)| companion(cpu, nice, &stop));
    sleep(millis(20));
    let hogs: Vec<Burner> = hogs.iter().map(|(cpu, nice)| Burner::start(*nice, Some(*cpu))).collect();
    sleep(millis(60));
    let steps = ["pushed_1", "pushed_2", "pushed_3", "pushed_4", "joined"];
    let before = steps.map(|step| held.count(step));
    sleepers.iter().for_each(Sleeper::wake);
    let all: Vec<u64> = steps.iter().zip(before).map(|(step, before)| held.count(step) - before).collect();
    drop(hogs);
    stop.store(true, Ordering::Relaxed);
    co_thread.into_iter().for_each(|it| it.join().expect("it ends well"));
    sleepers.into_iter().for_each(Sleeper::end);
    held.stop();
    allow(0, possible_cpus());
    eprintln!("{step}: of {steps:?} {all:?}");
    steps.iter().position(|name| *name == step).map_or(0, |place| all[place])
}

/// A case for each step of the search.
fn search_steps() {
    const LOW: [(usize, i32); 4] = [(0, 10), (1, 10), (2, 10), (3, 10)];
    const LAST_IS_HIGH: [(usize, i32); 4] = [(0, 10), (1, 10), (2, -5), (3, 10)];
    // With so many tasks on CPU 0, the co-thread's CPU has less than its share of tasks, even if kernel threads
    // wait there, too.
    let high: Vec<_> = (0..4).chain([0; 7]).map(|cpu| (cpu, -5)).collect();
    above_all();
    // CPU 1 runs a task of a lower level, and a co-thread waits there.
    assert!(hits("pushed_1", "", &LOW, Some((1, 15))) > 0);
    assert!(hits("pushed_2", "", &LOW, None) > 0);
    // The co-thread runs above nice 0, so its CPU is not available; nor is the last one.
    assert!(hits("pushed_3", "", &LAST_IS_HIGH, Some((1, -1))) > 0);
    assert!(hits("pushed_4", "", &LAST_IS_HIGH, None) > 0);
    // No CPU is available: the task waits on the co-thread's CPU.
    assert!(hits("joined", "trickle_us=100000", &high, Some((1, 0))) > 0);
    // Without grouping, the co-thread's CPU is not searched.
    assert_eq!(hits("pushed_3", "grouping=off", &LAST_IS_HIGH, Some((1, -1))), 0);
}

/// `reach=0` restricts the search by distance to the task's own group, and the available CPUs are in the other group.
/// Both CPUs of that group are available, as the machine's own tasks may run on one of them at that moment.
fn search_step_any() {
    above_all();
    assert!(hits_from(3, "pushed_4", "reach=0", &[(0, 10), (1, 10), (2, -5), (3, -5)], None) > 0);
}

/// Runs `flsched workload co-threads` with these knobs. Returns its figures by name.
fn co_threads(knobs: &str, parameters: &[&str]) -> impl Fn(&str) -> f64 {
    let held = Held::with(knobs);
    let (code, text) = flsched(&[&["workload", "co-threads"], parameters].concat());
    eprintln!(
        "{knobs} {parameters:?}: gathered {}, joined {}: {}",
        held.count("gathered"),
        held.count("joined"),
        text.replace('\n', ", ")
    );
    held.stop();
    assert_eq!(code, 0, "{text}");
    move |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("Figure: ")?.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }
}

/// The paper's third test: nine processes with three threads each. Where threads start decides a run's share: in twelve
/// runs of each it was 54 to 93 % with grouping and 10 to 31 % without. So the test judges the mean of three runs.
fn cothreads_share_a_cpu() {
    const RUNS: usize = 3;
    let share = |grouping: &str| {
        let knobs = format!("slice_us=10000,grouping={grouping}");
        let runs = (0..RUNS).map(|_| co_threads(&knobs, &["9", "3", "16384", "2"])("same_cpu_percent"));
        runs.sum::<f64>() / RUNS as f64
    };
    let (off, on) = (share("off"), share("on"));
    assert!(
        on >= 50.0 && on >= 2.0 * off,
        "co-threads shared a CPU for {on} % of their time, without grouping {off} %"
    );
}

/// The paper's first test: processes with one thread each.
fn no_cothreads_no_difference() {
    let speed = |grouping: &str| {
        co_threads(&format!("grouping={grouping}"), &["7", "1", "16384", "1"])("operations_per_s")
    };
    let (off, on) = (speed("off"), speed("on"));
    assert!((on / off - 1.0).abs() <= 0.01, "{on} operations a second with grouping, {off} without");
}

/// A process with more threads than its share of a node is spread over both nodes. It does not crowd one node while the
/// other runs less.
fn large_teams_spread() {
    let held = Held::with("slice_us=10000");
    // CPU time by node, in nanoseconds.
    let had = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counted = had.clone();
    let hogs = Hogs::repeating(16, None, move |_| {
        let before = cpu_time();
        work_for(Duration::from_micros(200));
        let cpu = nix::sched::sched_getcpu().expect("a CPU");
        counted[cpu / 2].fetch_add((cpu_time() - before).as_nanos() as u64, Ordering::Relaxed);
    });
    sleep(millis(800));
    let nodes = [0, 1].map(|node: usize| Duration::from_nanos(had[node].load(Ordering::Relaxed)));
    hogs.stop();
    held.stop();
    eprintln!("CPU time in the two nodes: {nodes:?}");
    assert!(nodes.iter().all(|had| *had > millis(1200)), "of 1.6 s each: {nodes:?}");
}

/// Processes that the user lists are one team, although each has one thread.
fn teams_of_listed_processes() {
    let listed = burners();
    let pids: Vec<String> = listed.iter().map(|it| it.0.id().to_string()).collect();
    gather(&listed, &format!("pids={}", pids.join("+")));
}

fn teams_of_a_cgroup() {
    let group = Group::enter("team");
    let members = burners();
    group.leave();
    gather(&members, "group_by=cgroup");
    drop(members);
}

fn burners() -> Vec<Burner> {
    above_all();
    (0..4).map(|_| Burner::start(0, None)).collect()
}

/// Checks that this knob gathers the team on one CPU, where it stays. All CPUs have equally many other tasks, so that
/// the whole team is within a CPU's share.
fn gather(team: &[Burner], knob: &str) {
    const OTHERS: usize = 6;
    let start_others = |cpu| (0..OTHERS).map(move |_| Burner::start(0, Some(cpu)));
    let _others: Vec<Burner> = possible_cpus().flat_map(start_others).collect();
    let held = Held::with(&format!("slice_us=10000,{knob}"));
    let are_together = || {
        let cpus: Vec<String> = team.iter().map(last_cpu).collect();
        cpus.iter().all(|cpu| *cpu == cpus[0])
    };
    wait_until("the team runs on one CPU", are_together);
    // This process preempts tasks whenever it wakes up. A task that is preempted has not yielded, so its CPU takes none
    // of the team.
    for _ in 0..20 {
        sleep(millis(20));
        assert!(are_together(), "and stays there");
    }
    eprintln!("gathered {}", held.count("gathered"));
    held.stop();
}

/// The CPU on which it ran last: field 39 of proc_pid_stat(5).
fn last_cpu(burner: &Burner) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", burner.0.id())).expect("it runs");
    let after_name = stat.rsplit_once(") ").expect("a name in parentheses").1;
    after_name.split(' ').nth(36).expect("39 fields").to_owned()
}

fn processes_that_are_not_there() {
    for (arguments, why) in [
        (&["attach", "rr2", "--pids", "4000000"][..], "there is no process 4000000"),
        (&["attach", "rr2", "--pids", "x"], "not a process id"),
        (&["attach", "rr2", "--group-by", "pids"], "group_by=pids needs this list"),
        (&["attach", "rr2", "--group-by", "cgroup", "--pids", "1"], "cannot be used with group_by=cgroup"),
        (&["attach", "rr2", "--group-by", "colour"], "possible values: process, cgroup, pids"),
        (&["attach", "rr2", "--slice-us", "5"], "1000 to 10000000"),
        (&["run", "--policy", "rr2:pids=4000000", "--", "true"], "there is no process 4000000"),
    ] {
        let (code, text) = flsched(arguments);
        assert!(code == 2 && text.contains(why), "{arguments:?}: {code} {text}");
    }
}
