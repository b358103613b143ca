//! The decisions of Smove. A virtual machine's frequency is constant, so the test sets the frequencies that the policy
//! reads. The rest of the policy is as on a machine whose frequencies change.
use super::{ONCE, REPEATABLE, Scenario, scenario};
use crate::load::*;
use crate::scheduler::*;
use nix::libc;
use nix::sched::sched_getcpu;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, gettid};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::{park, sleep, spawn};
use std::time::{Duration, Instant};

const SMOVE: &[&str] = &["smove"];

pub const SCENARIOS: &[Scenario] = &[
    scenario!(slow_and_the_parent_goes_on_moves_after_the_delay, REPEATABLE, SMOVE),
    scenario!(slow_and_the_parent_waits_runs_there, REPEATABLE, SMOVE),
    scenario!(fast_or_slow_by_threshold_and_age, REPEATABLE, SMOVE),
    scenario!(slow_and_woken_moves_or_runs_there, REPEATABLE, SMOVE),
    scenario!(a_task_that_may_not_stay_moves_at_once, REPEATABLE, SMOVE),
    scenario!(many_that_stay_spread_over_idle_cpus, REPEATABLE, SMOVE),
    scenario!(off_goes_at_once_and_local_stays, REPEATABLE, SMOVE),
    scenario!(threads_of_a_core_are_equally_fast, ONCE, SMOVE),
    scenario!(a_task_from_another_cpu_waits_its_turn, REPEATABLE, SMOVE),
    scenario!(ten_thousand_forks, REPEATABLE, SMOVE),
    scenario!(a_timer_round_costs_little, REPEATABLE, SMOVE),
    scenario!(the_wakers_cpu_goes_offline, REPEATABLE, SMOVE),
    scenario!(says_that_there_are_no_frequencies, REPEATABLE, SMOVE),
];

const THRESHOLD_MHZ: u32 = 1000;
const SLOW_MHZ: u32 = THRESHOLD_MHZ;
const FAST_MHZ: u32 = THRESHOLD_MHZ + 1;
/// The largest delay that the knob allows. It must be longer than an interrupt takes, as emulated CPUs take turns of
/// some milliseconds.
const DELAY: Duration = Duration::from_millis(10);
/// How long a task computes after it has created or woken a thread. Its CPU is busy for longer than the delay.
const BUSY: Duration = Duration::from_millis(30);

/// Attaches Smove with the test's frequencies; all CPUs are slow at first. A slice is longer than the delay, so no CPU
/// becomes free by the end of a slice.
fn smove(knobs: &str) -> Held {
    let delay_us = DELAY.as_micros();
    let all = "frequency_source=test,slice_us=100000";
    Held::with(&format!("{all},delay_us={delay_us},threshold_mhz={THRESHOLD_MHZ},{knobs}"))
}

fn set_frequencies(held: &Held, mhz: u32, age: Duration) {
    for cpu in possible_cpus() {
        held.set_entry("test_readings", cpu, [mhz, age.as_micros() as u32]);
    }
}

fn here() -> usize {
    sched_getcpu().expect("it runs somewhere")
}

/// Where a thread began to run, and how long after its creation or wake-up.
#[derive(Debug)]
struct Began {
    parent: usize,
    child: usize,
    after: Duration,
}

impl Began {
    fn is_moved(&self) -> bool {
        self.child != self.parent
    }
}

/// A CPU on which a kernel thread ends pulls the thread that waits at that moment, so one of ten may move.
fn mostly_stay(all: &[Began]) -> bool {
    all.iter().filter(|began| began.is_moved()).count() <= all.len().div_ceil(10)
}

/// Creates a thread. The parent computes for `busy`, then waits for the thread.
fn fork(busy: Duration) -> Began {
    let (parent, made) = (here(), Instant::now());
    let child = spawn(move || (here(), made.elapsed()));
    work_for(busy);
    let (child, after) = child.join().expect("it ends well");
    Began { parent, child, after }
}

/// Does [`fork`] `count` times, with pauses, so that the other CPUs are idle each time.
fn forks(count: usize, busy: Duration) -> Vec<Began> {
    let fork = |_| {
        sleep(millis(2));
        fork(busy)
    };
    (0..count).map(fork).collect()
}

fn slow_and_the_parent_goes_on_moves_after_the_delay() {
    let held = smove("");
    for began in forks(10, BUSY) {
        let after = began.after;
        assert!(began.is_moved(), "it ran on its parent's CPU, after {after:?}");
        assert!((DELAY..DELAY + AT_ONCE).contains(&after), "it waited {after:?}");
    }
    for event in ["avoided", "armed", "expired", "pulled"] {
        assert!(held.count(event) >= 10, "{event} {}", held.count(event));
    }
    held.stop();
}

