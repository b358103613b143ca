//! Measures what is published, one after the other, with the `flsched` beside this program.
use crate::job::Job;
use crate::patched;
use crate::program::{Gives, Program, unfinished};
use crate::sets::{Comparison, Sets, Settings};
use crate::store::FOLDER;
use crate::sweeps::Sweep;
use anyhow::{Context, Result, bail};
use flsched_base::files::replace;
use flsched_spec::UsageError;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Names of sets; none: all.
    pub sets: Vec<String>,
    /// Files that are written; none: all.
    pub only: Vec<String>,
    /// Leave out what has been measured by the same command line.
    pub missing: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// With a line for each that failed.
    Done(Vec<String>),
    Interrupted,
}

/// The reports to be measured, in the order of the sets.
pub fn chosen<'a>(root: &Path, sets: &'a Sets, choice: &Choice) -> Result<Vec<Job<'a>>, UsageError> {
    let mut jobs = sets.jobs(&choice.sets)?;
    if !choice.only.is_empty() {
        let files: Vec<String> = jobs.iter().map(|it| it.file().to_string()).collect();
        let only: Vec<String> = choice.only.iter().map(|name| file_name(name)).collect();
        if let Some(unknown) = only.iter().find(|name| !files.contains(name)) {
            return Err(UsageError::unknown("file", unknown, &files));
        }
        jobs.retain(|it| only.iter().any(|name| name == it.file()));
    }
    if choice.missing {
        jobs.retain(|it| !is_measured(root, it));
    }
    Ok(jobs)
}

/// `results/a.json`, `a.json` and `a` all name the same.
fn file_name(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name);
    format!("{}.json", name.strip_suffix(".json").unwrap_or(name))
}

/// By the command line that the sets have now.
pub fn is_measured(root: &Path, job: &Job<'_>) -> bool {
    std::fs::read(root.join(FOLDER).join(job.file())).is_ok_and(|bytes| job.is_of(&bytes))
}

