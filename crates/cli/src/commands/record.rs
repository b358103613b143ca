//! `flsched record`: what all tasks of this machine do, into a file that the simulator replays.
use crate::args::Record;
use crate::exit;
use crate::files;
use crate::progress::Progress;
use crate::signals::{self, Forwarder};
use anyhow::{Context, Result};
use flsched_probes::record::{Limits, Watch, recorded};
use flsched_process::wait_for;
use flsched_recording::Recording;
use indicatif::{HumanBytes, HumanCount};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks of the recording.
const CHECK: Duration = Duration::from_millis(200);

pub fn run(args: &Record) -> Result<u8> {
    // What cannot be written should not be recorded first.
    files::check(&args.out)?;
    let limits = Limits { mib: args.max_size };
    let progress = Progress::start();
    let outcome = match args.command.is_empty() {
        true => record_for(Duration::from_secs(args.seconds.unwrap_or(30)), limits, &progress),
        false => record_command(&args.command, limits, &progress),
    };
    progress.end();
    let (mut recording, code) = match outcome? {
        Ok(ended) => ended,
        Err(error) => {
            eprintln!("flsched: {}: {error}", args.command[0].to_string_lossy());
            return Ok(match error.kind() {
                io::ErrorKind::NotFound => exit::NOT_FOUND,
                io::ErrorKind::PermissionDenied => exit::NOT_EXECUTABLE,
                _ => exit::FAILURE,
            });
        }
    };
    if !args.command.is_empty() {
        let words = args.command.iter().map(|word| word.to_string_lossy());
        recording.header.command = Some(words.collect::<Vec<_>>().join(" "));
    }
    if args.anonymous {
        recording.make_anonymous();
    }
    let mut content = Vec::new();
    recording.write_to(&mut content)?;
    files::write(&args.out, &content)?;
    report(&recording, args, content.len());
    Ok(code)
}

/// What was recorded, and the exit code; or why the command did not start.
type Ended = Result<(Recording, u8), io::Error>;

/// Until the time is over, the log is full, or Ctrl-C.
fn record_for(time: Duration, limits: Limits, progress: &Progress) -> Result<Ended> {
    let stop = signals::stop_flag()?;
    let (recording, ()) = recorded(limits, |watch| {
        let began = Instant::now();
        progress.report("recording; Ctrl-C ends it and keeps what is recorded");
        while began.elapsed() < time && watch.used() < 1.0 && !stop.load(Ordering::Relaxed) {
            show(watch, progress);
            thread::sleep(CHECK.min(time.saturating_sub(began.elapsed())));
        }
    })?;
    Ok(Ok((recording, 0)))
}

/// While the command runs.
fn record_command(command: &[OsString], limits: Limits, progress: &Progress) -> Result<Ended> {
    let mut signals = Forwarder::new().context("cannot catch signals")?;
    let (recording, ended) = recorded(limits, |watch| -> Result<Result<u8, io::Error>> {
        let mut child: Child = match Command::new(&command[0]).args(&command[1..]).spawn() {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        watch.command_is(child.id());
        loop {
            if let Some(status) = wait_for(&mut child, CHECK)? {
                return Ok(Ok(exit::of_status(status)));
            }
            signals.forward(Pid::from_raw(child.id() as i32));
            show(watch, progress);
        }
    })?;
    Ok(ended?.map(|code| (recording, code)))
}

fn show(watch: &Watch<'_>, progress: &Progress) {
    progress.show(&format!("recording; {:.0} % of the log is in use", 100.0 * watch.used()));
}

fn report(recording: &Recording, args: &Record, bytes: usize) {
    let header = &recording.header;
    let seconds = header.length as f64 / 1e9;
    let all = header.length as f64 * header.cpus.len() as f64;
    let [from, to] = &header.schedulers;
    let schedulers = if from == to { from.clone() } else { format!("{from}, then {to}") };
    eprintln!(
        "{}: {seconds:.3} s on {} CPUs under {schedulers}; {} events of {} tasks, {}; the recorder's programs took \
         {:.2} % of the CPUs' time",
        args.out.display(),
        header.cpus.len(),
        HumanCount(recording.events.len() as u64),
        recording.tasks.len(),
        HumanBytes(bytes as u64),
        100.0 * header.overhead as f64 / all.max(1.0),
    );
    if header.lost > 0 {
        eprintln!(
            "flsched: *** CUT SHORT *** the log was full after {seconds:.3} s: {} later events are not in the file; record \
             for a shorter time, or give the log more memory by --max-size",
            HumanCount(header.lost)
        );
    }
}
