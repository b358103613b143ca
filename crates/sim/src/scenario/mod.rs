//! A scenario: a machine, a scheduler, tasks step by step, and changes from outside, as a TOML file
//! that can be replayed. Fuzzing draws scenarios, and shrinks those that fail.
mod campaign;
mod draw;
mod event;
mod judge;
mod play;
mod seeds;
mod shrink;

pub use campaign::{Finding, fuzz};
pub use draw::draw;
pub use event::{Happening, What};
pub use seeds::Seeds;
pub use shrink::shrink;
pub(crate) use shrink::thin_out;

use play::Play;

use crate::engine::Ns;
use crate::output::Outcome;
use crate::rules::{Held, Rule};
use crate::run::TaskCounts;
use crate::schedulers::keeps_cpus_busy;
use crate::workload::{self, Act, BarrierPlan, TaskPlan, Tasks, Workload};
use crate::{Error, Setup, Simulation};
use flsched_machine::{CpuId, Machine, Setting};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use toml_edit::Item;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Of all that is drawn during the run.
    pub seed: u64,
    /// As for `flsched sim --machine`.
    pub machine: String,
    /// As for `flsched sim --cpus`.
    pub cpus: usize,
    /// As for `flsched sim --scheduler`.
    pub scheduler: String,
    /// When it counts as hung, in simulated ms.
    pub limit_ms: u64,
    /// How long after a tick it begins, in µs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub begin_us: u64,
    /// When it ends, in simulated ms, even if tasks are not done; 0: when they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub end_ms: u64,
    /// When the policy is attached, in µs from the beginning; 0: before that. Until then `eevdf` runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attach_us: u64,
    /// As for `flsched sim --workload`, in place of tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// So many tasks work at a time; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Where tasks wait for each other, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub barriers: BTreeMap<String, BarrierPlan>,
    /// Sets of CPUs, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpusets: BTreeMap<String, Vec<CpuId>>,
    /// Rules that the scheduler must keep; to break one is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// By number, from 1; sorted by when they start.
    #[serde(default, rename = "task")]
    pub tasks: Vec<TaskPlan>,
    /// What is done to the run from outside.
    #[serde(default, rename = "event")]
    pub events: Vec<Happening>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(us: &u64) -> bool {
    *us == 0
}

/// So that bad states are seen soon after they arise.
const CHECK_EVERY_NS: u64 = 2_000_000;
/// Many times what the largest that is drawn needs.
const MOST_EVENTS: u64 = 10_000_000;
const MOST_MS: u64 = 1_000_000_000;

