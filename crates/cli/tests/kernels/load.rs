//! Load for the scheduler: hackbench and threads of this process.
pub use crate::common::{allow, enter_class, set_online};
use flsched_machine::read_cpu_list;
use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// The longest time from a thread's creation or wake-up until it runs, if it waits for no other task. Emulated CPUs
/// take turns of some milliseconds.
pub const AT_ONCE: Duration = Duration::from_millis(7);

/// An RCU grace period, for which each CPU must be quiet once. EINVAL: with `nohz_full` the kernel offers none.
pub fn await_grace_period() -> Result<(), Errno> {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: takes integers only.
    Errno::result(unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) }).map(drop)
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited 20 s in vain until {what}");
        sleep(Duration::from_millis(20));
    }
}

pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A running hackbench with all its tasks, in a separate process group. It is killed if the scenario panics.
pub struct Hackbench(Child);

impl Hackbench {
    pub fn start(arguments: &str) -> Self {
        let mut command = Command::new("hackbench");
        command.args(arguments.split(' ')).stdout(Stdio::null()).process_group(0);
        Self(command.spawn().expect("hackbench starts"))
    }

    /// Its tasks, except for the first one, which only waits.
    pub fn tasks(&self) -> Vec<i32> {
        let pid = self.0.id();
        let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Waits until all its tasks exist. They begin their work together, so if one has ended, all existed before.
    pub fn wait_until_started(&self, tasks: usize) {
        let mut most = 0;
        wait_until("all of hackbench's tasks are there", || {
            let now = self.tasks().len();
            most = now.max(most);
            now == tasks || now < most
        });
    }

    /// Sends a signal to all its tasks.
    pub fn signal(&self, signal: Signal) {
        killpg(Pid::from_raw(self.0.id() as i32), signal).expect("it runs");
    }

    /// Waits for its end, which comes only after all messages have been read.
    pub fn finish(mut self) {
        let status = self.0.wait().expect("waitable");
        assert!(status.success(), "hackbench finished its work: {status}");
    }
}

impl Drop for Hackbench {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.signal(Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

pub fn pin_to(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).expect("a CPU number");
    sched_setaffinity(Pid::from_raw(0), &cpus).expect("the CPU is online");
}

/// CPU time of the calling thread.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has one").into()
}

/// About a microsecond of work.
pub fn work() {
    for step in 0..1000u64 {
        black_box(step);
    }
}

pub fn work_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        work();
    }
}

/// Sets the nice value of the calling thread.
pub fn be_nice(nice: i32) {
    // SAFETY: the call takes integers only; 0 stands for the calling thread.
    let outcome = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    assert_eq!(outcome, 0, "setpriority {nice}");
}

/// Threads that repeat the same work until they are stopped.
pub struct Hogs {
    stop: Arc<AtomicBool>,
    /// How often each thread has done it.
    rounds: Arc<Vec<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts `count` threads that compute. `cpu`: pins all of them to this CPU.
    pub fn start(count: usize, cpu: Option<usize>) -> Self {
        Self::repeating(count, cpu, |_| work())
    }

    /// Starts `count` threads that each compute for a quarter of the time. They leave CPUs idle, so that a scheduler is
    /// attached sooner.
    pub fn part_time(count: usize) -> Self {
        Self::repeating(count, None, |_| {
            work_for(millis(1));
            sleep(millis(3));
        })
    }

    /// `round` gets the thread's number.
    pub fn repeating(
        count: usize,
        cpu: Option<usize>,
        round: impl Fn(usize) + Send + Clone + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let rounds: Arc<Vec<_>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let hog = |number: usize| {
            let (stop, rounds, round) = (stop.clone(), rounds.clone(), round.clone());
            move || {
                if let Some(cpu) = cpu {
                    pin_to(cpu);
                }
                while !stop.load(Ordering::Relaxed) {
                    round(number);
                    rounds[number].fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let threads = (0..count).map(|number| spawn(hog(number))).collect();
        Self { stop, rounds, threads }
    }

    /// The number of rounds that each thread has done.
    pub fn rounds(&self) -> Vec<u64> {
        self.rounds.iter().map(|done| done.load(Ordering::Relaxed)).collect()
    }

    /// Waits until each thread has done another round, which shows that all still run.
    pub fn go_on(&self) {
        let before = self.rounds();
        wait_until("every hog goes on", || self.rounds().iter().zip(&before).all(|(now, then)| now > then));
    }

    /// Checks that all threads still run, then ends them.
    pub fn stop(mut self) {
        self.go_on();
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("a hog ends well"));
    }
}

/// A scenario that fails leaves the CPUs to the next one.
impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Threads that each repeat some work a given number of times.
pub struct Crew {
    rounds: u64,
    threads: Vec<JoinHandle<u64>>,
}

impl Crew {
    /// Starts `count` threads. `round` gets the numbers of the thread and of the round.
    pub fn start(count: usize, rounds: u64, round: impl Fn(usize, u64) + Send + Clone + 'static) -> Self {
        let member = |number: usize| {
            let round = round.clone();
            move || {
                let mut done = 0;
                while done < rounds {
                    round(number, done);
                    done += 1;
                }
                done
            }
        };
        Self { rounds, threads: (0..count).map(|number| spawn(member(number))).collect() }
    }

    pub fn finish(self) {
        for thread in self.threads {
            assert_eq!(thread.join().expect("each ends well"), self.rounds);
        }
    }
}

/// The longest wait of a thread on `cpu` that is always runnable, over the time `during`.
pub fn longest_wait_on(cpu: usize, during: Duration) -> Duration {
    spawn(move || {
        pin_to(cpu);
        longest_wait(during)
    })
    .join()
    .expect("the watcher ends well")
}

/// The longest wait of the calling thread, over the time `during`.
pub fn longest_wait(during: Duration) -> Duration {
    let began = Instant::now();
    let (mut last, mut longest) = (began, Duration::ZERO);
    while last - began < during {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

/// An online CPU to which a scenario can pin tasks. CPU 1 may be offline.
pub fn a_cpu() -> usize {
    cpus_in("online")[1]
}

/// The numbers of all possible CPUs, online or not.
pub fn possible_cpus() -> Range<usize> {
    0..cpus_in("possible").len()
}

/// The CPU numbers in the file `list` of `/sys/devices/system/cpu`, in order.
pub fn cpus_in(list: &str) -> Vec<usize> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/{list}")).expect("readable");
    read_cpu_list(&text).expect("a list of CPUs")
}
