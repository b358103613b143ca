//! OpenMP-style programs: a team of threads goes from parallel loop to parallel loop, with a barrier after
//! each, and waits there as its runtime does.
use super::team::Team;
use super::{BarrierId, Child, Program, Step, View, Wait, Workload, World};
use crate::engine::Ns;
use flsched_spec::workload::{Phases, WaitStyle};
use std::rc::Rc;

/// The waiting of OpenMP's runtimes.
pub(super) fn wait_of(style: WaitStyle) -> Wait {
    match style {
        WaitStyle::Libomp => Wait { block_after: Some(200_000_000), ..Wait::YIELD },
        WaitStyle::Spin => Wait::SPIN,
        WaitStyle::Yield => Wait::YIELD,
        WaitStyle::Futex => Wait::BLOCK,
    }
}

/// Parallel loops that are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    /// The number of loops.
    pub(super) loops: u64,
    /// Pieces that a loop's work can be divided into; further threads have no work.
    pub(super) pieces: u64,
    /// How long a piece takes on one CPU.
    pub(super) piece_ns: Ns,
}

/// A program of stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    pub(super) threads: u64,
    /// How often the sequence of stages is repeated.
    pub(super) steps: u64,
    pub(super) stages: Vec<Stage>,
    /// A thread's share of a loop is this many percent longer or shorter at most, drawn each time.
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

    /// A static schedule: the first threads have one piece more if they do not divide evenly.
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

impl Workload for Phases {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let stage = Stage { loops: self.phases, pieces: self.threads, piece_ns: self.work_us * 1000 };
        let plan = Plan {
            name: "phases",
            threads: self.threads,
            steps: 1,
            stages: vec![stage],
            imbalance_percent: self.imbalance_percent,
            wait: wait_of(self.wait),
        };
        plan.main(world)
    }
}
