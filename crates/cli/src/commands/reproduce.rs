//! `flsched reproduce`: the experiments of the papers, one after the other.
use super::{compare, locks, sim};
use crate::args::{Cli, Command, Locks, Reproduce};
use crate::exit::{self, Usage};
use crate::files::write;
use crate::progress::Progress;
use crate::signals;
use anyhow::{Result, anyhow};
use clap::Parser;
use flsched_compare::workload::Making;
use flsched_compare::{CompareError, Outputs, Report};
use flsched_reproduce::assess::{Judged, assess, own};
use flsched_reproduce::page;
use flsched_reproduce::paper::{self, Measurement, Paper};
use flsched_reproduce::plan::{Choice, Job, chosen, gap, jobs, minutes};
use flsched_reproduce::project;
use flsched_reproduce::results::{CountedInSource, Found, Results, Simulated};
use flsched_reproduce::text::duration;
use flsched_reproduce::verdict::Verdict;
use flsched_sim::{Error, Simulation};
use flsched_spec::Target;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn run(args: &Reproduce) -> Result<u8> {
    let root = project::folder(args.root.as_deref(), paper::FOLDER)?;
    let papers = paper::load(&root)?;
    if args.list {
        list(&root, &papers, args)?;
        return Ok(0);
    }
    let choice = Choice { quick: args.quick, only: args.only.clone(), again: args.again };
    let before = Results::new(&root);
    let jobs = jobs(&papers, &before, &choice, VERSION)?;
    if let Some(path) = &args.out {
        // Before hours of measuring: a folder that is not there is noticed now.
        write_page(path, &judge(&papers, &before)?)?;
    }
    let cancel = signals::stop_flag()?;
    let mut failures = Vec::new();
    let mut clock = Estimate::default();
    for (index, job) in jobs.iter().enumerate() {
        let (it, left) = (clock.of(&jobs[index..=index]), clock.of(&jobs[index..]));
        eprintln!("[{}/{}] {}: about {it}, {left} with all that follow", index + 1, jobs.len(), name(job));
        let started = Instant::now();
        match measure(&root, job.measurement, &cancel) {
            Ok(()) => clock.took(job, started),
            Err(_) if cancel.load(Ordering::Relaxed) => {
                eprintln!("flsched: interrupted; {} was not written", job.measurement.file.display());
                break;
            }
            Err(error) => {
                eprintln!("! {}: {error:#}", name(job));
                failures.push(format!("{}: {error:#}", name(job)));
            }
        }
    }
    // The files that were read before may have been measured again.
    let judged = judge(&papers, &Results::new(&root))?;
    show(&judged, args)?;
    if let Some(path) = &args.out {
        write_page(path, &judged)?;
        writeln!(io::stdout(), "written: {}", path.display())?;
    }
    if cancel.load(Ordering::Relaxed) {
        return Ok(exit::INTERRUPTED);
    }
    if failures.is_empty() {
        return Ok(0);
    }
    eprintln!("flsched: {} of {} could not be measured:", failures.len(), jobs.len());
    failures.iter().for_each(|failure| eprintln!("  {failure}"));
    Ok(exit::FAILURE)
}

fn name(job: &Job<'_>) -> String {
    format!("{}-{}", job.paper.id, job.measurement.name)
}

fn judge<'a>(papers: &'a [Paper], results: &Results) -> Result<Vec<Vec<Judged<'a>>>> {
    Ok(papers.iter().map(|paper| assess(paper, results)).collect::<Result<_, _>>()?)
}

