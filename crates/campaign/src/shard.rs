//! What a shard has done: a file that is written while it runs, so that an interrupted shard goes on where it was.
use crate::{Error, Part, Plan};
use flsched_base::files::{create_folder, replace};
use flsched_base::reports::{self, Kept};
use flsched_compare::environment::Environment;
use flsched_compare::{Report, RunOutcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the shards' files in the campaign's folder.
const FOLDER: &str = "shards";

#[derive(Debug)]
pub struct Shard {
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    plan: String,
    /// By comparison: runs in the simulator.
    runs: BTreeMap<String, Runs>,
    /// By comparison: what was compared on this node.
    reports: BTreeMap<String, Report>,
}

impl Kept for Content {
    const KIND: &'static str = "campaign-shard";
    const VERSION: u32 = 2;
}

/// Runs of one comparison.
#[derive(Debug, Serialize, Deserialize)]
pub struct Runs {
    /// Where they were done.
    pub environment: Environment,
    /// By the run's number from 0.
    pub outcomes: BTreeMap<usize, RunOutcome>,
}

impl Shard {
    /// The results so far.
    pub fn open(folder: &Path, plan: &Plan, shard: u32) -> Result<Self, Error> {
        let path = folder.join(FOLDER).join(format!("{shard:05}.json"));
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let content =
                    Content { plan: plan.digest(), runs: BTreeMap::new(), reports: BTreeMap::new() };
                return Ok(Self { path, content });
            }
            Err(error) => return Err(Error::file(&path)(error)),
        };
        let content: Content = reports::read(&bytes).map_err(|what| {
            Error::wrong(
                &path,
                format!("not a shard's results ({what}): remove the file and run the shard again"),
            )
        })?;
        if content.plan != plan.digest() {
            return Err(Error::wrong(
                &path,
                "belongs to another plan: remove the file and run the shard again",
            ));
        }
        Ok(Self { path, content })
    }

    pub fn write(&self) -> Result<(), Error> {
        if let Some(folder) = self.path.parent() {
            create_folder(folder).map_err(Error::file(folder))?;
        }
        let bytes = reports::bytes(&self.content);
        bytes.and_then(|bytes| replace(&self.path, &bytes)).map_err(Error::file(&self.path))
    }

    /// Keeps a run of the simulator.
    pub fn add(&mut self, comparison: &str, environment: &Environment, run: usize, outcome: RunOutcome) {
        let runs = self.content.runs.entry(comparison.to_owned());
        let runs =
            runs.or_insert_with(|| Runs { environment: environment.clone(), outcomes: BTreeMap::new() });
        runs.outcomes.insert(run, outcome);
    }

    /// Keeps the report of a whole comparison.
    pub fn add_report(&mut self, comparison: &str, report: Report) {
        self.content.reports.insert(comparison.to_owned(), report);
    }

    /// Whether this run is done.
    pub fn has(&self, comparison: &str, run: usize) -> bool {
        self.content.runs.get(comparison).is_some_and(|runs| runs.outcomes.contains_key(&run))
    }

    /// Whether all of these parts are done.
    pub fn is_complete(&self, parts: &[Part<'_>]) -> bool {
        parts.iter().all(|part| match part {
            Part::Runs(of, runs) => runs.iter().all(|run| self.has(&of.name, *run)),
            Part::Whole(of) => self.content.reports.get(&of.name).is_some_and(|report| report.complete),
        })
    }

    /// The results: runs and reports by comparison.
    pub fn into_results(self) -> (BTreeMap<String, Runs>, BTreeMap<String, Report>) {
        (self.content.runs, self.content.reports)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use flsched_compare::execute::Ending;

    fn outcome(time_s: f64) -> RunOutcome {
        RunOutcome::without_measurement(Ending::Timed { time_s })
    }

    #[test]
    fn a_shard_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(2);
        let mut shard = Shard::open(folder.path(), &plan, 1).unwrap();
        assert!(!shard.is_complete(&plan.parts(1)));
        // Not every number can be written with few digits.
        let time_s = 0.1 + 0.2;
        for part in plan.parts(1) {
            let Part::Runs(of, runs) = part else { panic!("{part:?}") };
            runs.iter().for_each(|run| shard.add(&of.name, &Environment::default(), *run, outcome(time_s)));
        }
        shard.write().unwrap();
        let again = Shard::open(folder.path(), &plan, 1).unwrap();
        assert!(again.is_complete(&plan.parts(1)) && !again.is_complete(&plan.parts(2)));
        let (runs, _) = again.into_results();
        assert_eq!(runs["a"].outcomes[&0].time_s(), Some(time_s));
    }

    /// As flsched 0.1.0 wrote them: without a kind, and with each time at a frequency in full.
    #[test]
    fn shards_of_version_1_are_read_beside_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(2);
        let mut shard = Shard::open(folder.path(), &plan, 1).unwrap();
        shard.add("a", &Environment::default(), 0, outcome(0.1 + 0.2));
        shard.add("a", &Environment::default(), 1, outcome(2.0));
        shard.write().unwrap();
        let mut old = serde_json::to_value(&shard.content).unwrap();
        let times =
            serde_json::json!([{ "cpu": 1, "mhz": 1200, "s": 0.5 }, { "cpu": 0, "mhz": 1200, "s": 0.25 }]);
        old["runs"]["a"]["outcomes"]["0"]["residency"] =
            serde_json::json!({ "source": "model", "times": times });
        std::fs::write(folder.path().join("shards/00001.json"), old.to_string()).unwrap();
        let again = Shard::open(folder.path(), &plan, 1).unwrap();
        again.write().unwrap();
        for shard in [again, Shard::open(folder.path(), &plan, 1).unwrap()] {
            let (runs, _) = shard.into_results();
            let outcome = &runs["a"].outcomes[&0];
            assert_eq!(outcome.time_s(), Some(0.1 + 0.2));
            assert_eq!(outcome.residency.as_ref().unwrap().all_s[&1200], 0.75);
        }
    }

    #[test]
    fn other_plans_and_broken_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        Shard::open(folder.path(), &plan(2), 1).unwrap().write().unwrap();
        let error = crate::usage(&Shard::open(folder.path(), &plan(3), 1).unwrap_err());
        assert!(error.contains("00001.json") && error.contains("another plan"), "{error}");
        std::fs::write(folder.path().join("shards/00001.json"), "{").unwrap();
        let error = crate::usage(&Shard::open(folder.path(), &plan(2), 1).unwrap_err());
        assert!(error.contains("remove the file"), "{error}");
        let newer = r#"{ "kind": "campaign-shard", "version": 99 }"#;
        std::fs::write(folder.path().join("shards/00001.json"), newer).unwrap();
        let error = crate::usage(&Shard::open(folder.path(), &plan(2), 1).unwrap_err());
        assert!(error.contains("version 99") && error.contains("remove the file"), "{error}");
    }
}