/// Measures it all; what fails leaves its old report as it is.
pub fn measure(root: &Path, jobs: &[Job<'_>], stop: &Arc<AtomicBool>) -> Result<Ended> {
    measure_with(&Program::find()?, root, jobs, stop)
}

fn measure_with(program: &Program, root: &Path, jobs: &[Job<'_>], stop: &Arc<AtomicBool>) -> Result<Ended> {
    let mut failures = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let file = job.file();
        eprintln!("[{}/{}] {file}: {}", index + 1, jobs.len(), job.line());
        let start = Instant::now();
        let outcome = measure_one(program, root, job, stop);
        if stop.load(Ordering::Relaxed) {
            eprintln!("flsched-lab: interrupted; {FOLDER}/{file} was not written");
            return Ok(Ended::Interrupted);
        }
        match outcome {
            Ok(()) => eprintln!("written: {FOLDER}/{file}, after {} s", start.elapsed().as_secs()),
            Err(error) => {
                eprintln!("! {file}: {error:#}");
                failures.push(format!("{file}: {error:#}"));
            }
        }
    }
    Ok(Ended::Done(failures))
}

fn measure_one(program: &Program, root: &Path, job: &Job<'_>, stop: &AtomicBool) -> Result<()> {
    let unfinished = unfinished(job.file());
    let mut words = job.arguments();
    let gives = match job {
        Job::Comparison(Comparison { settings: Settings { patched, .. }, .. })
        | Job::Sweep(Sweep { patched, .. }) => {
            for name in patched {
                patched::make(root, name)?;
            }
            words.extend(["--json".into(), unfinished.display().to_string()]);
            Gives::Named
        }
        Job::Overhead(_) => Gives::Output,
    };
    let reported = program.run(root, &words, gives, job.file(), stop)?;
    let bytes = match (job.published(&reported.bytes), reported.failed) {
        (Ok(bytes), _) => bytes,
        (Err(_), Some(status)) => bail!("flsched ended with {status}"),
        (Err(what), None) => bail!("{} {what}", unfinished.display()),
    };
    let published = root.join(FOLDER).join(job.file());
    replace(&published, &bytes).with_context(|| format!("cannot write {FOLDER}/{}", job.file()))?;
    std::fs::remove_file(root.join(&unfinished))
        .with_context(|| format!("cannot remove {}", unfinished.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use crate::program::UNFINISHED;
    use crate::view::tests::report;
    use std::os::unix::fs::PermissionsExt;

    const SETS: &str = r#"
        [[set]]
        name = "s"
        about = "a set"
        cpus = 4
        schedulers = ["eevdf", "flsched"]
        [[set.comparison]]
        name = "one"
        workloads = ["make:{cpus}"]
        [[set.comparison]]
        name = "two"
        workloads = ["requests"]
    "#;

    /// A project whose `flsched` is this script; `$json` is the file to write, `whole.json` and
    /// `half.json` are reports.
    fn project(script: &str) -> (tempfile::TempDir, Program, Sets) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("results")).unwrap();
        let mut whole = report(&[("make:4:16", &[("eevdf", 1.0)])]);
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("whole.json", &serde_json::to_string(&whole).unwrap());
        whole.complete = false;
        write("half.json", &serde_json::to_string(&whole).unwrap());
        let program = folder.path().join("flsched");
        write("flsched", &format!("#!/bin/sh\nfor json; do :; done\n{script}\n"));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program::at(&program);
        (folder, program, Sets::parse(SETS).unwrap())
    }

    fn measured(script: &str, stop: bool) -> (tempfile::TempDir, Ended) {
        let (folder, program, sets) = project(script);
        let jobs = sets.jobs(&[]).unwrap();
        let stop = Arc::new(AtomicBool::new(stop));
        let ended = measure_with(&program, folder.path(), &jobs, &stop).unwrap();
        (folder, ended)
    }

    fn published(folder: &tempfile::TempDir) -> Vec<String> {
        let files = folder.path().join("results").read_dir().unwrap();
        let mut names: Vec<_> = files.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn publishes_what_is_complete() {
        let (folder, ended) = measured("cp whole.json \"$json\"; echo \"$@\" >> arguments", false);
        assert_eq!(ended, Ended::Done(Vec::new()));
        assert_eq!(published(&folder), ["s-one.json", "s-two.json"]);
        let arguments = std::fs::read_to_string(folder.path().join("arguments")).unwrap();
        let first =
            "compare --cpus 4 --schedulers eevdf,flsched --workload make:4 --json target/results/s-one.json";
        assert_eq!(arguments.lines().next(), Some(first));
        assert_eq!(folder.path().join(UNFINISHED).read_dir().unwrap().count(), 0);
    }

    #[test]
    fn goes_on_after_a_failure_and_names_it() {
        let script =
            "case $json in *one*) cp half.json \"$json\"; exit 1;; *) cp whole.json \"$json\";; esac";
        let (folder, ended) = measured(script, false);
        assert_eq!(published(&folder), ["s-two.json"]);
        let Ended::Done(failures) = ended else { panic!("{ended:?}") };
        assert_eq!(failures, ["s-one.json: flsched ended with exit status: 1"]);
    }

    #[test]
    fn half_a_report_is_not_published() {
        let (folder, ended) = measured("cp half.json \"$json\"", false);
        assert!(published(&folder).is_empty());
        let Ended::Done(failures) = ended else { panic!("{ended:?}") };
        assert!(failures[0].contains("not complete"), "{failures:?}");
    }

    #[test]
    fn an_interrupt_reaches_the_child_and_publishes_nothing() {
        let start = Instant::now();
        let (folder, ended) = measured("cp half.json \"$json\"; exec sleep 30", true);
        assert_eq!(ended, Ended::Interrupted);
        assert!(published(&folder).is_empty() && start.elapsed() < std::time::Duration::from_secs(10));
    }

    #[test]
    fn chooses_by_set_and_file_and_what_is_missing() {
        let (folder, _, sets) = project("");
        let files = |choice: Choice| {
            chosen(folder.path(), &sets, &choice)
                .map(|all| all.iter().map(|it| it.file().to_string()).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        let only = |name: &str| Choice { only: vec![name.into()], ..Choice::default() };
        assert_eq!(files(only("results/s-two.json")).unwrap(), ["s-two.json"]);
        assert_eq!(files(only("s-two")).unwrap(), ["s-two.json"]);
        assert!(files(only("s-tow")).unwrap_err().contains("did you mean `s-two.json`?"));
        assert!(files(Choice { sets: vec!["t".into()], ..Choice::default() }).unwrap_err().contains("`t`"));
        let missing = || files(Choice { missing: true, ..Choice::default() }).unwrap();
        assert_eq!(missing(), ["s-one.json", "s-two.json"]);
        let mut done = report(&[("make:4:16", &[("eevdf", 1.0)])]);
        done.command_line = command::line(sets.comparison("s-one.json").unwrap());
        let text = serde_json::to_string(&done).unwrap();
        std::fs::write(folder.path().join("results/s-one.json"), text).unwrap();
        assert_eq!(missing(), ["s-two.json"]);
    }
}