fn write_page(path: &Path, judged: &[Vec<Judged<'_>>]) -> Result<()> {
    write(path, page::html(judged).as_bytes())
}

/// Runs the command, and writes its result when it is complete.
fn measure(root: &Path, measurement: &Measurement, cancel: &Arc<AtomicBool>) -> Result<()> {
    let line = measurement.line();
    let words = words(measurement)?;
    let bytes = match Cli::try_parse_from(&words).map_err(|error| Usage(error.to_string()))?.command {
        Command::Compare(mut args) => {
            if args.on == Some(Target::Sim) && args.jobs.is_none() {
                args.jobs =
                    std::thread::available_parallelism().ok().and_then(|it| u32::try_from(it.get()).ok());
            }
            let plan = compare::plan(&args, &words, &Making::quietly())?.whole()?;
            let progress = Progress::start();
            let result = compare::carry_out(&args, &plan, &Outputs::default(), &progress, cancel);
            progress.end();
            let report = result?.map_err(|error| match error {
                CompareError::Executor { source, .. } => anyhow!(source),
                error => anyhow!(error),
            })?;
            serde_json::to_vec_pretty(&slim(report))?
        }
        Command::Sim(args) => {
            let stop = Arc::clone(cancel);
            let simulation =
                Simulation::new(sim::setup(&args)?)?.stop_if(move || stop.load(Ordering::Relaxed));
            let outcome = match simulation.run() {
                Err(Error::Stopped) => return Err(anyhow!("interrupted")),
                outcome => serde_json::to_value(outcome?)?,
            };
            let simulated =
                Simulated { command_line: line.clone(), flsched_version: VERSION.into(), outcome };
            serde_json::to_vec_pretty(&simulated)?
        }
        Command::Locks(Locks { source: Some(source), .. }) => {
            let counted = locks::count(&source, cancel)?;
            serde_json::to_vec_pretty(&CountedInSource { command_line: line.clone(), counted })?
        }
        _ => {
            return Err(
                Usage(format!("`{line}` is not a comparison, a simulation or a count in a source")).into()
            );
        }
    };
    // A result that cannot be read would be measured again by each call.
    let found = Found::parse(&bytes).map_err(|what| anyhow!("the result {what}"))?;
    if !found.is_of(measurement) {
        return Err(anyhow!("the result does not name the command line `{line}`"));
    }
    let path = root.join(&measurement.file);
    write(&path, &[&bytes[..], b"\n"].concat())
}

/// Without each CPU's frequencies, which no row takes: of a large machine they are most of the report.
fn slim(mut report: Report) -> Report {
    let is_of_a_cpu = |name: &str| {
        let number = name.strip_prefix("cpu").and_then(|rest| rest.strip_suffix("_mhz"));
        number.is_some_and(|it| it.parse::<u32>().is_ok())
    };
    for arm in &mut report.results {
        arm.residency = None;
        arm.figures.retain(|figure| !is_of_a_cpu(&figure.name));
    }
    report
}

/// The whole command line.
fn words(measurement: &Measurement) -> Result<Vec<String>, Usage> {
    let words = measurement.words().map_err(Usage)?;
    Ok(std::iter::once("flsched".to_owned()).chain(words).collect())
}

/// How long things take here, from what has been done.
#[derive(Default)]
struct Estimate {
    planned_min: f64,
    taken_min: f64,
}

impl Estimate {
    fn took(&mut self, job: &Job<'_>, started: Instant) {
        self.planned_min += job.measurement.takes_min;
        self.taken_min += started.elapsed().as_secs_f64() / 60.0;
    }

    fn of(&self, jobs: &[Job<'_>]) -> String {
        let pace = if self.planned_min > 0.0 { self.taken_min / self.planned_min } else { 1.0 };
        duration(minutes(jobs) * pace)
    }
}

/// The verdicts, the worst first.
fn show(judged: &[Vec<Judged<'_>>], args: &Reproduce) -> Result<()> {
    let mut rows: Vec<&Judged<'_>> = judged.iter().flatten().collect();
    rows.retain(|row| args.only.is_empty() || args.only.contains(&row.row.id));
    rows.sort_by_key(|row| row.verdict());
    let mut out = io::stdout().lock();
    for judged in &rows {
        writeln!(out, "{:<16}{:<38}{}", judged.verdict(), judged.row.id, judged.row.place)?;
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict() == verdict).count();
    let counts: Vec<String> = Verdict::ALL.map(|verdict| format!("{} {verdict}", count(verdict))).to_vec();
    writeln!(out, "claims: {}", counts.join(", "))?;
    Ok(())
}

fn list(root: &Path, papers: &[Paper], args: &Reproduce) -> Result<()> {
    let wanted = chosen(papers, &args.only)?;
    let results = Results::new(root);
    let judged = judge(papers, &results)?;
    let mut out = io::stdout().lock();
    for row in judged.iter().flatten().filter(|it| wanted.iter().any(|row| row.id == it.row.id)) {
        writeln!(out, "{:<38}{:<16}{}", row.row.id, row.verdict(), row.row.place)?;
        let mut indexes: Vec<usize> = row.row.ways.iter().flat_map(own).collect();
        indexes.dedup();
        for index in indexes {
            let measurement = &row.paper.measurements[index];
            if (measurement.quick || !args.quick)
                && let Some(why) = gap(measurement, &results)
            {
                let takes = duration(measurement.takes_min);
                writeln!(out, "    {why}, about {takes}:\n        {}", measurement.line())?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn project() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Each command line of the papers' files is one that this program understands.
    #[test]
    fn every_measurement_can_be_planned() {
        for paper in paper::load(&project()).unwrap() {
            for measurement in &paper.measurements {
                let words = words(measurement).unwrap();
                match Cli::try_parse_from(&words)
                    .unwrap_or_else(|error| panic!("{}: {error}", paper.id))
                    .command
                {
                    Command::Compare(args) => {
                        let plan = compare::plan(&args, &words, &Making::quietly())
                            .unwrap_or_else(|error| panic!("{words:?}: {error:#}"));
                        assert_eq!(shell_words::join(&plan.spec.command_line), measurement.line());
                    }
                    Command::Sim(args) => drop(sim::setup(&args).unwrap()),
                    Command::Locks(args) => assert!(args.source.is_some()),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn quick_means_a_quarter_of_an_hour() {
        let papers = paper::load(&project()).unwrap();
        let quick = papers.iter().flat_map(|paper| &paper.measurements).filter(|it| it.quick);
        let minutes: f64 = quick.map(|it| it.takes_min).sum();
        assert!((1.0..=15.0).contains(&minutes), "{minutes}");
    }
}
