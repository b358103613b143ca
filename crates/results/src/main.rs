//! `flsched-results`: measures what is published and keeps the documentation's figures true.
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use flsched_reproduce::project;
use flsched_results::measure::{Choice, Ended, chosen, is_measured, measure};
use flsched_results::sets::{self, Sets};
use flsched_results::{format, render};
use flsched_spec::UsageError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const FAILURE: u8 = 1;
const USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;

/// Measures published comparisons, and renders them into README.md and docs/
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Folder of the project [default: the working folder, or the nearest one above it, that has results/sets.toml]
    #[arg(long, value_name = "DIR", global = true)]
    root: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Measure(Measure),
    Render(Render),
    Format(Format),
}

/// Measure sets of results/sets.toml again, one comparison after the other
#[derive(Debug, Args)]
struct Measure {
    /// Sets to measure [default: all]
    #[arg(value_name = "SET")]
    sets: Vec<String>,
    /// Measure only the comparison that writes this file of results/ (repeatable)
    #[arg(long, value_name = "FILE")]
    only: Vec<String>,
    /// Leave out comparisons that the same command line has measured already
    #[arg(long)]
    missing: bool,
    /// Print the command lines and measure nothing
    #[arg(long)]
    dry_run: bool,
}

/// Replace the text between `<!-- results: … -->` and `<!-- /results -->` by what the results are now
#[derive(Debug, Args)]
struct Render {
    /// Change nothing; exit with 1 if a text differs
    #[arg(long)]
    check: bool,
}

/// Rewrite the reports under results/ in the newest version of their format, without what a simulation's seed gives again
#[derive(Debug, Args)]
struct Format {
    /// Change nothing; exit with 1 if a file differs
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let root = project::folder(cli.root.as_deref(), sets::FILE);
    let outcome = root.map_err(Into::into).and_then(|root| match cli.command {
        Command::Measure(args) => measure_sets(&root, args),
        Command::Render(args) => render_documents(&root, &args),
        Command::Format(args) => format_reports(&root, &args),
    });
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("flsched-results: {error:#}");
            let is_usage = error.chain().any(|cause| cause.is::<UsageError>());
            if is_usage { USAGE } else { FAILURE }.into()
        }
    }
}

fn measure_sets(root: &std::path::Path, args: Measure) -> Result<u8> {
    let sets = Sets::load(root)?;
    let choice = Choice { sets: args.sets, only: args.only, missing: args.missing };
    let jobs = chosen(root, &sets, &choice)?;
    if args.dry_run {
        let mut out = std::io::stdout().lock();
        for job in jobs {
            let state = if is_measured(root, &job) { "measured" } else { "not measured" };
            // A reader that has closed the pipe (`| head`) is not an error.
            let line = writeln!(out, "# {} ({state})\n{}", job.file(), job.line());
            if line.is_err() {
                break;
            }
        }
        return Ok(0);
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot catch signals")?;
    }
    match measure(root, &jobs, &stop)? {
        Ended::Interrupted => Ok(INTERRUPTED),
        Ended::Done(failures) if failures.is_empty() => {
            eprintln!("{} measured; now run: flsched-results render", jobs.len());
            Ok(0)
        }
        Ended::Done(failures) => {
            eprintln!("flsched-results: {} of {} failed:", failures.len(), jobs.len());
            failures.iter().for_each(|failure| eprintln!("  {failure}"));
            Ok(FAILURE)
        }
    }
}

fn render_documents(root: &std::path::Path, args: &Render) -> Result<u8> {
    let rendering = render::render(root)?;
    rendering.errors.iter().for_each(|error| eprintln!("{error}"));
    if args.check {
        rendering.differences.iter().for_each(|difference| eprintln!("{difference}"));
        if !rendering.differences.is_empty() {
            eprintln!("flsched-results: out of date; run: flsched-results render");
        }
        let is_clean = rendering.errors.is_empty() && rendering.differences.is_empty();
        return Ok(if is_clean { 0 } else { FAILURE });
    }
    if !rendering.errors.is_empty() {
        eprintln!("flsched-results: nothing was written");
        return Ok(FAILURE);
    }
    render::write(root, &rendering)?;
    rendering.changes.iter().for_each(|(path, _)| eprintln!("written: {}", path.display()));
    Ok(0)
}

fn format_reports(root: &std::path::Path, args: &Format) -> Result<u8> {
    let formatting = format::format(root).context("cannot read the reports")?;
    formatting.errors.iter().for_each(|error| eprintln!("{error}"));
    if !formatting.errors.is_empty() {
        eprintln!("flsched-results: nothing was written");
        return Ok(FAILURE);
    }
    let names = formatting.changes.iter().map(|(name, _)| name.display());
    if args.check {
        names.for_each(|name| {
            eprintln!("{name} is not in the form of this version; run: flsched-results format")
        });
        return Ok(if formatting.changes.is_empty() { 0 } else { FAILURE });
    }
    format::write(root, &formatting).context("cannot write the reports")?;
    names.for_each(|name| eprintln!("written: {name}"));
    Ok(0)
}