fn slow_and_the_parent_waits_runs_there() {
    let held = smove("");
    let all = forks(20, Duration::ZERO);
    assert!(all.iter().all(|began| began.after < AT_ONCE), "{all:?}");
    assert!(mostly_stay(&all), "{all:?}");
    assert!(held.count("cancelled") >= 18, "cancelled {}", held.count("cancelled"));
    // The CPUs that were chosen for a move are marked as idle again afterwards.
    set_frequencies(&held, FAST_MHZ, Duration::ZERO);
    assert_eq!(cpus_of_hogs(possible_cpus().len()), possible_cpus().collect::<Vec<_>>());
    held.stop();
}

/// The CPUs of `count` threads that never wait.
fn cpus_of_hogs(count: usize) -> Vec<usize> {
    let last: Arc<Vec<_>> = Arc::new((0..count).map(|_| AtomicUsize::new(0)).collect());
    let seen = last.clone();
    let hogs = Hogs::repeating(count, None, move |number| {
        work();
        seen[number].store(here(), Ordering::Relaxed);
    });
    sleep(millis(50));
    let mut cpus: Vec<_> = last.iter().map(|cpu| cpu.load(Ordering::Relaxed)).collect();
    hogs.stop();
    cpus.sort();
    cpus
}

fn fast_or_slow_by_threshold_and_age() {
    const STALE: Duration = Duration::from_millis(50);
    let held = smove("stale_ms=50");
    for (mhz, age, stays) in [
        (SLOW_MHZ, Duration::ZERO, true),
        (FAST_MHZ, Duration::ZERO, false),
        (FAST_MHZ, STALE, false),
        (FAST_MHZ, STALE + millis(1), true),
    ] {
        set_frequencies(&held, mhz, age);
        let avoided = held.count("avoided");
        for Began { after, .. } in forks(5, BUSY) {
            assert_eq!(after > AT_ONCE, stays, "{mhz} MHz {age:?} ago: it began after {after:?}");
        }
        let avoided = held.count("avoided") - avoided;
        assert_eq!(avoided >= 5, stays, "{mhz} MHz {age:?} ago: {avoided} stayed");
    }
    assert!(held.count("warm") >= 10);
    held.stop();
}

/// Wakes a sleeping thread whose last CPU is busy and that may run on `allowed`. The waker is on the first online CPU
/// and then computes for `busy`.
fn wake(allowed: &[usize], busy: Duration) -> Began {
    let online = cpus_in("online");
    let (waker, last) = (online[0], online[1]);
    let (id_sender, id_receiver) = channel();
    let (began_sender, woken) = channel();
    let sleeper = spawn(move || {
        pin_to(last);
        id_sender.send(gettid()).expect("the receiver is open");
        park();
        let began = (here(), Instant::now());
        began_sender.send(began).expect("the receiver is open");
    });
    let id = id_receiver.recv().expect("the thread sends its id");
    let hog = Hogs::start(1, Some(last));
    hog.go_on();
    sleep(millis(5));
    allow(id.as_raw(), allowed.iter().copied());
    let handle = sleeper.thread().clone();
    let asked = spawn(move || {
        pin_to(waker);
        // Meanwhile the CPU on which this thread was before is marked as idle.
        work_for(AT_ONCE);
        let asked = Instant::now();
        handle.unpark();
        work_for(busy);
        asked
    });
    let (child, began) = woken.recv().expect("it wakes up");
    let asked = asked.join().expect("it ends well");
    sleeper.join().expect("it ends well");
    hog.stop();
    Began { parent: waker, child, after: began - asked }
}

fn slow_and_woken_moves_or_runs_there() {
    let held = smove("");
    let online = cpus_in("online");
    for _ in 0..5 {
        let moved = wake(&online, BUSY);
        assert!(moved.is_moved() && moved.child != online[1], "it ran on CPU {}", moved.child);
        assert!((DELAY..DELAY + AT_ONCE).contains(&moved.after), "it waited {:?}", moved.after);
        let stayed = wake(&online, Duration::ZERO);
        assert!(!stayed.is_moved() && stayed.after < AT_ONCE, "on {} {:?}", stayed.child, stayed.after);
    }
    assert!(held.count("expired") >= 5 && held.count("cancelled") >= 5);
    held.stop();
}

fn a_task_that_may_not_stay_moves_at_once() {
    let held = smove("");
    let online = cpus_in("online");
    for _ in 0..5 {
        let gone = wake(&online[1..3], BUSY);
        assert_eq!(gone.child, online[2]);
        assert!(gone.after < AT_ONCE, "it waited {:?}", gone.after);
    }
    // A kernel thread may run on the chosen CPU at that moment, so one of the five times is enough.
    assert!(held.count("forbidden") >= 1, "never chosen");
    held.stop();
}

