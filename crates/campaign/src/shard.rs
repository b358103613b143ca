//! What a shard has done: a file that is written while it runs, so that an interrupted shard goes on where it was.
use crate::{Error, Part, Plan};
use flsched_base::files::{create_folder, replace};
use flsched_base::reports::{self, Kept};
use flsched_compare::environment::Environment;
use flsched_compare::{Report, RunOutcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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

impl Content {
    /// `None`: there is no file.
    fn read(path: &Path, plan: &str) -> Result<Option<Self>, Error> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file(path)(error)),
        };
        let content: Self = reports::read(&bytes).map_err(|what| {
            Error::wrong(
                path,
                format!("not a shard's results ({what}): remove the file and run the shard again"),
            )
        })?;
        if content.plan != plan {
            return Err(Error::wrong(
                path,
                "belongs to another plan: remove the file and run the shard again",
            ));
        }
        Ok(Some(content))
    }

    /// Adds what is stored, which takes precedence where both are complete. Whether it lacked anything.
    fn unite(&mut self, stored: Self) -> bool {
        let mut lacks = false;
        for (comparison, ours) in &self.runs {
            let theirs = stored.runs.get(comparison);
            lacks |= ours.outcomes.keys().any(|run| !theirs.is_some_and(|it| it.outcomes.contains_key(run)));
        }
        for (comparison, ours) in &self.reports {
            let theirs = stored.reports.get(comparison);
            lacks |= theirs.is_none_or(|theirs| ours.complete && !theirs.complete);
        }
        for (comparison, theirs) in stored.runs {
            match self.runs.entry(comparison) {
                Entry::Vacant(place) => drop(place.insert(theirs)),
                Entry::Occupied(mut ours) => ours.get_mut().outcomes.extend(theirs.outcomes),
            }
        }
        for (comparison, theirs) in stored.reports {
            if theirs.complete || !self.reports.contains_key(&comparison) {
                self.reports.insert(comparison, theirs);
            }
        }
        lacks
    }
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
        let plan = plan.digest();
        let content = Content::read(&path, &plan)?;
        let nothing = || Content { plan, runs: BTreeMap::new(), reports: BTreeMap::new() };
        Ok(Self { content: content.unwrap_or_else(nothing), path })
    }

    /// Stores the results, with those that another process has stored meanwhile: a user may have started the shard twice.
    pub fn write(&mut self) -> Result<(), Error> {
        let stored = Content::read(&self.path, &self.content.plan)?;
        if stored.is_some_and(|stored| !self.content.unite(stored)) {
            return Ok(());
        }
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
    use flsched_compare::Target;
    use flsched_compare::execute::Ending;
    use std::os::unix::fs::MetadataExt;

    fn outcome(time_s: f64) -> RunOutcome {
        RunOutcome::without_measurement(Ending::Timed { time_s })
    }

    fn report(complete: bool) -> Report {
        Report {
            flsched_version: String::new(),
            clock: flsched_compare::Clock::Wall,
            kernel: String::new(),
            cpus: 1,
            seed: 1,
            runs: 1,
            on: Target::Host,
            complete,
            started_at: String::new(),
            duration_s: 1.0,
            command_line: String::new(),
            limit_s: 1.0,
            warnings: Vec::new(),
            environment: Environment::default(),
            noise: BTreeMap::new(),
            published: BTreeMap::new(),
            results: Vec::new(),
            timelines: BTreeMap::new(),
        }
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

    #[test]
    fn two_processes_with_the_same_shard_lose_no_results() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(2);
        let open = || Shard::open(folder.path(), &plan, 1).unwrap();
        let (mut one, mut other) = (open(), open());
        let here = Environment::default();
        one.add("a", &here, 0, outcome(1.0));
        one.add_report("b", report(true));
        one.write().unwrap();
        other.add("a", &here, 2, outcome(2.0));
        other.add("c", &here, 1, outcome(3.0));
        other.add_report("b", report(false));
        other.write().unwrap();
        let all = open();
        assert!(all.has("a", 0) && all.has("a", 2) && all.has("c", 1));
        assert!(all.content.reports["b"].complete);
        // The first has nothing to add.
        let written = || std::fs::metadata(all.path()).unwrap().ino();
        let before = written();
        one.write().unwrap();
        assert_eq!(written(), before);
        assert!(one.has("c", 1));
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
        let mut again = Shard::open(folder.path(), &plan, 1).unwrap();
        again.add("a", &Environment::default(), 2, outcome(3.0));
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
