//! How a campaign's runs are divided: which runs each shard does, and by which program.
use crate::file::Campaign;
use crate::{Error, file};
use flsched_base::files::{create_folder, replace};
use flsched_base::reports::{self, Kept};
use flsched_compare::Target;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The plan's name in the campaign's folder.
const FILE: &str = "plan.json";
/// More runs than any campaign can do.
const MAX_RUNS: usize = 100_000_000;

/// A campaign that can be run. Every node reads the same plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of the program that made the plan.
    pub flsched_version: String,
    /// The digest of its executable file. Only this one may run the shards: another could schedule differently.
    pub program: String,
    /// The folder to which relative paths in the arguments belong.
    pub folder: PathBuf,
    /// Shards of the simulator's runs, if there are any.
    pub shards: u32,
    /// All comparisons, in the order of the file.
    pub comparisons: Vec<Planned>,
}

impl Kept for Plan {
    const KIND: &'static str = "campaign-plan";
    const VERSION: u32 = 2;
}

#[derive(Serialize)]
struct Identity<'a> {
    version: u32,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// A comparison of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The name of its report.
    pub name: String,
    /// What follows `flsched compare`.
    pub arguments: Vec<String>,
    pub on: Target,
    /// The number of its runs.
    pub runs: usize,
}

/// What a shard does for one comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<'a> {
    /// These runs in the simulator, by their number from 0.
    Runs(&'a Planned, Vec<usize>),
    /// The whole comparison, on this node.
    Whole(&'a Planned),
}

impl Planned {
    fn is_divided(&self) -> bool {
        self.on == Target::Sim
    }

    /// The command line that gives the same report on one machine.
    pub fn words(&self) -> Vec<String> {
        ["flsched", "compare"].into_iter().map(String::from).chain(self.arguments.iter().cloned()).collect()
    }
}

impl Plan {
    /// A plan for the program `program` and these comparisons. There are no more shards than runs to divide.
    pub fn new(campaign: &Campaign, comparisons: Vec<Planned>, folder: PathBuf, program: String) -> Self {
        let runs: usize = comparisons.iter().filter(|it| it.is_divided()).map(|it| it.runs).sum();
        let shards = campaign.shards.min(u32::try_from(runs).unwrap_or(file::MAX_SHARDS));
        let flsched_version = env!("CARGO_PKG_VERSION").to_owned();
        Self { flsched_version, program, folder, shards, comparisons }
    }

    /// Reads the plan in the campaign's folder.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let bytes = std::fs::read(&path).map_err(Error::file(&path))?;
        let checked = reports::read(&bytes).map_err(|what| what.to_string()).and_then(|plan: Self| {
            plan.check()?;
            Ok(plan)
        });
        checked
            .map_err(|what| Error::wrong(&path, format!("not a plan ({what}): plan again in a new folder")))
    }

    /// Refuses what no plan of ours has: somebody else may have written the file.
    fn check(&self) -> Result<(), String> {
        self.comparisons.iter().try_for_each(|it| file::check_name(&it.name))?;
        let runs = self
            .comparisons
            .iter()
            .filter(|it| it.is_divided())
            .try_fold(0, |sum: usize, it| sum.checked_add(it.runs).filter(|sum| *sum <= MAX_RUNS));
        let runs = runs.ok_or_else(|| format!("more than {MAX_RUNS} runs"))?;
        if self.shards > file::MAX_SHARDS || (self.shards == 0 && runs > 0) {
            return Err(format!("{} shards for {runs} runs", self.shards));
        }
        Ok(())
    }

    /// Writes it there. A folder that has another plan is refused, as its shards would be mixed with this plan's.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(FILE);
        if path.exists() && Self::read(folder).ok().as_ref() != Some(self) {
            let message = "there is another plan in this folder: use a new folder, or remove this one";
            return Err(Error::wrong(&path, message));
        }
        create_folder(folder).map_err(Error::file(folder))?;
        reports::bytes(self).and_then(|bytes| replace(&path, &bytes)).map_err(Error::file(&path))
    }

    /// Identifies the plan: equal plans have the same digest. It is that of the file as version 1 wrote it, so that shards of
    /// then still belong to their plan.
    pub fn digest(&self) -> String {
        let identity = Identity { version: 1, plan: self };
        let text = serde_json::to_string_pretty(&identity).expect("a plan has only texts and numbers");
        hexadecimal((text + "\n").as_bytes())
    }

    /// Refuses a program that did not make the plan.
    pub fn check_program(&self, program: &str) -> Result<(), String> {
        match self.program == program {
            true => Ok(()),
            false => Err(format!(
                "this program is not the one that made the plan (flsched {}, digest {}, here {}): use the same \
                 executable file on all nodes, or plan again in a new folder",
                self.flsched_version,
                short(&self.program),
                short(program)
            )),
        }
    }

    /// The number of shards: those of the simulator's runs come first, then one for each other comparison.
    pub fn count(&self) -> u32 {
        let whole = self.comparisons.iter().filter(|it| !it.is_divided()).count();
        self.shards + u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// Numbers of the shards whose comparison needs a node of its own.
    pub fn whole_shards(&self) -> std::ops::RangeInclusive<u32> {
        self.shards + 1..=self.count()
    }

    /// What the shard does, from 1 to [`Self::count`].
    pub fn parts(&self, shard: u32) -> Vec<Part<'_>> {
        if shard > self.shards {
            let index = (shard - self.shards - 1) as usize;
            let whole = self.comparisons.iter().filter(|it| !it.is_divided()).nth(index);
            return whole.map(Part::Whole).into_iter().collect();
        }
        let mut before = 0;
        let mut parts = Vec::new();
        for comparison in self.comparisons.iter().filter(|it| it.is_divided()) {
            // Every shard gets every nth run of all, so that long comparisons are spread evenly.
            let is_own = |run: &usize| (before + run) % self.shards as usize == (shard - 1) as usize;
            let runs: Vec<usize> = (0..comparison.runs).filter(is_own).collect();
            if !runs.is_empty() {
                parts.push(Part::Runs(comparison, runs));
            }
            before += comparison.runs;
        }
        parts
    }
}

