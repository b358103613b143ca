//! Threads that compute and then wait for each other, yielding while they wait.
use super::team::Team;
use super::work::STEP_NS;
use super::{BarrierId, Child, Program, Step, View, Wait, Workload, World};
use flsched_spec::workload::SpinBarrier;

impl Workload for SpinBarrier {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        // All meet once before the first round, as the real program's threads do before its time begins.
        let barrier = world.add_barrier(self.threads);
        let of = *self;
        let thread = move |_| Child::thread("spin-barrier", Thread { of, barrier, round: 0, worked: false });
        Box::new(Team::new((0..self.threads).map(thread), Vec::new))
    }
}

struct Thread {
    of: SpinBarrier,
    barrier: BarrierId,
    round: u64,
    worked: bool,
}

impl Program for Thread {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if self.round > self.of.iterations {
            return Step::Exit;
        }
        if self.round > 0 && !self.worked {
            self.worked = true;
            return Step::Run(self.of.work * STEP_NS);
        }
        self.worked = false;
        self.round += 1;
        match self.round {
            1 => Step::Meet(self.barrier, Wait::BLOCK),
            _ => Step::Meet(self.barrier, Wait::YIELD),
        }
    }
}
