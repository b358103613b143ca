//! `flsched-lab reproduce`: the experiments of the papers, one after the other.
use super::assess::{Judged, assess, own};
use super::page;
use super::paper::{self, Measurement, Paper};
use super::plan::{Choice, Job, chosen, gap, jobs, minutes};
use super::results::{CountedInSource, Found, Results, Simulated};
use super::text::duration;
use super::verdict::Verdict;
use crate::program::{Gives, Program, unfinished};
use anyhow::{Context, Result, anyhow, bail};
use flsched_base::files::replace;
use flsched_base::reports;
use flsched_compare::Report;
use flsched_probes::SourceLocks;
use flsched_spec::UsageError;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the user requests.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub choice: Choice,
    /// Run nothing; show what there is to run.
    pub list: bool,
    /// The page to write.
    pub out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Whatever the verdicts are.
    Done,
    /// Not all could be measured; they have been named.
    Failed,
    Interrupted,
}

/// Counts in the source of a kernel, of this folder or series.
pub type CountSource = dyn Fn(&str, &Arc<AtomicBool>) -> Result<SourceLocks>;

/// Measures what is requested and prints the verdicts.
pub fn reproduce(
    root: &Path,
    request: &Request,
    count: &CountSource,
    stop: &Arc<AtomicBool>,
) -> Result<Ended> {
    let papers = paper::load(root)?;
    if request.list {
        list(root, &papers, &request.choice)?;
        return Ok(Ended::Done);
    }
    let before = Results::new(root);
    let jobs = jobs(&papers, &before, &request.choice, VERSION)?;
    if let Some(path) = &request.out {
        // Before hours of measuring: a folder that is not there is noticed now.
        write_page(path, &judge(&papers, &before)?)?;
    }
    let lab = Lab { root, count, stop };
    let failures = lab.measure_all(&jobs)?;
    // The files that were read before may have been measured again.
    let judged = judge(&papers, &Results::new(root))?;
    show(&judged, &request.choice)?;
    if let Some(path) = &request.out {
        write_page(path, &judged)?;
        writeln!(io::stdout(), "written: {}", path.display())?;
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Ended::Interrupted);
    }
    if failures.is_empty() {
        return Ok(Ended::Done);
    }
    eprintln!("flsched-lab: {} of {} could not be measured:", failures.len(), jobs.len());
    failures.iter().for_each(|failure| eprintln!("  {failure}"));
    Ok(Ended::Failed)
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

struct Lab<'a> {
    root: &'a Path,
    count: &'a CountSource,
    stop: &'a Arc<AtomicBool>,
}

impl Lab<'_> {
    /// One after the other; what failed.
    fn measure_all(&self, jobs: &[Job<'_>]) -> Result<Vec<String>> {
        let mut failures = Vec::new();
        let mut clock = Estimate::default();
        for (index, job) in jobs.iter().enumerate() {
            let (it, left) = (clock.of(&jobs[index..=index]), clock.of(&jobs[index..]));
            eprintln!(
                "[{}/{}] {}: about {it}, {left} with all that follow",
                index + 1,
                jobs.len(),
                name(job)
            );
            let started = Instant::now();
            match self.measure(job) {
                Ok(()) => clock.took(job, started),
                Err(_) if self.stop.load(Ordering::Relaxed) => {
                    eprintln!("flsched-lab: interrupted; {} was not written", job.measurement.file.display());
                    break;
                }
                Err(error) => {
                    eprintln!("! {}: {error:#}", name(job));
                    failures.push(format!("{}: {error:#}", name(job)));
                }
            }
        }
        Ok(failures)
    }

    /// Runs the command, and writes its result when it is complete.
    fn measure(&self, job: &Job<'_>) -> Result<()> {
        let measurement = job.measurement;
        let line = measurement.line();
        let bytes = self.result(&format!("{}.json", name(job)), measurement, line.clone())?;
        // A result that cannot be read would be measured again by each call.
        let found = Found::parse(&bytes).map_err(|what| anyhow!("the result {what}"))?;
        if !found.is_of(measurement) {
            bail!("the result does not name the command line `{line}`");
        }
        write(&self.root.join(&measurement.file), &bytes)
    }

    /// What the command reports, as it is kept.
    fn result(&self, file: &str, measurement: &Measurement, command_line: String) -> Result<Vec<u8>> {
        let mut words = measurement.words().map_err(UsageError)?;
        let run = |words: &[String], gives| {
            let reported = Program::find()?.run(self.root, words, gives, file, self.stop)?;
            anyhow::Ok(reported.bytes)
        };
        let bytes = match words[0].as_str() {
            "compare" => {
                words.splice(1..1, ["--json".into(), unfinished(file).display().to_string()]);
                let is_simulated = words.windows(2).any(|pair| pair == ["--on", "sim"]);
                if is_simulated && !words.iter().any(|word| word == "--jobs") {
                    let jobs = std::thread::available_parallelism().map_or(1, |it| it.get());
                    words.splice(1..1, ["--jobs".into(), jobs.to_string()]);
                }
                let mut report: Report = reports::read(&run(&words, Gives::NamedQuietly)?)?;
                if is_simulated {
                    report.summarise();
                }
                reports::bytes(&Report { command_line, ..report })?
            }
            "sim" => {
                words.insert(1, "--json".into());
                let outcome = serde_json::from_slice(&run(&words, Gives::Output)?)?;
                reports::bytes(&Simulated { command_line, flsched_version: VERSION.into(), outcome })?
            }
            "locks" => match &words[1..] {
                [option, source] if option == "--source" => {
                    let counted = (self.count)(source, self.stop)?;
                    reports::bytes(&CountedInSource { command_line, counted })?
                }
                _ => return Err(UsageError(format!("`{command_line}` is not a count in a source")).into()),
            },
            _ => {
                let what = "is not a comparison, a simulation or a count in a source";
                return Err(UsageError(format!("`{command_line}` {what}")).into());
            }
        };
        let _ = std::fs::remove_file(self.root.join(unfinished(file)));
        Ok(bytes)
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    replace(path, content).with_context(|| format!("cannot write {}", path.display()))
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
fn show(judged: &[Vec<Judged<'_>>], choice: &Choice) -> Result<()> {
    let mut rows: Vec<&Judged<'_>> = judged.iter().flatten().collect();
    rows.retain(|row| choice.only.is_empty() || choice.only.contains(&row.row.id));
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

fn list(root: &Path, papers: &[Paper], choice: &Choice) -> Result<()> {
    let wanted = chosen(papers, &choice.only)?;
    let results = Results::new(root);
    let judged = judge(papers, &results)?;
    let mut out = io::stdout().lock();
    for row in judged.iter().flatten().filter(|it| wanted.iter().any(|row| row.id == it.row.id)) {
        writeln!(out, "{:<38}{:<16}{}", row.row.id, row.verdict(), row.row.place)?;
        let mut indexes: Vec<usize> = row.row.ways.iter().flat_map(own).collect();
        indexes.dedup();
        for index in indexes {
            let measurement = &row.paper.measurements[index];
            if (measurement.quick || !choice.quick)
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

    /// Each command line of the papers' files is one that the programs understand.
    #[test]
    fn every_measurement_can_be_planned() {
        for paper in paper::load(&project()).unwrap() {
            for measurement in &paper.measurements {
                let line = measurement.line();
                let words = shell_words::split(&line).unwrap();
                match words[0].as_str() {
                    "flsched" => {
                        flsched_cli::check(&words).unwrap_or_else(|error| panic!("{line}: {error:#}"))
                    }
                    _ => assert_eq!(words[..3], ["flsched-lab", "locks", "--source"], "{line}"),
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