/// The digest of an executable file.
pub fn digest_of(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(Error::file(path))?;
    Ok(hexadecimal(&bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    pub(crate) fn plan(shards: u32) -> Plan {
        let planned = |name: &str, on, runs| Planned { name: name.into(), arguments: vec![], on, runs };
        let comparisons =
            vec![planned("a", Target::Sim, 7), planned("b", Target::Host, 5), planned("c", Target::Sim, 4)];
        let campaign = Campaign { shards, comparisons: Vec::new() };
        Plan::new(&campaign, comparisons, "/project".into(), "abc".into())
    }

    #[test]
    fn each_run_is_in_one_shard() {
        for shards in [1, 2, 3, 11, 50] {
            let plan = plan(shards);
            assert_eq!(plan.shards, shards.min(11));
            assert_eq!(plan.count(), plan.shards + 1);
            let mut seen: BTreeMap<(&str, usize), u32> = BTreeMap::new();
            for shard in 1..=plan.count() {
                for part in plan.parts(shard) {
                    match part {
                        Part::Runs(of, runs) => {
                            runs.into_iter().for_each(|run| *seen.entry((&of.name, run)).or_default() += 1);
                        }
                        Part::Whole(of) => assert_eq!((of.name.as_str(), shard), ("b", plan.count())),
                    }
                }
            }
            assert_eq!(seen.len(), 11, "{shards}");
            assert!(seen.values().all(|times| *times == 1), "{seen:?}");
        }
    }

    #[test]
    fn a_folder_keeps_its_plan() {
        let folder = tempfile::tempdir().unwrap();
        plan(3).write(folder.path()).unwrap();
        plan(3).write(folder.path()).unwrap();
        assert_eq!(Plan::read(folder.path()).unwrap(), plan(3));
        let error = plan(4).write(folder.path()).unwrap_err();
        assert!(crate::usage(&error).contains("another plan"), "{error}");
        assert_ne!(plan(3).digest(), plan(4).digest());
    }

    /// Its shards name its digest.
    #[test]
    fn a_plan_of_version_1_keeps_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let old = r#"{
  "version": 1,
  "flsched_version": "0.1.0",
  "program": "abc",
  "folder": "/project",
  "shards": 3,
  "comparisons": [
    {
      "name": "b",
      "arguments": [],
      "on": "host",
      "runs": 5
    }
  ]
}
"#;
        std::fs::write(folder.path().join(FILE), old).unwrap();
        let plan = Plan::read(folder.path()).unwrap();
        assert_eq!(plan.digest(), hexadecimal(old.as_bytes()));
        plan.write(folder.path()).unwrap();
        let written = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(written.starts_with("{\n  \"kind\": \"campaign-plan\",\n  \"version\": 2,\n"), "{written}");
        assert_eq!(Plan::read(folder.path()).unwrap().digest(), plan.digest());
        std::fs::write(folder.path().join(FILE), old.replace("\"version\": 1", "\"version\": 2")).unwrap();
        let error = crate::usage(&Plan::read(folder.path()).unwrap_err());
        assert!(error.contains("has version 2") && error.contains("plan again"), "{error}");
    }

    #[test]
    fn what_no_plan_has_is_refused() {
        let refused = |change: &dyn Fn(&mut Plan)| {
            let folder = tempfile::tempdir().unwrap();
            let mut plan = plan(2);
            change(&mut plan);
            plan.write(folder.path()).unwrap();
            crate::usage(&Plan::read(folder.path()).unwrap_err())
        };
        let error = refused(&|plan| plan.comparisons[0].name = "../../etc/x".into());
        assert!(error.contains("`../../etc/x` names a report's file"), "{error}");
        assert!(refused(&|plan| plan.shards = 0).contains("0 shards for 11 runs"));
        assert!(refused(&|plan| plan.shards = u32::MAX).contains("4294967295 shards"));
        assert!(refused(&|plan| plan.comparisons[0].runs = usize::MAX).contains("more than 100000000 runs"));
    }

    #[test]
    fn another_program_is_refused() {
        assert!(plan(3).check_program("abc").is_ok());
        assert!(plan(3).check_program("abd").unwrap_err().contains("same executable file"));
    }
}
