//! The decisions of FLSCHED as published; in the simulator: `crates/sim/tests/paper.rs`.
use super::{REPEATABLE, Scenario, scenario};
use crate::load::*;
use crate::scheduler::*;
use nix::libc;
use nix::sched::sched_getcpu;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const PAPER: &[&str] = &["flsched_paper"];

pub const SCENARIOS: &[Scenario] = &[
    scenario!(a_switch_pushes_all_that_wait, REPEATABLE, PAPER),
    scenario!(nothing_pulls, REPEATABLE, PAPER),
    scenario!(a_woken_task_leaves_the_running_one_alone, REPEATABLE, PAPER),
    scenario!(a_slice_ends_without_a_switch, REPEATABLE, PAPER),
    scenario!(a_task_whose_slice_has_ended_is_the_last, REPEATABLE, PAPER),
    scenario!(one_that_would_preempt_is_the_next, REPEATABLE, PAPER),
];

/// The default `slice_us`.
const SLICE: Duration = Duration::from_millis(100);

fn here() -> usize {
    sched_getcpu().expect("it runs somewhere")
}

/// Keeps all CPUs but `free` busy until it is told to stop, by tasks that are pinned there.
fn keep_others_busy(free: usize) -> Vec<Hogs> {
    cpus_in("online").into_iter().filter(|cpu| *cpu != free).map(|cpu| Hogs::start(1, Some(cpu))).collect()
}

/// When and where each of two threads first runs that wait on `a_cpu()` behind one that computes for `computes`. The other
/// CPUs are busy when they begin to wait, and idle from a third of that time on.
fn two_that_wait(computes: Duration) -> (Instant, Vec<(Instant, usize)>) {
    let busy = keep_others_busy(a_cpu());
    let released = Arc::new(AtomicBool::new(false));
    let (said, heard) = channel();
    let waiting = released.clone();
    let first = spawn(move || {
        pin_to(a_cpu());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let said = said.clone();
                spawn(move || {
                    allow(0, possible_cpus());
                    said.send((Instant::now(), here())).expect("somebody waits");
                    work_for(millis(30));
                })
            })
            .collect();
        waiting.store(true, Ordering::Relaxed);
        work_for(computes);
        let ended = Instant::now();
        others.into_iter().for_each(|other| other.join().expect("it ends well"));
        ended
    });
    wait_until("they wait", || released.load(Ordering::Relaxed));
    sleep(computes / 3);
    busy.into_iter().for_each(Hogs::stop);
    let ended = first.join().expect("it ends well");
    (ended, heard.iter().collect())
}

/// The tasks of two groups are more than the CPUs: those that still wait after a switch go to CPUs that have become idle.
fn a_switch_pushes_all_that_wait() {
    let held = Held::start();
    let before = held.count("pushed");
    let hackbench = Hackbench::start("-p -g 2 -l 200");
    hackbench.finish();
    assert!(held.count("pushed") > before, "switches have pushed tasks");
    held.stop();
}

/// The two that wait do so until the first one blocks, though other CPUs idle.
fn nothing_pulls() {
    let held = Held::start();
    let (ended, began) = two_that_wait(millis(150));
    assert_eq!(began.len(), 2);
    for (at, cpu) in began {
        assert!(at >= ended, "it began {:?} before, on CPU {cpu}", ended - at);
    }
    held.stop();
}

fn a_woken_task_leaves_the_running_one_alone() {
    const COMPUTES: Duration = Duration::from_millis(60);
    let held = Held::start();
    let both = Arc::new(Barrier::new(2));
    let meets = both.clone();
    let sleeper = spawn(move || {
        pin_to(a_cpu());
        meets.wait();
        sleep(millis(5));
        Instant::now()
    });
    let hog = spawn(move || {
        pin_to(a_cpu());
        both.wait();
        let from = Instant::now();
        work_for(COMPUTES);
        (from, cpu_time())
    });
    let woken = sleeper.join().expect("it ends well");
    let (from, _) = hog.join().expect("it ends well");
    let after = woken - from;
    assert!(after >= COMPUTES, "it ran {after:?} after the other one had begun to compute");
    held.stop();
}

/// A hog and a task that waits, on one CPU.
fn a_slice_ends_without_a_switch() {
    let held = Held::start();
    let longest = spawn(|| {
        pin_to(a_cpu());
        let waiter = spawn(|| pin_to(a_cpu()));
        let longest = longest_wait(SLICE * 5 / 2);
        waiter.join().expect("it ends well");
        longest
    });
    let longest = longest.join().expect("it ends well");
    assert!(longest < SLICE / 4, "it was interrupted for {longest:?}");
    assert!(held.count("slice_ended") >= 2, "slice_ended {}", held.count("slice_ended"));
    held.stop();
}

/// A real-time task takes the CPU from a hog for a moment while another hog waits. Before the slice has ended the first one
/// goes on afterwards; then it is the other one's turn.
fn a_task_whose_slice_has_ended_is_the_last() {
    for (after, goes_on) in [(SLICE / 3, true), (SLICE * 3 / 2, false)] {
        let held = Held::start();
        let began = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let counted = began.clone();
        let hogs = spawn(move || {
            pin_to(a_cpu());
            let hogs = Hogs::repeating(2, Some(a_cpu()), move |number| {
                work();
                counted[number].fetch_add(1, Ordering::Relaxed);
            });
            // It sleeps from here on: the first hog runs.
            sleep(after);
            hogs
        });
        let real_time = spawn(move || {
            enter_class(libc::SCHED_FIFO, 10).expect("root may");
            pin_to(a_cpu());
            sleep(after);
            let rounds = || [0, 1].map(|number| began[number].load(Ordering::Relaxed));
            let before = rounds();
            work_for(millis(2));
            sleep(SLICE / 10);
            let after = rounds();
            [0, 1].map(|number| (before[number], after[number] - before[number]))
        });
        let hogs_had = real_time.join().expect("it ends well");
        let running = usize::from(hogs_had[1].0 > hogs_had[0].0);
        let went_on = hogs_had[running].1 > 0;
        hogs.join().expect("it ends well").stop();
        held.stop();
        assert_eq!(went_on, goes_on, "{after:?} after it had begun: before and since {hogs_had:?}");
    }
}

/// A thread that may run on one CPU only wakes up there, behind one that waits. The task that runs could go elsewhere, where
/// a CPU is idle: so the woken one is the next. It runs ten times: both may wake up while it cannot go elsewhere yet.
fn one_that_would_preempt_is_the_next() {
    let held = Held::start();
    let before = held.count("queued_head");
    let sleepers = Hogs::repeating(2, Some(a_cpu()), |_| sleep(millis(2)));
    let running = spawn(|| {
        pin_to(a_cpu());
        allow(0, possible_cpus());
        for _ in 0..10 {
            work_for(millis(5));
            sleep(millis(1));
        }
    });
    running.join().expect("it ends well");
    sleepers.stop();
    assert!(held.count("queued_head") > before, "queued_head {}", held.count("queued_head"));
    held.stop();
}
