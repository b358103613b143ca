//! The program of the SCHED_RR2 paper, section 4: processes with some threads each, which work for a
//! fixed time on data that the threads of a process share. The result is how many operations they do.
use super::team::Team;
use super::{BarrierId, Child, Mark, Program, Step, View, Wait, Workload, World};
use crate::core::Footprint;
use crate::engine::Ns;
use flsched_spec::workload::CoThreads;
use std::cell::Cell;
use std::rc::Rc;

impl Workload for CoThreads {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let start = world.add_barrier(self.processes * self.threads);
        let done = Rc::new(Cell::new(0u64));
        let of = *self;
        let worker =
            Worker { of, start: Some(start), until: Rc::default(), working: false, done: Rc::clone(&done) };
        let leader = |_| Child {
            footprint: footprint(&of),
            ..Child::process("co-threads", Leader::new(worker.clone()))
        };
        let leaders: Vec<Child> = (0..self.processes).map(leader).collect();
        Box::new(Team::new(leaders, move || {
            let operations = done.get().max(1) as f64;
            let seconds = of.seconds as f64;
            vec![
                Step::Mark(Mark::Figure("operations_per_s", operations / seconds)),
                Step::Mark(Mark::Time(seconds / operations * 1e6)),
            ]
        }))
    }

    fn time_is(&self) -> Option<&'static str> {
        Some(Self::TIME_IS)
    }
}

fn footprint(of: &CoThreads) -> Footprint {
    Footprint { shared_bytes: of.bytes, lines_per_us: of.lines_per_us, ..Footprint::default() }
}

/// Creates its process's other threads, then works as they do.
struct Leader {
    to_make: u64,
    worker: Worker,
    is_done: bool,
}

impl Leader {
    fn new(worker: Worker) -> Self {
        Self { to_make: worker.of.threads - 1, worker, is_done: false }
    }
}

impl Program for Leader {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if self.to_make > 0 {
            self.to_make -= 1;
            let footprint = footprint(&self.worker.of);
            return Step::fork(Child { footprint, ..Child::thread("co-threads", self.worker.clone()) });
        }
        if self.is_done {
            return Step::Exit;
        }
        match self.worker.next(view) {
            Step::Exit => {
                self.is_done = true;
                Step::WaitChildren { at_most: 0 }
            }
            step => step,
        }
    }
}

#[derive(Clone)]
struct Worker {
    of: CoThreads,
    /// Where all sleep until the last one has come, so that all wake at once.
    start: Option<BarrierId>,
    /// When all threads stop, as in the real program: `seconds` after the first one runs. With a deadline of its own a
    /// thread that first runs late would go on after the others have ended.
    until: Rc<Cell<Option<Ns>>>,
    working: bool,
    done: Rc<Cell<u64>>,
}

impl Program for Worker {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if let Some(start) = self.start.take() {
            return Step::Meet(start, Wait::BLOCK);
        }
        let until = self.until.get().unwrap_or(view.now + self.of.seconds * 1_000_000_000);
        self.until.set(Some(until));
        if view.now >= until {
            return Step::Exit;
        }
        if std::mem::replace(&mut self.working, true) {
            self.done.set(self.done.get() + 1);
        }
        Step::Run(self.of.operation_us * 1000)
    }
}
