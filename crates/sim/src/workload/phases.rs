//! OpenMP-style programs: a team of threads goes from parallel loop to parallel loop, with a barrier after
//! each, and waits there as its runtime does.
use super::parameters::Parameters;
use super::team::Team;
use super::{BarrierId, Child, Program, Step, View, Wait, World};
use crate::Error;
use crate::engine::Ns;
use std::fmt;
use std::rc::Rc;

/// Ways to wait by name. `libomp`: LLVM's and Intel's runtime looks and yields, and sleeps after 200 ms
/// (`KMP_BLOCKTIME`).
pub(super) const WAITS: [&str; 4] = ["libomp", "spin", "yield", "futex"];

/// One of [`WAITS`].
pub(super) fn wait_named(name: &str) -> Wait {
    Wait::named(name).unwrap_or(Wait { block_after: Some(200_000_000), ..Wait::YIELD })
}

/// Parallel loops that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    /// How many.
    pub(super) loops: u64,
    /// Pieces that a loop's work can be divided into; threads beyond have none.
    pub(super) pieces: u64,
    /// How long a piece takes on one CPU.
    pub(super) piece_ns: Ns,
}

/// A program of stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) threads: u64,
    /// How often the stages follow each other.
    pub(super) steps: u64,
    pub(super) stages: Vec<Stage>,
    /// A thread's share of a loop is this many percent longer or shorter at most, drawn anew each time.
    pub(super) imbalance_percent: u64,
    pub(super) wait: Wait,
}

impl Plan {
    pub(super) fn main(self, world: &mut World) -> Box<dyn Program> {
        let barrier = world.add_barrier(self.threads);
        let plan = Rc::new(self);
        let thread = |id| {
            let thread =
                Thread { plan: Rc::clone(&plan), id, barrier, step: 0, stage: 0, looped: 0, worked: false };
            Child::thread(plan.name, thread)
        };
        Box::new(Team::new((0..plan.threads).map(thread).collect::<Vec<_>>(), Vec::new))
    }

    /// A static schedule: the first threads have a piece more where they do not divide evenly.
    fn pieces_of(&self, stage: &Stage, thread: u64) -> u64 {
        stage.pieces / self.threads + u64::from(thread < stage.pieces % self.threads)
    }
}

struct Thread {
    plan: Rc<Plan>,
    id: u64,
    barrier: BarrierId,
    step: u64,
    stage: usize,
    looped: u64,
    worked: bool,
}

impl Program for Thread {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        let plan = Rc::clone(&self.plan);
        loop {
            if self.step == plan.steps {
                return Step::Exit;
            }
            let Some(stage) = plan.stages.get(self.stage) else {
                self.stage = 0;
                self.step += 1;
                continue;
            };
            if self.looped == stage.loops {
                self.looped = 0;
                self.stage += 1;
                continue;
            }
            if self.worked {
                self.worked = false;
                self.looped += 1;
                return Step::Meet(self.barrier, plan.wait);
            }
            self.worked = true;
            let work = plan.pieces_of(stage, self.id) * stage.piece_ns;
            let most = work / 100 * plan.imbalance_percent;
            return Step::Run(work - most + view.random.below(2 * most + 1));
        }
    }
}

/// `phases:THREADS:PHASES:WORK_US:IMBALANCE:WAIT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Threads of the team.
    pub threads: u64,
    /// Parallel loops with a barrier each.
    pub phases: u64,
    /// How long a thread works in each, in µs.
    pub work_us: u64,
    /// By how much that differs at most, in percent.
    pub imbalance_percent: u64,
    /// How they wait: one of `WAITS`.
    pub wait: &'static str,
}

impl Phases {
    pub(super) fn parse(parameters: &mut Parameters<'_>) -> Result<Self, Error> {
        Ok(Self {
            threads: parameters.number("THREADS", 32, 1..=65_536)?,
            phases: parameters.number("PHASES", 50, 1..=10_000_000)?,
            work_us: parameters.number("WORK_US", 125, 0..=10_000_000)?,
            imbalance_percent: parameters.number("IMBALANCE", 10, 0..=100)?,
            wait: parameters.choice("way to wait", &WAITS)?,
        })
    }

    pub(super) fn main(&self, world: &mut World) -> Box<dyn Program> {
        let stage = Stage { loops: self.phases, pieces: self.threads, piece_ns: self.work_us * 1000 };
        let plan = Plan {
            name: "phases",
            threads: self.threads,
            steps: 1,
            stages: vec![stage],
            imbalance_percent: self.imbalance_percent,
            wait: wait_named(self.wait),
        };
        plan.main(world)
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, phases, work_us, imbalance_percent, wait } = self;
        write!(out, "phases:{threads}:{phases}:{work_us}:{imbalance_percent}:{wait}")
    }
}
