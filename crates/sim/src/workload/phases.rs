//! OpenMP-style programs: a team of threads goes from parallel loop to parallel loop, with a barrier after
//! each, and waits there as its runtime does.
use super::team::Team;
use super::{BarrierId, Child, Mark, Program, Step, View, Wait, Workload, World};
use crate::engine::Ns;
use flsched_spec::workload::{Phases, WaitStyle};
use rand::RngExt;
use std::collections::VecDeque;
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

/// When the measured part begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Before the first thread is made, and when the last one has ended.
    Team,
    /// When all threads exist and have done this many further steps; at the last barrier. Thread 0 reads the
    /// clock, while the others wait for it.
    Thread0 { untimed_steps: u64 },
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
    pub(super) clock: Clock,
}

impl Plan {
    pub(super) fn main(self, world: &mut World) -> Box<dyn Program> {
        let barrier = world.add_barrier(self.threads);
        let plan = Rc::new(self);
        let thread = |id| Child::thread(plan.name, Thread::new(&plan, id, barrier));
        let team = Team::new((0..plan.threads).map(thread).collect::<Vec<_>>(), Vec::new);
        Box::new(match plan.clock {
            Clock::Team => team,
            Clock::Thread0 { .. } => team.untimed(),
        })
    }

    /// Steps that are done, the untimed ones included.
    fn all_steps(&self) -> u64 {
        match self.clock {
            Clock::Team => self.steps,
            Clock::Thread0 { untimed_steps } => untimed_steps + self.steps,
        }
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
    /// What it does before it goes on.
    first: VecDeque<Step>,
}

impl Thread {
    fn new(plan: &Rc<Plan>, id: u64, barrier: BarrierId) -> Self {
        let plan = Rc::clone(plan);
        let first = VecDeque::new();
        let mut thread = Self { plan, id, barrier, step: 0, stage: 0, looped: 0, worked: false, first };
        if let Clock::Thread0 { .. } = thread.plan.clock {
            thread.first.push_back(thread.meet());
        }
        thread.read_clock();
        thread
    }

    fn meet(&self) -> Step {
        Step::Meet(self.barrier, self.plan.wait)
    }

    /// Between two steps: whether the measured part begins or ends here.
    fn read_clock(&mut self) {
        let Clock::Thread0 { untimed_steps } = self.plan.clock else { return };
        let begins = self.step == untimed_steps;
        if self.id == 0 && begins {
            self.first.push_back(Step::Mark(Mark::Start));
        }
        if self.id == 0 && self.step == self.plan.all_steps() {
            self.first.push_back(Step::Mark(Mark::Stop));
        }
        if begins {
            self.first.push_back(self.meet());
        }
    }
}

impl Program for Thread {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        let plan = Rc::clone(&self.plan);
        loop {
            if let Some(step) = self.first.pop_front() {
                return step;
            }
            if self.step == plan.all_steps() {
                return Step::Exit;
            }
            let Some(stage) = plan.stages.get(self.stage) else {
                self.stage = 0;
                self.step += 1;
                self.read_clock();
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
                return self.meet();
            }
            self.worked = true;
            let work = plan.pieces_of(stage, self.id) * stage.piece_ns;
            let most = work / 100 * plan.imbalance_percent;
            return Step::Run(view.random.random_range(work - most..=work + most));
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
            clock: Clock::Team,
        };
        plan.main(world)
    }
}
