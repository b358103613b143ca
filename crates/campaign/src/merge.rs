//! From the runs of all shards to the report.
use crate::shard::Runs;
use crate::{Error, Plan, Shard};
use flsched_compare::environment::Environment;
use flsched_compare::{ExecError, Executor, Report, RunOutcome, RunRequest};
use std::collections::BTreeMap;
use std::path::Path;

/// All results of a campaign.
pub struct Results {
    /// By comparison: runs in the simulator.
    pub runs: BTreeMap<String, Runs>,
    /// By comparison: what was compared on a node.
    pub reports: BTreeMap<String, Report>,
    /// Shards that are not complete.
    pub missing: Vec<u32>,
}

impl Results {
    /// Reads the files of all shards.
    pub fn read(folder: &Path, plan: &Plan) -> Result<Self, Error> {
        let mut all = Self { runs: BTreeMap::new(), reports: BTreeMap::new(), missing: Vec::new() };
        for number in 1..=plan.count() {
            let shard = Shard::open(folder, plan, number)?;
            if !shard.is_complete(&plan.parts(number)) {
                all.missing.push(number);
                continue;
            }
            let path = shard.path().to_path_buf();
            let (runs, reports) = shard.into_results();
            all.reports.extend(reports);
            for (comparison, part) in runs {
                let known = all.runs.entry(comparison).or_insert_with(|| Runs {
                    environment: part.environment.clone(),
                    outcomes: BTreeMap::new(),
                });
                if known.environment != part.environment {
                    let message = "the simulated machine is not the one of the other shards: a file has changed \
                                   meanwhile; plan again in a new folder";
                    return Err(Error::wrong(&path, message));
                }
                known.outcomes.extend(part.outcomes);
            }
        }
        Ok(all)
    }
}

/// An executor whose runs have been done before.
pub struct Replay {
    environment: Environment,
    requests: Vec<RunRequest>,
    outcomes: BTreeMap<usize, RunOutcome>,
    next: usize,
}

impl Replay {
    /// `requests` are all runs of the comparison in their order.
    pub fn new(requests: Vec<RunRequest>, runs: Runs) -> Self {
        Self { environment: runs.environment, requests, outcomes: runs.outcomes, next: 0 }
    }
}

impl Executor for Replay {
    fn environment(&mut self) -> Result<Environment, ExecError> {
        Ok(self.environment.clone())
    }

    fn run(&mut self, request: &RunRequest) -> Result<RunOutcome, ExecError> {
        // A comparison asks in its order, but may leave runs out: those after runs that hung.
        let ahead = self.requests[self.next..].iter().position(|planned| planned == request);
        let run = self.next + ahead.ok_or_else(|| ExecError::Unable("a run that was not planned".into()))?;
        self.next = run + 1;
        let outcome = self.outcomes.remove(&run);
        outcome.ok_or_else(|| ExecError::Unable(format!("run {} is in no shard", run + 1)))
    }
}
