//! `flsched record`: what all tasks of this machine do, into a file that the simulator replays, or a trace to look at.
use super::compare;
use crate::args::Record;
use crate::files;
use crate::progress::Progress;
use crate::signals::{self, Forwarder};
use anyhow::{Context, Result};
use flsched_base::process::wait_for;
use flsched_compare::exit;
use flsched_compare::workload::{build, runnable};
use flsched_host::Attached;
use flsched_probes::record::{Limits, Watch, recorded};
use flsched_recording::timeline::{packed_trace, write_trace};
use flsched_recording::{Counter, Recording};
use flsched_spec::UsageError;
use flsched_spec::{Target, Workload};
use flsched_vm::Arch;
use indicatif::{HumanBytes, HumanCount};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Pause between two checks of the recording.
const CHECK: Duration = Duration::from_millis(50);
/// Of each counter; then every second one is dropped. The file's first line has room for those of 80 counters.
const MOST_SAMPLES: usize = 5_000;

pub fn run(args: &Record) -> Result<u8> {
    // What cannot be written should not be recorded first.
    let named = [("--out", &args.out), ("--perfetto", &args.perfetto), ("--from", &args.from)];
    files::check_distinct(named.map(|(option, file)| (option, file.as_ref())))?;
    for file in args.out.iter().chain(&args.perfetto) {
        files::check(file)?;
    }
    if let (Some(from), Some(to)) = (&args.from, &args.perfetto) {
        let recording = Recording::read(&from.display().to_string())?;
        return draw(&recording, &from.display().to_string(), to).map(|()| 0);
    }
    let limits = Limits { mib: args.max_size };
    let progress = Progress::start();
    let outcome = match (&args.workload, args.command.is_empty()) {
        (Some(name), _) => record_workload(name, limits, &progress),
        (None, true) => record_for(Duration::from_secs(args.seconds.unwrap_or(30)), limits, &progress),
        (None, false) => record_command(&args.command, Vec::new(), None, limits, &progress),
    };
    progress.end();
    let (mut recording, code) = match outcome? {
        Ok(ended) => ended,
        Err(NotStarted::Stopped(signal)) => return Ok(exit::of_signal(signal)),
        Err(NotStarted::Failed(error)) => {
            let first = args.command.first().map(|word| word.to_string_lossy());
            eprintln!(
                "flsched: {}: {error}",
                first.unwrap_or(args.workload.as_deref().unwrap_or_default().into())
            );
            return Ok(exit::of_start(&error));
        }
    };
    if let Some(name) = &args.workload {
        recording.header.command = Some(name.clone());
    }
    if !args.command.is_empty() {
        let words = args.command.iter().map(|word| word.to_string_lossy());
        recording.header.command = Some(words.collect::<Vec<_>>().join(" "));
    }
    if args.anonymous {
        recording.make_anonymous();
    }
    if let Some(out) = &args.out {
        let mut content = Vec::new();
        recording.write_to(&mut content)?;
        files::write(out, &content)?;
        report(&recording, out, content.len());
    }
    if let Some(out) = &args.perfetto {
        draw(&recording, recording.header.command.as_deref().unwrap_or("a recording"), out)?;
    }
    warn_if_cut(&recording);
    Ok(code)
}

fn draw(recording: &Recording, title: &str, out: &Path) -> Result<()> {
    let timeline = recording.timeline();
    let content = match out.extension().is_some_and(|extension| extension == "gz") {
        true => packed_trace(&timeline, title)?,
        false => {
            let mut content = Vec::new();
            write_trace(&timeline, title, &mut content)?;
            content
        }
    };
    files::write(out, &content)?;
    let size = HumanBytes(content.len() as u64);
    eprintln!(
        "{}: {} periods of {} tasks, {size}; open it in ui.perfetto.dev",
        out.display(),
        HumanCount(timeline.slices.len() as u64),
        timeline.tasks.len()
    );
    if let Some(at) = timeline.full_at {
        eprintln!("flsched: the trace ends at {:.6} s: it holds no more", at as f64 / 1e9);
    }
    Ok(())
}

/// What was recorded, and the exit code; or why the command did not start.
type Ended = Result<(Recording, u8), NotStarted>;

enum NotStarted {
    Failed(io::Error),
    /// By this signal, which came while the probe was loaded.
    Stopped(i32),
}

/// Until the time is over, the log is full, or Ctrl-C.
fn record_for(time: Duration, limits: Limits, progress: &Progress) -> Result<Ended> {
    let stop = signals::stop_flag()?;
    let (mut recording, counted) = recorded(limits, |watch| -> io::Result<Counted> {
        let mut counted = Counted::new();
        let began = Instant::now();
        progress.report("recording; Ctrl-C ends it and keeps what is recorded");
        while began.elapsed() < time && watch.used() < 1.0 && !stop.load(Ordering::Relaxed) {
            show(watch, progress);
            counted.look(watch);
            thread::sleep(CHECK.min(time.saturating_sub(began.elapsed())));
        }
        counted.look(watch);
        // Merging and writing a large recording takes long, and may be interrupted.
        signals::end_again()?;
        Ok(counted)
    })?;
    recording.header.counters = counted?.counters;
    Ok(Ok((recording, 0)))
}

