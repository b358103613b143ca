//! A scenario by real processes and threads, step by step.
use crate::common::{allow, enter_class, set_online};
use flsched_sim::scenario::{Happening, Scenario, What};
use flsched_sim::workload::{Act, BarrierPlan, TaskPlan};
use nix::libc;
use nix::sched::sched_getcpu;
use nix::sys::prctl::{set_name, set_timerslack};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::wait::{WaitStatus, wait};
use nix::time::{ClockId, ClockNanosleepFlags, clock_getres, clock_gettime, clock_nanosleep};
use nix::unistd::{ForkResult, fork, gettid};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::iter::repeat_n;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// As the simulator's pipes have them.
const MESSAGE_BYTES: usize = 100;
/// Above everything that a scenario has.
const CONDUCTORS_PRIORITY: i32 = 99;

/// What the first process is called, a task while it does its steps, and after them.
pub const FIRST: &str = "first";
pub const TASK: &str = "task";
const DONE: &str = "done";

const TIME: &str = "took ";

const IDLE_TICKS: i32 = 5;
const AFTER_TICK_US: i64 = 100;

/// What all tasks share.
struct Stage {
    channels: Vec<(PipeReader, PipeWriter)>,
    loops_per_us: u64,
    barriers: BTreeMap<String, Barrier>,
    /// From each task a line: how often it was found where it may not run, and when it was done, in microseconds.
    results: PipeWriter,
    begin: Instant,
}

/// Where threads wait for each other by yielding.
struct Barrier {
    parties: u64,
    arrivals: AtomicU64,
}

impl Barrier {
    fn new(plan: &BarrierPlan) -> Self {
        assert_eq!(plan.wait, "yield", "only the simulator plays other ways of waiting");
        Self { parties: plan.parties, arrivals: AtomicU64::new(0) }
    }

    fn meet(&self) {
        let round = self.arrivals.fetch_add(1, Ordering::SeqCst) / self.parties;
        while self.arrivals.load(Ordering::SeqCst) < (round + 1) * self.parties {
            std::thread::yield_now();
        }
    }
}

/// From the beginning to the end of the last task, in its output.
pub fn time_s(output: &str) -> Option<f64> {
    output.lines().find_map(|line| line.strip_prefix(TIME)?.parse().ok())
}

pub fn play(scenario: &Scenario) -> ExitCode {
    call(FIRST);
    set_timerslack(1).expect("any process may");
    let acts = scenario.tasks.iter().flat_map(|task| &task.steps);
    let channels = acts.filter_map(|act| act.channel()).max().map_or(0, |most| most + 1);
    let (mut reader, results) = pipe().expect("a pipe");
    let plans: Vec<&TaskPlan> =
        scenario.tasks.iter().flat_map(|plan| repeat_n(plan, plan.count as usize)).collect();
    let pids: Vec<AtomicI32> = plans.iter().map(|_| AtomicI32::new(0)).collect();
    let is_moved = scenario.events.iter().any(|event| matches!(event.what, What::Affinity { .. }));
    let loops_per_us = loops_per_us();
    wait_for_tick(0);
    let begin = Instant::now();
    let stage = Stage {
        channels: (0..channels).map(|_| pipe().expect("a pipe")).collect(),
        loops_per_us,
        barriers: scenario.barriers.iter().map(|(name, plan)| (name.clone(), Barrier::new(plan))).collect(),
        results,
        begin,
    };
    scope(|threads| {
        if !scenario.events.is_empty() {
            threads.spawn(|| conduct(&scenario.events, &pids, begin));
        }
        for (&plan, pid) in plans.iter().zip(&pids) {
            let due = Duration::from_micros(plan.start_us);
            sleep(due.saturating_sub(begin.elapsed()));
            if plan.is_thread {
                let stage = &stage;
                threads.spawn(move || {
                    pid.store(gettid().as_raw(), Ordering::SeqCst);
                    stage.act(plan, is_moved);
                });
                continue;
            }
            // SAFETY: the child uses nothing that another thread could have locked.
            match unsafe { fork() }.expect("there is room for a process") {
                ForkResult::Parent { child } => pid.store(child.as_raw(), Ordering::SeqCst),
                ForkResult::Child => {
                    stage.act(plan, is_moved);
                    // SAFETY: ends the process at once.
                    unsafe { libc::_exit(0) }
                }
            }
        }
    });
    let mut is_well = true;
    while let Ok(status) = wait() {
        is_well &= matches!(status, WaitStatus::Exited(_, 0));
    }
    drop(stage);
    let mut lines = String::new();
    reader.read_to_string(&mut lines).expect("their lines");
    let number = |word: &str| word.parse::<u64>().ok();
    let ends = lines.lines().filter_map(|line| line.split_once(' '));
    let (strays, ends): (Vec<u64>, Vec<u64>) =
        ends.filter_map(|(strays, end)| Some((number(strays)?, number(end)?))).unzip();
    println!("{TIME}{}", Duration::from_micros(ends.into_iter().max().unwrap_or(0)).as_secs_f64());
    if !is_well || strays.len() < plans.len() {
        eprintln!("{} of {} tasks did their work", strays.len(), plans.len());
        return ExitCode::FAILURE;
    }
    if strays.iter().any(|times| *times > 0) {
        eprintln!("tasks ran where they may not: {strays:?} times");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Slices end at ticks, and virtual times depend on what ran before. So each run begins on an idle machine,
/// at the same moment between two ticks, as in the simulator, or so much later.
pub fn wait_for_tick(later_ns: u64) {
    // The coarse clock shows when the last one was.
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).expect("there is one");
    let last = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).expect("there is one");
    let after = TimeSpec::microseconds(AFTER_TICK_US) + TimeSpec::from(Duration::from_nanos(later_ns));
    let begin = last + tick * IDLE_TICKS + after;
    clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &begin)
        .expect("it can sleep");
}

