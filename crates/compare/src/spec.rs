//! What is compared: parsed from the user's words, and checked.
use crate::clock::Clock;
use crate::workload::{self, BuildError, Making};
use crate::{Contender, Target, Workload};
use flsched_spec::UsageError;
use flsched_vm::Arch;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct CompareSpec {
    /// The first is the one that the others are compared with.
    pub schedulers: Vec<Contender>,
    /// Each is run under each scheduler.
    pub workloads: Vec<Workload>,
    /// Those that cannot be run here, by index, and why: the rest is compared.
    pub unable: BTreeMap<usize, String>,
    /// Timed runs of each workload under each scheduler.
    pub runs: u32,
    /// The seed of the order of runs.
    pub seed: u64,
    /// The time after which a run counts as hung.
    pub limit: Duration,
    /// Where the runs are done.
    pub on: Target,
    pub clock: Clock,
    /// Whether to break down by cause the CPU time of one more run of each.
    pub why: bool,
    /// Whether to record what runs where in one more run of each.
    pub timeline: bool,
    /// The command line as typed, for the report.
    pub command_line: Vec<String>,
}

impl CompareSpec {
    pub const SCHEDULERS: [&str; 5] = ["eevdf", "batch", "fifo", "rr", "flsched"];
    /// The default on the machine itself, where all users' tasks run under them: without the real-time classes.
    pub const ON_HOST: &str = "eevdf,batch,flsched";
    pub const WORKLOADS: [&str; 2] = ["hackbench", "spin-barrier"];
    /// The default number of runs.
    pub const RUNS: u32 = 5;

    /// Reads names as the user gave them; `further` workloads have none. Sizes that are left out fit a
    /// machine with this number of CPUs. All other fields are public and have their defaults.
    pub fn new(
        schedulers: &[String],
        workloads: &[String],
        cpus: u32,
        further: Vec<Workload>,
    ) -> Result<Self, UsageError> {
        let default_workloads: &[&str] = if further.is_empty() { &Self::WORKLOADS } else { &[] };
        let workloads = or_default(workloads, default_workloads);
        let workloads = all_different(&workloads, Target::Vm, cpus, further)?;
        let schedulers = Contender::parse_list(&or_default(schedulers, &Self::SCHEDULERS), Target::Vm)?;
        Ok(Self::with_defaults(schedulers, workloads, Target::Vm, Clock::Parallel))
    }

    /// The same for the simulator: its schedulers and workloads. Files that workloads name are not read yet.
    pub fn simulated(schedulers: &[String], workloads: &[String]) -> Result<Self, UsageError> {
        let workloads = or_default(workloads, &Self::WORKLOADS);
        let workloads = all_different(&workloads, Target::Sim, 0, Vec::new())?;
        let schedulers = Contender::parse_list(&or_default(schedulers, &Self::SCHEDULERS), Target::Sim)?;
        Ok(Self::with_defaults(schedulers, workloads, Target::Sim, Clock::Model))
    }

    fn with_defaults(schedulers: Vec<Contender>, workloads: Vec<Workload>, on: Target, clock: Clock) -> Self {
        Self {
            schedulers,
            workloads,
            unable: BTreeMap::new(),
            runs: Self::RUNS,
            seed: rand::random::<u32>().into(),
            limit: Duration::from_secs(300),
            on,
            clock,
            why: false,
            timeline: false,
            command_line: Vec::new(),
        }
    }

    /// Builds the programs that workloads need as source: before [`compare()`](crate::compare()),
    /// on the machine with the compiler, for the processor that they run on. Those that this machine lacks are noted in
    /// `unable`, unless none is left.
    pub fn build(&mut self, arch: Arch, making: &Making<'_>) -> Result<(), BuildError> {
        for index in 0..self.workloads.len() {
            match workload::build(&mut self.workloads[index], arch, making) {
                Ok(()) => {}
                Err(error) if error.is_of_one() && self.unable.len() + 1 < self.workloads.len() => {
                    self.unable.insert(index, error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The workloads that can be run here.
    pub fn able(&self) -> impl Iterator<Item = &Workload> {
        let all = self.workloads.iter().enumerate();
        all.filter(|(index, _)| !self.unable.contains_key(index)).map(|(_, workload)| workload)
    }

    /// Checks whether the settings fit together.
    pub fn check(&self) -> Result<(), UsageError> {
        let wrong = |message: &str| Err(UsageError(message.into()));
        if self.runs == 0 {
            return wrong("--runs: at least 1");
        }
        if self.limit.is_zero() {
            return wrong("the time limit of a run must be more than 0 seconds");
        }
        if self.on == Target::Host && matches!(self.clock, Clock::Parallel | Clock::Work) {
            let clock = self.clock;
            return wrong(&format!("--clock {clock} needs an emulated machine: use it with --on vm"));
        }
        if self.why && self.on == Target::Sim {
            return wrong("--why: not with --on sim, whose CPUs have no kernel to watch; use --on vm");
        }
        if self.why && self.clock == Clock::Work {
            return wrong(
                "--why: not with --clock work, where the CPUs take turns and none is ever idle for long; use \
                 --clock parallel",
            );
        }
        if self.timeline && self.clock == Clock::Work {
            return wrong(
                "--timeline: not with --clock work, where the CPUs take turns; use --clock parallel",
            );
        }
        if (self.on == Target::Sim) != (self.clock == Clock::Model) {
            return wrong("the simulator has a clock of its own, which exists only there");
        }
        Ok(())
    }
}

fn or_default(given: &[String], default: &[&str]) -> Vec<String> {
    match given.is_empty() {
        true => default.iter().map(|name| name.to_string()).collect(),
        false => given.to_vec(),
    }
}

/// All workloads that these words name, and the `further` ones.
fn all_different(
    words: &[String],
    target: Target,
    cpus: u32,
    further: Vec<Workload>,
) -> Result<Vec<Workload>, UsageError> {
    let mut all: Vec<Workload> = Vec::new();
    for word in words {
        all.extend(Workload::read_all(word, target, cpus)?);
    }
    all.extend(further);
    for (index, workload) in all.iter().enumerate() {
        if all[..index].contains(workload) {
            return Err(UsageError(format!("workload `{workload}` is named twice")));
        }
    }
    Ok(all)
}
