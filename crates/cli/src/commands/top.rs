//! `flsched top`: which scheduler runs this machine, which tasks run, and which wait, as it happens.
use crate::args::Top;
use crate::signals;
use crate::top::{Source, View, line};
use anyhow::Result;
use flsched_probes::watch::watched;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How soon a signal is noticed.
const CHECK: Duration = Duration::from_millis(100);

pub fn run(args: &Top) -> Result<u8> {
    let stop = signals::stop_flag()?;
    watched(|watcher| {
        let mut source = Source::new(watcher)?;
        if !args.once && !args.json && io::stdout().is_terminal() {
            return show(&mut source, args.interval(), &stop);
        }
        print(&mut source, args, &stop)
    })??;
    Ok(0)
}

#[cfg(feature = "top")]
fn show(source: &mut Source<'_>, interval: Duration, stop: &AtomicBool) -> Result<()> {
    crate::top::show(source, interval, stop)
}

/// A build without ratatui prints as if there were no terminal.
#[cfg(not(feature = "top"))]
fn show(source: &mut Source<'_>, interval: Duration, stop: &AtomicBool) -> Result<()> {
    eprintln!(
        "flsched: this build has no screen; packages have one, and so has `cargo build --release -p flsched --features top`"
    );
    follow(source, interval, stop, |view| writeln!(io::stdout(), "{}", line(view)))
}

/// A line, or an object of JSON, for each interval.
fn print(source: &mut Source<'_>, args: &Top, stop: &AtomicBool) -> Result<()> {
    let mut out = io::stdout();
    let print = |view: &View| match (args.json, args.once) {
        (true, true) => writeln!(out, "{}", serde_json::to_string_pretty(view)?),
        (true, false) => writeln!(out, "{}", serde_json::to_string(view)?),
        (false, _) => writeln!(out, "{}", line(view)),
    };
    if args.once {
        wait(args.interval(), stop);
        let mut print = print;
        return Ok(print(&source.view()?)?);
    }
    follow(source, args.interval(), stop, print)
}

fn follow(
    source: &mut Source<'_>,
    interval: Duration,
    stop: &AtomicBool,
    mut print: impl FnMut(&View) -> io::Result<()>,
) -> Result<()> {
    loop {
        wait(interval, stop);
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        print(&source.view()?)?;
    }
}

fn wait(interval: Duration, stop: &AtomicBool) {
    let began = Instant::now();
    while began.elapsed() < interval && !stop.load(Ordering::Relaxed) {
        thread::sleep(CHECK.min(interval.saturating_sub(began.elapsed())));
    }
}