impl Scenario {
    pub fn read(path: &str) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|cause| Error::File { path: path.to_owned(), cause })?;
        Self::parse(&text, path)
    }

    /// Reads a file's text; `path` is for messages.
    pub fn parse(text: &str, path: &str) -> Result<Self, Error> {
        let scenario: Self = toml::from_str(text).map_err(|e| Error::Usage(format!("{path}: {e}")))?;
        scenario.check().map_err(|what| Error::Usage(format!("{path}: {what}")))?;
        Ok(scenario)
    }

    pub fn to_toml(&self) -> Result<String, Error> {
        let document = toml_edit::ser::to_document(self);
        let mut document =
            document.map_err(|e| Error::Usage(format!("the scenario cannot be written: {e}")))?;
        // Each task and each event is a section, each step stays in its line.
        for (_, item) in document.iter_mut() {
            *item =
                std::mem::take(item).into_array_of_tables().map_or_else(|value| value, Item::ArrayOfTables);
        }
        Ok(document.to_string())
    }

    /// Checks that the file's form alone does not imply.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=MOST_MS).contains(&self.limit_ms) {
            return Err(format!("limit_ms: {} is not from 1 to {MOST_MS}", self.limit_ms));
        }
        for (name, us) in [("begin_us", self.begin_us), ("attach_us", self.attach_us)] {
            if us > MOST_MS * 1000 {
                return Err(format!("{name}: {us} is more than {}", MOST_MS * 1000));
            }
        }
        if self.end_ms > self.limit_ms {
            return Err(format!("end_ms: {} is more than limit_ms, {}", self.end_ms, self.limit_ms));
        }
        if self.workload.is_some() && !self.tasks.is_empty() {
            return Err("it has both a workload and tasks: one of them is needed".into());
        }
        self.check_cpusets()?;
        let plan = self.plan();
        plan.check()?;
        for (index, task) in self.tasks.iter().enumerate() {
            let name = format!("task {}", index + 1);
            self.check_cpus(&task.cpus, &name)?;
            for act in &task.steps {
                if let Act::Pin(cpu) = act {
                    self.check_cpus(&[*cpu], &name)?;
                }
            }
        }
        self.check_events(plan.count())
    }

    /// Its tasks, as a file of their own would have them.
    fn plan(&self) -> Tasks {
        let placed = |task: &TaskPlan| TaskPlan { cpus: self.first_cpus(task), ..task.clone() };
        let tasks = self.tasks.iter().map(placed).collect();
        Tasks { jobs: self.jobs, barriers: self.barriers.clone(), tasks }
    }

    pub fn run(&self) -> Result<Outcome, Error> {
        self.simulation()?.run()
    }

    /// Runs it, and returns what each task did; the first one forked those of the scenario.
    pub fn run_counted(&self) -> Result<(Outcome, Vec<TaskCounts>), Error> {
        self.simulation()?.run_counted()
    }

    /// Ready to run.
    pub fn simulation(&self) -> Result<Simulation, Error> {
        self.simulation_with(&[])
    }

    /// The same with other values in the machine's file.
    pub fn simulation_with(&self, settings: &[Setting]) -> Result<Simulation, Error> {
        self.check().map_err(Error::Usage)?;
        let machine = Machine::find_with(&self.machine, settings)?.with_cpus(self.cpus)?;
        let scheduler = self.scheduler()?;
        let must_keep_cpus_busy = keeps_cpus_busy(&scheduler);
        let mut simulation = Simulation::new(Setup {
            machine: Arc::new(machine),
            scheduler,
            workload: self.as_workload("the scenario")?,
            seed: self.seed,
            limit: Ns::MAX,
        })?;
        simulation.check_every(CHECK_EVERY_NS);
        // Those under rules are large, and end.
        if self.rules.is_empty() && self.end_ms == 0 {
            simulation.stop_after(MOST_EVENTS);
        }
        if !self.rules.is_empty() {
            let held = Held::of(&self.scheduler()?).to(self.rules.iter().copied());
            let watch = self.watch(&held, &simulation);
            simulation.must_keep_rules(watch);
        } else if must_keep_cpus_busy {
            simulation.must_keep_cpus_busy();
        }
        Ok(simulation)
    }

    /// For another scheduler, seed or machine; `path` is for messages.
    pub fn as_workload(&self, path: &str) -> Result<Arc<dyn Workload>, Error> {
        let tasks: Arc<dyn Workload> = match &self.workload {
            Some(workload) => workload::load(&Model::read(workload)?)?,
            None => {
                let label = format!("mix of {} tasks", self.tasks.len());
                Arc::new(Arc::new(self.plan().script(label, path)))
            }
        };
        Ok(Arc::new(Play { path: path.into(), scenario: self.clone(), tasks }))
    }

    /// The scheduler under test.
    pub fn scheduler(&self) -> Result<Scheduler, Error> {
        Ok(Scheduler::read(&self.scheduler, Target::Sim)?)
    }

    /// In one line.
    pub fn summary(&self) -> String {
        let Self { machine, cpus, scheduler, tasks, events, .. } = self;
        let steps: u64 = tasks.iter().map(|task| task.rounds * task.steps.len() as u64).sum();
        format!("{machine}/{cpus} {scheduler} tasks={} steps={steps} events={}", tasks.len(), events.len())
    }
}
