//! Tasks that only compute, each for the same time.
use super::team::Team;
use super::{Child, Program, Step, View, Workload, World};
use crate::core::Footprint;
use crate::engine::Ns;
use flsched_spec::workload::Hogs;

impl Workload for Hogs {
    fn main(&self, _world: &mut World) -> Box<dyn Program> {
        let (own_bytes, memory_mb_per_s) = (self.kib << 10, self.mb_per_s);
        let footprint = Footprint { own_bytes, memory_mb_per_s, ..Footprint::default() };
        let left = Some(self.ms * 1_000_000);
        let hog = move |_| Child { footprint, ..Child::process("hog", Hog { left }) };
        Box::new(Team::new((0..self.tasks).map(hog), Vec::new))
    }
}

struct Hog {
    left: Option<Ns>,
}

impl Program for Hog {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        self.left.take().map_or(Step::Exit, Step::Run)
    }
}
