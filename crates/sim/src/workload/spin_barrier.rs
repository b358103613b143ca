//! Threads that compute and then wait for each other, yielding while they wait.
use super::gate::{Gate, Passage};
use super::own_thread::{Calls, Memory};
use super::work::STEP_NS;
use super::{BarrierId, Child, Mark, Program, Step, View, Wait, Workload, World};
use crate::rest::{Detail, Preparation};
use flsched_spec::workload::SpinBarrier;
use std::cell::Cell;
use std::rc::Rc;

impl Workload for SpinBarrier {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let gate = Gate::new(world);
        let barrier = world.add_barrier(self.threads);
        let has_begun = Rc::new(Cell::new(false));
        let memory = Memory::new(world);
        let opening = gate.open(self.threads);
        let calls = memory.before_fork();
        Box::new(Main {
            of: *self,
            gate,
            memory,
            barrier,
            has_begun,
            is_loaded: false,
            calls,
            forked: 0,
            opening,
        })
    }
}

/// Starts the threads, and waits for them.
struct Main {
    of: SpinBarrier,
    gate: Gate,
    memory: Memory,
    barrier: BarrierId,
    has_begun: Rc<Cell<bool>>,
    is_loaded: bool,
    calls: Calls,
    forked: u64,
    opening: Passage,
}

impl Program for Main {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if !std::mem::replace(&mut self.is_loaded, true) {
            return Step::Rest(Detail::Prepare(Preparation::ExecOwn));
        }
        if self.forked < self.of.threads {
            if let Some(step) = self.calls.next() {
                return step;
            }
            self.forked += 1;
            self.calls = self.memory.before_fork();
            let thread = Thread {
                of: self.of,
                memory: self.memory,
                calls: self.memory.at_first(),
                passage: self.gate.pass(),
                barrier: self.barrier,
                has_begun: Rc::clone(&self.has_begun),
                round: 0,
                at: At::Work,
            };
            return Step::fork(Child { has_stack: true, ..Child::thread("spin-barrier", thread) });
        }
        if let Some(step) = self.opening.next() {
            return step;
        }
        match self.forked == self.of.threads {
            true => {
                self.forked += 1;
                Step::WaitChildren { at_most: 0 }
            }
            false => Step::Exit,
        }
    }
}

enum At {
    Work,
    Meeting,
    End,
}

struct Thread {
    of: SpinBarrier,
    memory: Memory,
    /// Of its beginning, and of its end.
    calls: Calls,
    passage: Passage,
    barrier: BarrierId,
    /// Whether one of them has passed the gate: the time begins with the first one and ends with the last.
    has_begun: Rc<Cell<bool>>,
    round: u64,
    at: At,
}

impl Program for Thread {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if let Some(step) = self.calls.next().or_else(|| self.passage.next()) {
            return step;
        }
        if !self.has_begun.replace(true) {
            return Step::Mark(Mark::Start);
        }
        match self.at {
            At::Work if self.round == self.of.iterations => {
                self.at = At::End;
                self.calls = self.memory.at_last();
                Step::Mark(Mark::Stop)
            }
            At::Work => {
                self.round += 1;
                self.at = At::Meeting;
                Step::Run(self.of.work * STEP_NS)
            }
            At::Meeting => {
                self.at = At::Work;
                Step::Meet(self.barrier, Wait::YIELD)
            }
            At::End => Step::Exit,
        }
    }
}