impl Stage {
    fn act(&self, plan: &TaskPlan, is_moved: bool) {
        call(TASK);
        let meets = plan.steps.iter().any(|act| matches!(act, Act::Barrier(_)));
        assert!(plan.is_thread || !meets, "processes share no memory to meet in");
        if plan.nice != 0 {
            // SAFETY: takes integers only.
            let outcome =
                unsafe { libc::setpriority(libc::PRIO_PROCESS, gettid().as_raw() as u32, plan.nice) };
            assert_eq!(outcome, 0, "root may");
        }
        if !plan.cpus.is_empty() {
            allow(0, plan.cpus.iter().copied());
        }
        let mut strays = 0;
        let mut allowed = plan.cpus.clone();
        for _ in 0..plan.rounds {
            for act in &plan.steps {
                self.carry_out(act);
                if let Act::Pin(cpu) = act {
                    allowed = vec![*cpu];
                }
                let here = sched_getcpu().expect("it runs somewhere");
                strays += u64::from(!is_moved && !allowed.is_empty() && !allowed.contains(&here));
            }
        }
        call(DONE);
        // In one piece, as it is short.
        let line = format!("{strays} {}\n", self.begin.elapsed().as_micros());
        (&self.results).write_all(line.as_bytes()).expect("it has a reader");
    }

    fn carry_out(&self, act: &Act) {
        match act {
            Act::RunUs(us) => work(us * self.loops_per_us),
            Act::SleepUs(us) => sleep(Duration::from_micros(*us)),
            Act::Yields(times) => (0..*times).for_each(|_| std::thread::yield_now()),
            Act::Write(channel) => {
                (&self.channels[*channel].1).write_all(&[1; MESSAGE_BYTES]).expect("it has a reader");
            }
            Act::Read(channel) => {
                (&self.channels[*channel].0).read_exact(&mut [0; MESSAGE_BYTES]).expect("it has a writer");
            }
            Act::Pin(cpu) => allow(0, [*cpu]),
            Act::Stay | Act::Move => panic!("{act:?}: only the kernel can do that"),
            Act::Barrier(name) => self.barriers[name].meet(),
            Act::Wake(_) | Act::Wait(_) | Act::YieldTo(_) => panic!("{act:?}: only the simulator plays that"),
        }
    }
}

#[inline(never)]
fn work(loops: u64) {
    for turn in 0..loops {
        black_box(turn);
    }
}

/// The fastest of many tries, which nothing disturbed.
fn loops_per_us() -> u64 {
    const LOOPS: u64 = 50_000;
    let try_once = || {
        let began = Instant::now();
        work(LOOPS);
        began.elapsed().as_nanos() as u64
    };
    let ns = (0..20).map(|_| try_once()).min().unwrap_or(1).max(1);
    (LOOPS * 1000).div_ceil(ns)
}

/// Applies the events to the tasks and the CPUs.
fn conduct(events: &[Happening], pids: &[AtomicI32], begin: Instant) {
    call("conductor");
    enter_class(libc::SCHED_FIFO, CONDUCTORS_PRIORITY).expect("root may");
    for event in events {
        assert_eq!(event.times, 1, "only the simulator repeats events");
        let due = Duration::from_micros(event.at_us);
        sleep(due.saturating_sub(begin.elapsed()));
        match &event.what {
            What::Offline(cpu) => set_online(*cpu, false),
            What::Online(cpu) => set_online(*cpu, true),
            What::Affinity { task, count, cpus } => {
                for pid in &pids[task - 1..task - 1 + count] {
                    match pid.load(Ordering::SeqCst) {
                        0 => {}
                        pid => allow(pid, cpus.iter().copied()),
                    }
                }
            }
            what => panic!("{what:?}: only the simulator plays that"),
        }
    }
}

/// Names this thread.
fn call(name: &str) {
    set_name(&CString::new(name).expect("a name")).expect("any thread may");
}
