//! Loads that stress-ng does not have: `load NAME NUMBER SECONDS`.
use crate::common::{allow, enter_class, set_online};
use crate::guest::{own_rate, own_wait};
use io_uring::{IoUring, opcode};
use nix::libc;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle, park, sleep};
use std::time::{Duration, Instant};

/// Threads of a process that has thousands of them.
const THREADS_OF_A_PROCESS: u64 = 3000;
const SMALL_STACK: usize = 32 << 10;

pub fn run(words: &[&str]) -> ExitCode {
    let outcome = match *words {
        [name, number, seconds] => match (number.parse(), seconds.parse()) {
            (Ok(number), Ok(seconds)) => play(name, number, Duration::from_secs(seconds)),
            _ => Err("expected: load NAME NUMBER SECONDS".into()),
        },
        _ => Err("expected: load NAME NUMBER SECONDS".into()),
    };
    match outcome {
        Ok(rate) => {
            println!("{} {rate}", own_rate());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("load: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Operations per second.
fn play(name: &str, number: u64, time: Duration) -> Result<f64, String> {
    match name {
        "crowd" => crowd(number, time),
        "cgroups" => cgroups(number, time),
        "threads" => threads(number, time),
        "sleepers" => sleepers(number, time),
        "hotplug" => hotplug(number, time),
        "messenger" => messenger(number, time),
        "real-time-loop" => real_time_loop(number, time),
        "sqpoll" => sqpoll(number, time),
        _ => Err(format!("no load {name}")),
    }
}

/// About a microsecond of work.
fn work() {
    for step in 0..1000u64 {
        black_box(step);
    }
}

fn work_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        work();
    }
}

/// Threads that repeat the same until they are stopped, and count how often.
struct Crew {
    began: Instant,
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    fn new() -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        Self { began: Instant::now(), stop, rounds, threads: Vec::new() }
    }

    fn add(&mut self, mut round: impl FnMut() + Send + 'static) -> Result<(), String> {
        let (stop, rounds) = (self.stop.clone(), self.rounds.clone());
        let repeat = move || {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                round();
                count += 1;
            }
            rounds.fetch_add(count, Ordering::Relaxed);
        };
        let thread = Builder::new().stack_size(SMALL_STACK).spawn(repeat);
        let number = self.threads.len();
        self.threads.push(thread.map_err(|error| format!("thread {number}: {error}"))?);
        Ok(())
    }

    fn hogs(count: u64) -> Result<Self, String> {
        let mut crew = Self::new();
        (0..count).try_for_each(|_| crew.add(work))?;
        Ok(crew)
    }

    /// Rounds per second, when all have stopped.
    fn end(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        let took = self.began.elapsed();
        self.threads.into_iter().for_each(|thread| thread.join().expect("its work does not panic"));
        self.rounds.load(Ordering::Relaxed) as f64 / took.as_secs_f64()
    }
}

fn last_cpu() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) - 1
}

/// So many threads compute on one CPU. How long each of them waits is measured, too.
fn crowd(number: u64, time: Duration) -> Result<f64, String> {
    let mut crew = Crew::new();
    let (began, cpu) = (crew.began, last_cpu());
    let since = move || began.elapsed().as_nanos() as u64;
    let longest = Arc::new(AtomicU64::new(0));
    let mut lasts = Vec::new();
    for _ in 0..number {
        let last = Arc::new(AtomicU64::new(since()));
        lasts.push(last.clone());
        let longest = longest.clone();
        let runs = move || {
            let now = since();
            longest.fetch_max(now - last.swap(now, Ordering::Relaxed), Ordering::Relaxed);
        };
        let mut is_new = true;
        crew.add(move || {
            if is_new {
                // It waits once until it begins, and once more on the other CPU.
                runs();
                allow(0, [cpu]);
                is_new = false;
            }
            work();
            runs();
        })?;
    }
    sleep(time);
    let now = since();
    let waits = lasts.iter().map(|last| now.saturating_sub(last.load(Ordering::Relaxed)));
    let longest = waits.max().unwrap_or(0).max(longest.load(Ordering::Relaxed));
    println!("{} {}", own_wait(), longest as f64 / 1e6);
    Ok(crew.end())
}

/// So many cgroups with the CPU controller, each with a thread that works now and then.
fn cgroups(number: u64, time: Duration) -> Result<f64, String> {
    let top = Path::new("/sys/fs/cgroup/robustness");
    let write = |file: &Path, text: &str| {
        fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
    };
    let create = |folder: &Path| match fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    };
    create(top)?;
    let groups: Vec<_> = (0..number).map(|number| top.join(number.to_string())).collect();
    for group in &groups {
        create(group)?;
        write(&group.join("cgroup.type"), "threaded")?;
    }
    write(&top.join("cgroup.subtree_control"), "+cpu")?;
    let home = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    write(&top.join("cgroup.procs"), "0")?;
    let mut crew = Crew::new();
    for group in &groups {
        let (group, mut is_new) = (group.clone(), true);
        crew.add(move || {
            if is_new {
                // 0: the caller. Without it the thread works in the group above.
                let _ = fs::write(group.join("cgroup.threads"), "0");
                is_new = false;
            }
            work_for(Duration::from_micros(200));
            sleep(Duration::from_millis(500));
        })?;
    }
    sleep(time);
    let rate = crew.end();
    let home = home.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    write(&Path::new("/sys/fs/cgroup").join(home).join("cgroup.procs"), "0")?;
    for group in groups.iter().map(|group| group.as_path()).chain([top]) {
        fs::remove_dir(group).map_err(|error| format!("{}: {error}", group.display()))?;
    }
    Ok(rate)
}