/// While one of the workloads of `compare` runs. What it needs is made before.
fn record_workload(name: &str, limits: Limits, progress: &Progress) -> Result<Ended> {
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let mut workload = Workload::sized(name, Target::Host, cpus)?;
    let stop = signals::stop_flag()?;
    build(&mut workload, Arch::HOST, &compare::making(&|line| progress.report(line), &stop))?;
    let Workload::Program(program) = &workload else {
        return Err(UsageError(format!("{name}: only programs can be recorded")).into());
    };
    let scratch = tempfile::Builder::new().prefix("flsched-").tempdir().context("no temporary folder")?;
    let program = runnable(program);
    program.needs()?;
    let argv = program.argv(&["/proc/self/exe".into(), "workload".into()], scratch.path());
    record_command(&argv, program.environment(), Some(scratch), limits, progress)
}

/// While the command runs. Its folder is removed at its end.
fn record_command(
    command: &[OsString],
    environment: Vec<(OsString, OsString)>,
    scratch: Option<TempDir>,
    limits: Limits,
    progress: &Progress,
) -> Result<Ended> {
    let mut signals = Forwarder::new().context("cannot catch signals")?;
    let (mut recording, ended) = recorded(limits, |watch| -> Result<Result<(u8, Counted), NotStarted>> {
        if let Some(signal) = signals.end() {
            return Ok(Err(NotStarted::Stopped(signal)));
        }
        let mut counted = Counted::new();
        let mut child = match Command::new(&command[0]).args(&command[1..]).envs(environment).spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(NotStarted::Failed(error))),
        };
        watch.command_is(child.id());
        let status = loop {
            counted.look(watch);
            if let Some(status) = wait_for(&mut child, CHECK)? {
                break status;
            }
            signals.forward(Pid::from_raw(child.id() as i32));
            show(watch, progress);
        };
        drop(scratch);
        // Merging and writing a large recording takes long, and may be interrupted.
        signals::end_again()?;
        Ok(Ok((exit::of_status(status), counted)))
    })?;
    Ok(ended?.map(|(code, counted)| {
        recording.header.counters = counted.counters;
        (recording, code)
    }))
}

/// What the policy in force has counted, at some times since the recording began.
struct Counted {
    began: Instant,
    attached: Option<Attached>,
    counters: Vec<Counter>,
    looks: u64,
    /// Only one of so many looks is kept.
    every: u64,
}

impl Counted {
    fn new() -> Self {
        Self { began: Instant::now(), attached: None, counters: Vec::new(), looks: 0, every: 1 }
    }

    /// A policy that is attached while the command runs is found, too. Its counters stay when it is gone. They end where the
    /// log is full.
    fn look(&mut self, watch: &Watch<'_>) {
        if watch.used() >= 1.0 {
            return;
        }
        if self.attached.is_none() && self.counters.is_empty() {
            self.attached = Attached::find();
        }
        let at = self.began.elapsed().as_nanos() as u64;
        self.add(at, self.attached.as_ref().map(Attached::statistics).unwrap_or_default());
    }

    fn add(&mut self, at: u64, statistics: Vec<(String, u64)>) {
        self.looks += 1;
        if !self.looks.is_multiple_of(self.every) {
            return;
        }
        for (name, count) in statistics {
            match self.counters.iter_mut().find(|it| it.name == name) {
                Some(counter) => counter.samples.push((at, count)),
                None => self.counters.push(Counter { name, samples: vec![(at, count)] }),
            }
        }
        if self.counters.iter().any(|counter| counter.samples.len() >= MOST_SAMPLES) {
            self.every *= 2;
            for counter in &mut self.counters {
                let mut number = 0;
                counter.samples.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
            }
        }
    }
}

fn show(watch: &Watch<'_>, progress: &Progress) {
    progress.show(&format!("recording; {:.0} % of the log is in use", 100.0 * watch.used()));
}

fn report(recording: &Recording, out: &Path, bytes: usize) {
    let header = &recording.header;
    let seconds = header.length as f64 / 1e9;
    let all = header.length as f64 * header.cpus.len() as f64;
    let [from, to] = &header.schedulers;
    let schedulers = if from == to { from.clone() } else { format!("{from}, then {to}") };
    eprintln!(
        "{}: {seconds:.3} s on {} CPUs under {schedulers}; {} events of {} tasks, {}; the recorder's programs took \
         {:.2} % of the CPUs' time",
        out.display(),
        header.cpus.len(),
        HumanCount(recording.events.len() as u64),
        recording.tasks.len(),
        HumanBytes(bytes as u64),
        100.0 * header.overhead as f64 / all.max(1.0),
    );
}

fn warn_if_cut(recording: &Recording) {
    let header = &recording.header;
    let seconds = header.length as f64 / 1e9;
    if header.lost > 0 {
        eprintln!(
            "flsched: *** CUT SHORT *** the log was full after {seconds:.3} s: {} later events are not in the file; record \
             for a shorter time, or give the log more memory by --max-size",
            HumanCount(header.lost)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_long_recording_are_thinned_out() {
        let mut counted = Counted::new();
        for look in 0..100_000 {
            counted.add(look, vec![("pulled".into(), 3 * look), ("pushed".into(), 0)]);
        }
        for counter in &counted.counters {
            let samples = &counter.samples;
            assert!((MOST_SAMPLES / 2..MOST_SAMPLES).contains(&samples.len()), "{}", samples.len());
            let pauses = samples.windows(2).map(|two| two[1].0 - two[0].0);
            assert!(pauses.clone().max() <= pauses.min().map(|least| 2 * least), "evenly spread");
            assert!(samples[0].0 == 0 && samples[samples.len() - 1].0 > 99_000);
        }
    }
}