/// Several new threads wait on one CPU for the end of the delay, while the other CPUs are idle.
fn many_that_stay_spread_over_idle_cpus() {
    const ROUNDS: usize = 5;
    let held = smove("");
    let others = possible_cpus().len() - 1;
    let mut good = 0;
    for _ in 0..ROUNDS {
        sleep(millis(5));
        let made = Instant::now();
        let child = move || {
            let (cpu, after) = (here(), made.elapsed());
            work_for(BUSY);
            (cpu, after)
        };
        let children: Vec<_> = (0..others).map(|_| spawn(child)).collect();
        work_for(BUSY);
        let began: Vec<_> = children.into_iter().map(|it| it.join().expect("it ends well")).collect();
        let mut cpus: Vec<_> = began.iter().map(|(cpu, _)| *cpu).collect();
        cpus.sort();
        cpus.dedup();
        let most = DELAY + AT_ONCE * others as u32;
        assert!(began.iter().all(|(_, after)| *after < most), "{began:?}");
        let is_good = cpus.len() == others && began.iter().all(|(_, after)| *after >= DELAY);
        eprintln!("all stayed, and then each had its own: {is_good}: {began:?}");
        good += usize::from(is_good);
    }
    // A CPU that runs a kernel thread is not chosen. Then a task waits in the run queue, and the first CPU
    // that becomes idle pulls it at once.
    assert!(good * 2 > ROUNDS, "all stayed, and then had a CPU of their own, in {good} of {ROUNDS} rounds");
    held.stop();
}

fn off_goes_at_once_and_local_stays() {
    let off = smove("strategy=off");
    for Began { after, .. } in forks(5, BUSY) {
        assert!(after < AT_ONCE, "it waited {after:?}");
    }
    assert_eq!(off.count("avoided") + off.count("local"), 0);
    off.stop();

    let local = smove("strategy=local");
    set_frequencies(&local, FAST_MHZ, Duration::ZERO);
    let all = forks(5, Duration::ZERO);
    assert!(all.iter().all(|began| began.after < AT_ONCE), "{all:?}");
    assert!(mostly_stay(&all), "{all:?}");
    // The threads move when the load is balanced, at a tick of the busy CPU.
    for began in forks(5, BUSY) {
        assert!(began.is_moved() && began.after < BUSY, "it waited {:?}", began.after);
    }
    assert!(local.count("local") >= 10);
    // The timer may have been set for tasks that a task of a higher class displaced.
    assert_eq!(local.count("avoided"), 0);
    local.stop();
}

/// Two threads of a core have the same frequency, so moving a waiter from one to the other gains nothing.
fn threads_of_a_core_are_equally_fast() {
    let online = cpus_in("online");
    let siblings = || cpus_in(&format!("cpu{}/topology/core_cpus_list", online[0]));
    // Only one thread of the first core is online on this machine.
    let other = online[0] + 1;
    set_online(other, true);
    let pair = siblings();
    assert_eq!(pair, [online[0], other]);
    let held = smove("");
    for (allowed, stays) in [(pair.clone(), false), (vec![pair[0], online[1]], true)] {
        let forks = spawn(move || {
            allow(0, allowed);
            forks(5, BUSY)
        });
        for Began { after, .. } in forks.join().expect("they end well") {
            assert_eq!(after > AT_ONCE, stays, "it began after {after:?}");
        }
    }
    held.stop();
    set_online(other, false);
}