/// So many threads of several processes, which sleep and now and then work.
fn threads(number: u64, time: Duration) -> Result<f64, String> {
    let me = std::env::current_exe().map_err(|error| format!("this program's path: {error}"))?;
    let processes = number.div_ceil(THREADS_OF_A_PROCESS);
    let seconds = time.as_secs().to_string();
    let start = |_| {
        let mut command = Command::new(&me);
        command.args(["load", "sleepers", &(number / processes).to_string(), &seconds]);
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("a process: {error}"))
    };
    let children = (0..processes).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut sum = 0.0;
    for child in children {
        let output = child.wait_with_output().map_err(|error| format!("a process: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rate = text.strip_prefix(own_rate()).and_then(|rate| rate.trim().parse::<f64>().ok());
        sum += rate.ok_or_else(|| format!("a process ended with {}", output.status))?;
    }
    Ok(sum)
}

fn sleepers(number: u64, time: Duration) -> Result<f64, String> {
    let mut crew = Crew::new();
    for number in 0..number {
        let pause = Duration::from_millis(1000 + number % 1000);
        crew.add(move || {
            sleep(pause);
            work();
        })?;
    }
    sleep(time);
    Ok(crew.end())
}

/// All CPUs but the first go offline and online again while so many threads compute.
fn hotplug(number: u64, time: Duration) -> Result<f64, String> {
    let crew = Crew::hogs(number)?;
    let cpus = 1..=last_cpu();
    while crew.began.elapsed() < time {
        for online in [false, true] {
            cpus.clone().for_each(|cpu| set_online(cpu, online));
            sleep(Duration::from_millis(200));
        }
    }
    Ok(crew.end())
}

/// What schbench does: a thread wakes so many workers again and again, and each works and reports.
fn messenger(number: u64, time: Duration) -> Result<f64, String> {
    let mut crew = Crew::new();
    let (reports, done) = channel();
    for _ in 0..number {
        let (reports, stop) = (reports.clone(), crew.stop.clone());
        let request = Arc::new(AtomicBool::new(false));
        crew.add(move || {
            // Nobody receives it when all stop.
            let _ = reports.send((std::thread::current(), request.clone()));
            while !request.swap(false, Ordering::AcqRel) && !stop.load(Ordering::Relaxed) {
                park();
            }
            work_for(Duration::from_micros(100));
        })?;
    }
    while crew.began.elapsed() < time {
        let Ok(first) = done.recv_timeout(time) else { break };
        for (worker, request) in std::iter::once(first).chain(done.try_iter()) {
            request.store(true, Ordering::Release);
            worker.unpark();
        }
    }
    crew.stop.store(true, Ordering::Relaxed);
    crew.threads.iter().for_each(|thread| thread.thread().unpark());
    Ok(crew.end())
}

/// A real-time thread that works for 2 of 5 ms on one CPU, as a data loop of sound does, beside so many hogs.
fn real_time_loop(number: u64, time: Duration) -> Result<f64, String> {
    let crew = Crew::hogs(number)?;
    let mut data = Crew::new();
    let cpu = last_cpu();
    let mut is_new = true;
    data.add(move || {
        if is_new {
            allow(0, [cpu]);
            enter_class(libc::SCHED_FIFO, 50).expect("root may");
            is_new = false;
        }
        work_for(Duration::from_millis(2));
        sleep(Duration::from_millis(3));
    })?;
    sleep(time);
    data.end();
    Ok(crew.end())
}

/// So many io_uring instances, each with a thread of the kernel that polls for what is submitted.
fn sqpoll(number: u64, time: Duration) -> Result<f64, String> {
    let mut crew = Crew::new();
    for _ in 0..number {
        let ring: std::io::Result<IoUring> = IoUring::builder().setup_sqpoll(1000).build(8);
        let mut ring = ring.map_err(|error| format!("io_uring: {error}"))?;
        crew.add(move || {
            let entry = opcode::Nop::new().build();
            // SAFETY: the entry points to no memory.
            let pushed = unsafe { ring.submission().push(&entry) };
            if pushed.is_ok() {
                ring.submit_and_wait(1).expect("an instance takes a nop");
                ring.completion().for_each(drop);
            }
        })?;
    }
    sleep(time);
    Ok(crew.end())
}
