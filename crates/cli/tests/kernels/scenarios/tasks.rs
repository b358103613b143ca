//! Tasks that begin, end, stop and continue; and a scheduler that is attached and detached again and again.
use super::{EVERYWHERE, REPEATABLE, Scenario, hogs_beside, scenario};
use crate::guest::{machine, rounds};
use crate::load::*;
use crate::machine::Machine;
use crate::scheduler::Held;
use nix::errno::Errno;
use nix::libc;
use nix::sched::sched_getcpu;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, execv, fork};
use std::ffi::CString;
use std::io::{Read, Write, pipe};
use std::num::NonZero;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep, spawn, yield_now};
use std::time::{Duration, Instant};

pub const SCENARIOS: &[Scenario] = &[
    scenario!(five_thousand_threads, EVERYWHERE),
    scenario!(hundreds_of_short_processes, EVERYWHERE),
    scenario!(stopped_and_continued, EVERYWHERE),
    scenario!(ending_among_hogs, EVERYWHERE),
    scenario!(threads_that_yield_spread, REPEATABLE, &["smove", "rr2"]),
    scenario!(processes_take_short_turns_if_they_share_memory, REPEATABLE, &["flsched"]),
    scenario!(attached_and_detached_again_and_again, &[Machine::Work, Machine::Wall]),
];

/// Creates, runs and ends threads.
fn five_thousand_threads() {
    const PARENTS: usize = 4;
    const BATCHES: u64 = 50;
    const BATCH: u64 = 25;
    let held = Held::start();
    let ran = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let counted = ran.clone();
    let parents = Crew::start(PARENTS, BATCHES, move |_, _| {
        scope(|children| {
            for _ in 0..BATCH {
                children.spawn(|| counted.fetch_add(1, Ordering::Relaxed));
            }
        });
    });
    parents.finish();
    eprintln!("{} threads in {:.2?}", ran.load(Ordering::Relaxed), began.elapsed());
    assert_eq!(ran.load(Ordering::Relaxed), PARENTS as u64 * BATCHES * BATCH);
    held.stop();
}

fn hundreds_of_short_processes() {
    const EACH: u64 = 20;
    let held = Held::start();
    let hog = hogs_beside(1, None);
    let began = Instant::now();
    let shells = Crew::start(16, EACH, |_, _| {
        let status = Command::new("true").status().expect("true starts");
        assert!(status.success(), "true: {status}");
    });
    shells.finish();
    eprintln!("{} processes in {:.2?}", 16 * EACH, began.elapsed());
    hog.stop();
    held.stop();
}

/// Stops and continues all tasks of a workload again and again. It begins when all tasks exist: a task that is being
/// forked keeps SIGSTOP but not SIGCONT, under any scheduler.
fn stopped_and_continued() {
    const TASKS: usize = 2 * 40;
    let held = Held::start();
    let bench = Hackbench::start("-p -g 2 -l 800");
    bench.wait_until_started(TASKS);
    let hogs = Hogs::part_time(2);
    for pause in 0..30 {
        bench.signal(Signal::SIGSTOP);
        sleep(millis(pause % 4));
        bench.signal(Signal::SIGCONT);
        sleep(millis(pause % 7));
    }
    bench.finish();
    hogs.stop();
    held.stop();
}

/// Tasks end while running, waiting and sleeping. At the same time, RCU grace periods wait for a context switch of
/// every CPU, and affinities change.
fn ending_among_hogs() {
    let held = Held::start();
    let hogs = hogs_beside(3, None);
    let talkers = Crew::start(4, 8, |number, round| {
        let (mut reader, mut writer) = pipe().expect("a pipe");
        let talker = spawn(move || {
            let cpus = cpus_in("online");
            for message in 0..4u8 {
                // A task that is woken on one CPU continues on another.
                allow(0, [cpus[(number + round as usize + usize::from(message)) % cpus.len()]]);
                writer.write_all(&[message]).expect("it has a reader");
            }
            match round % 3 {
                0 => yield_now(),
                1 => sleep(Duration::from_micros(100)),
                _ => work_for(Duration::from_micros(100)),
            }
        });
        let mut all = vec![];
        reader.read_to_end(&mut all).expect("a pipe");
        assert_eq!(all, [0, 1, 2, 3]);
        talker.join().expect("it ends well");
    });
    for _ in 0..3 {
        assert!(matches!(await_grace_period(), Ok(()) | Err(Errno::EINVAL)));
    }
    talkers.finish();
    hogs.stop();
    held.stop();
}

