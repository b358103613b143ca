//! A parallel build: `make` starts a number of compilers at a time. Each is a driver that starts the
//! compiler proper, waits for it, starts the assembler and waits for that. Most tasks exist for
//! milliseconds only.
use super::{Child, Mark, Program, Step, View, Workload, World};
use crate::engine::Ns;
use flsched_spec::workload::Make;
use rand::RngExt;

/// What the driver does itself before, between and after its children, each. Measured, as the next two, with
/// gcc 12.2 on the files of `compare`'s workload of this name and an AMD EPYC: CPU time of 15 runs.
const DRIVER_NS: Ns = 1_200_000;
/// The compiler proper: from, and to at most.
const COMPILER_NS: (Ns, Ns) = (25_000_000, 30_000_000);
/// The assembler.
const ASSEMBLER_NS: Ns = 3_000_000;
/// What make does for each file: estimated.
const MAKE_NS: Ns = 200_000;

impl Workload for Make {
    fn main(&self, _world: &mut World) -> Box<dyn Program> {
        Box::new(Main { make: *self, started: 0, phase: Phase::Start })
    }
}

enum Phase {
    Start,
    Slot,
    Think,
    Fork,
    Stop,
    Gone,
}

struct Main {
    make: Make,
    started: u64,
    phase: Phase,
}

impl Program for Main {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        match self.phase {
            Phase::Start => {
                self.phase = Phase::Slot;
                Step::Mark(Mark::Start)
            }
            Phase::Slot if self.started == self.make.files => {
                self.phase = Phase::Stop;
                Step::WaitChildren { at_most: 0 }
            }
            Phase::Slot => {
                self.phase = Phase::Think;
                Step::WaitChildren { at_most: self.make.jobs as usize - 1 }
            }
            Phase::Think => {
                self.phase = Phase::Fork;
                Step::Run(MAKE_NS)
            }
            Phase::Fork => {
                self.phase = Phase::Slot;
                self.started += 1;
                Step::fork(Child::process("gcc", Driver { at: 0 }))
            }
            Phase::Stop => {
                self.phase = Phase::Gone;
                Step::Mark(Mark::Stop)
            }
            Phase::Gone => Step::Exit,
        }
    }
}

struct Driver {
    at: u8,
}

impl Program for Driver {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        self.at += 1;
        match self.at {
            1 | 4 | 7 => Step::Run(DRIVER_NS),
            2 => {
                let (least, most) = COMPILER_NS;
                let work = view.random.random_range(least..most);
                Step::fork(Child::process("cc1", Work { left: Some(work) }))
            }
            5 => Step::fork(Child::process("as", Work { left: Some(ASSEMBLER_NS) })),
            3 | 6 => Step::WaitChildren { at_most: 0 },
            _ => Step::Exit,
        }
    }
}

struct Work {
    left: Option<Ns>,
}

impl Program for Work {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        self.left.take().map_or(Step::Exit, Step::Run)
    }
}