/// Creates a process and waits for it, as a compiler's driver does. The child shares its parent's memory, so this takes
/// as little work as possible.
fn fork_and_wait(stack: &mut [u8], count: &AtomicU64) {
    extern "C" fn child(count: *mut libc::c_void) -> libc::c_int {
        // SAFETY: it is the parent's counter, and the parent waits for this child.
        unsafe { &*count.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
        0
    }
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let counter = std::ptr::from_ref(count).cast_mut().cast();
    // SAFETY: the parent sleeps until the child has ended, so nothing else uses the stack, and the counter
    // stays valid. The child calls no function.
    let pid = unsafe { libc::clone(child, stack.as_mut_ptr_range().end.cast(), flags, counter) };
    assert!(pid > 0, "clone");
    waitpid(Pid::from_raw(pid), None).expect("it has ended");
}

/// A task that had little CPU time on a crowded CPU must not make up for it after it has moved to another CPU.
fn a_task_from_another_cpu_waits_its_turn() {
    let held = Held::start();
    let online = cpus_in("online");
    let (ahead, behind) = (online[1], online[2]);
    let watcher = spawn(move || {
        pin_to(ahead);
        longest_wait(millis(1500))
    });
    // There are five tasks on this CPU, so the visitor has a fifth of it.
    let crowd = Hogs::start(4, Some(behind));
    let visitor = spawn(move || {
        pin_to(behind);
        work_for(millis(900));
        pin_to(ahead);
        work_for(millis(400));
    });
    let longest = watcher.join().expect("it ends well");
    visitor.join().expect("it ends well");
    crowd.stop();
    held.stop();
    assert!(longest < millis(100), "waited {longest:?} for a task that came from another CPU");
}

/// As many forks as the emulated CPUs can do, about 8,000 a second. Each CPU has one timer, however many tasks wait for
/// a move.
fn ten_thousand_forks() {
    const PARENTS: usize = 2;
    const EACH: u64 = 5000;
    const DELAY_US: u64 = 50;
    let held = smove(&format!("delay_us={DELAY_US}"));
    let ran = Arc::new(AtomicU64::new(0));
    let counted = ran.clone();
    let began = Instant::now();
    let parents = Crew::start(PARENTS, EACH, move |_, _| fork_and_wait(&mut [0; 16384], &counted));
    parents.finish();
    let took = began.elapsed();
    // In this order: other threads are created between the two, and each of them may set the timer.
    let armed = held.count("armed");
    let avoided = held.count("avoided");
    let forks = PARENTS as u64 * EACH;
    eprintln!("{forks} forks in {took:.2?}, {avoided} stayed, the timer was set {armed} times");
    assert_eq!(ran.load(Ordering::Relaxed), forks);
    assert!(avoided >= forks / 2, "{avoided} stayed");
    let most = (took.as_micros() as u64 / DELAY_US + 1) * possible_cpus().len() as u64;
    assert!(armed <= most.min(avoided), "the timer was set {armed} times");
    held.stop();
}

/// Compares forks with a short delay, for which the timer is set at nearly each fork, and with a long one, for which it
/// is hardly ever set. The difference is the cost of setting it. A cancelled move leaves the timer running.
fn a_timer_round_costs_little() {
    const FORKS: u64 = 4000;
    const MOST_INSTRUCTIONS: f64 = 1500.0;
    let measure = |delay_us: u64| {
        let held = smove(&format!("delay_us={delay_us}"));
        let (forked, mut stack) = (AtomicU64::new(0), [0; 16384]);
        let ran = held.run_time("smove_select_cpu", || {
            while forked.load(Ordering::Relaxed) < FORKS {
                fork_and_wait(&mut stack, &forked);
            }
        });
        assert!(held.count("cancelled") >= FORKS, "cancelled {}", held.count("cancelled"));
        let armed = held.count("armed") as f64;
        held.stop();
        (ran, armed)
    };
    let (often, seldom) = (measure(50), measure(DELAY.as_micros() as u64));
    let rounds = often.1 - seldom.1;
    assert!(rounds > FORKS as f64 / 4.0, "timers: {often:?} {seldom:?}");
    let round = (often.0 - seldom.0) / rounds;
    eprintln!("to set a timer takes {round:.0} instructions");
    assert!((1.0..=MOST_INSTRUCTIONS).contains(&round), "{round:.0} instructions: {often:?} {seldom:?}");
}

/// A CPU with as many pending moves as possible goes offline. No task is lost, and the scheduler is attached again each
/// time.
fn the_wakers_cpu_goes_offline() {
    let mut attached = Attached::with(&["--frequency-source", "test", "--delay-us", "10000"]);
    let cpu = a_cpu();
    let ran = Arc::new(AtomicU64::new(0));
    for _ in 0..3 {
        let counted = ran.clone();
        let parent = spawn(move || {
            pin_to(cpu);
            allow(0, possible_cpus());
            let child = |_| {
                work_for(Duration::from_micros(200));
                let counted = counted.clone();
                spawn(move || counted.fetch_add(1, Ordering::Relaxed))
            };
            let children: Vec<_> = (0..200).map(child).collect();
            for child in children {
                child.join().expect("it ends well");
            }
        });
        sleep(millis(20));
        set_online(cpu, false);
        sleep(millis(5));
        set_online(cpu, true);
        parent.join().expect("it ends well");
        wait_until("the policy is attached again", is_attached);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 600);
    assert!(attached.is_alive());
    assert!(attached.interrupt().success());
}

fn says_that_there_are_no_frequencies() {
    let (code, text) = run(&[], &["true"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("warning: smove finds no slow CPU here") && text.contains("no cpufreq"), "{text}");
}