/// Threads sleep soon after they begin, so each is forked to a CPU that idles again, and these are few. All are woken at
/// once, and from then on they yield: no CPU becomes idle and could take one from a long queue for that reason. FLSCHED
/// balances threads that yield only while all of a CPU yield in vain, which depends on CPUs that run in parallel: here
/// they do not.
fn threads_that_yield_spread() {
    const EACH: usize = 4;
    const LASTS: Duration = millis(300);
    let held = Held::start();
    let cpus = cpus_in("online");
    let (reader, writer) = pipe().expect("a pipe");
    // How long each thread has been on each CPU, in seconds, running or waiting.
    let stays: Vec<Vec<f64>> = scope(|threads| {
        let wait = || {
            assert_eq!((&reader).read(&mut [0]).expect("a pipe"), 0, "it is only closed");
            let mut stays = vec![0.0; cpus.len()];
            let began = Instant::now();
            let mut last = began;
            while began.elapsed() < LASTS {
                let at = sched_getcpu().expect("a CPU");
                yield_now();
                let now = Instant::now();
                stays[at] += (now - last).as_secs_f64();
                last = now;
            }
            stays
        };
        let waiting: Vec<_> = (0..EACH * cpus.len()).map(|_| threads.spawn(wait)).collect();
        sleep(millis(50));
        drop(writer);
        waiting.into_iter().map(|thread| thread.join().expect("it ends well")).collect()
    });
    let mean = |cpu: usize| stays.iter().map(|stay| stay[cpu]).sum::<f64>() / LASTS.as_secs_f64();
    let means: Vec<f64> = (0..cpus.len()).map(mean).collect();
    eprintln!("threads by CPU, on average: {means:.1?}");
    assert!(means.iter().all(|mean| *mean <= 1.5 * EACH as f64), "threads by CPU: {means:.1?}");
    held.stop();
}

/// Attaches and detaches while tasks run, wait, sleep and are being created. It is done less often by default where the
/// verifier's work is on the same clock.
fn attached_and_detached_again_and_again() {
    let times = match (rounds(), machine()) {
        (1, Machine::Work | Machine::Jitter) => 5,
        (rounds, _) => 20 * rounds,
    };
    let hogs = Hogs::part_time(1);
    let makers = Hogs::repeating(1, None, |_| {
        spawn(|| sleep(millis(1))).join().expect("it ends well");
        sleep(millis(2));
    });
    let began = Instant::now();
    for _ in 0..times {
        Held::start().stop();
    }
    eprintln!("{times} times in {:.2?}", began.elapsed());
    makers.stop();
    hogs.stop();
}

/// Processes of one parent that share memory may wait for each other by spinning. Others have long turns, also if their
/// program is in a file system in memory, whose pages count as shared ones.
fn processes_take_short_turns_if_they_share_memory() {
    const IN_MEMORY: &str = "/dev/shm/sh";
    let compute = || loop {
        work();
    };
    let memory = shared_pages();
    let held = Held::start();
    let alone = switches_of(compute);
    std::fs::copy("/bin/sh", IN_MEMORY).expect("there is room");
    let program = [IN_MEMORY, "-c", "while :; do :; done"].map(|word| CString::new(word).expect("a word"));
    let in_memory = switches_of(|| execv(&program[0], &program).map_or((), |never| match never {}));
    let sharing = switches_of(|| {
        memory.iter().for_each(|page| page.0.store(1, Ordering::Relaxed));
        compute();
    });
    held.stop();
    std::fs::remove_file(IN_MEMORY).expect("it is there");
    eprintln!("switches: alone {alone}, with a program in memory {in_memory}, sharing memory {sharing}");
    assert!(3 * alone.max(in_memory) < sharing, "alone {alone}, in memory {in_memory}, sharing {sharing}");
}

/// Memory that all processes have in common which are forked from now on. The kernel's count of a process's pages lacks
/// up to 32, or two for each CPU, of each CPU.
fn shared_pages() -> &'static [Page] {
    const PAGES: usize = 256;
    let (access, size) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, PAGES * size_of::<Page>());
    let size = NonZero::new(size).expect("not zero");
    // SAFETY: the kernel chooses a place that is free.
    let pages = unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_SHARED) }.expect("there is memory");
    // SAFETY: it is never unmapped, begins with a page, and zeros are numbers.
    unsafe { std::slice::from_raw_parts(pages.cast().as_ptr(), PAGES) }
}

#[repr(C, align(4096))]
struct Page(AtomicU64);

/// How often four children that do this on one CPU are taken from it in 800 ms.
fn switches_of(child: impl Fn()) -> u64 {
    let start = || {
        // SAFETY: the child takes no lock, and allocates nothing.
        match unsafe { fork() }.expect("there is room for a process") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                pin_to(a_cpu());
                child();
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(1) }
            }
        }
    };
    let children: Vec<Pid> = (0..4).map(|_| start()).collect();
    sleep(millis(800));
    let switches = children.iter().map(|child| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        line.and_then(|number| number.trim().parse::<u64>().ok()).expect("a number")
    });
    let switches = switches.sum();
    for child in children {
        kill(child, Signal::SIGKILL).expect("it runs");
        waitpid(child, None).expect("it ends");
    }
    switches
}
