//! The program of the SCHED_RR2 paper, section 4: processes with some threads each, that work for a fixed
//! time on data which the threads of a process share. What counts is how many operations they do.
use super::parameters::Parameters;
use super::team::Team;
use super::{Child, Program, Step, View};
use crate::Error;
use crate::core::Footprint;
use crate::engine::Ns;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// What its time is.
pub(super) const TIME_IS: &str = "time for an operation, all threads together";

/// `co-threads:PROCESSES:THREADS:MS:OPERATION_US:KIB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoThreads {
    /// Processes.
    pub processes: u64,
    /// Threads of each.
    pub threads: u64,
    /// For how long they work, in ms.
    pub ms: u64,
    /// How long an operation takes with the data in the cache, in µs.
    pub operation_us: u64,
    /// Data that the threads of a process share, in KiB.
    pub kib: u64,
}

impl CoThreads {
    /// The paper's second test, and its ten seconds.
    pub(super) fn parse(parameters: &mut Parameters<'_>) -> Result<Self, Error> {
        Ok(Self {
            processes: parameters.number("PROCESSES", 11, 1..=10_000)?,
            threads: parameters.number("THREADS", 5, 1..=10_000)?,
            ms: parameters.number("MS", 10_000, 1..=1_000_000)?,
            operation_us: parameters.number("OPERATION_US", 100, 1..=1_000_000)?,
            kib: parameters.number("KIB", 16, 0..=1 << 20)?,
        })
    }

    fn footprint(&self) -> Footprint {
        Footprint { own_bytes: 0, shared_bytes: self.kib << 10 }
    }

    pub(super) fn main(&self) -> Box<dyn Program> {
        let done = Rc::new(Cell::new(0u64));
        let of = *self;
        let leader = |_| Child {
            footprint: of.footprint(),
            ..Child::process("co-threads", Leader::new(of, Rc::clone(&done)))
        };
        let leaders: Vec<Child> = (0..self.processes).map(leader).collect();
        Box::new(Team::new(leaders, move || {
            let operations = done.get().max(1) as f64;
            let seconds = of.ms as f64 / 1e3;
            vec![Step::Figure("operations_per_s", operations / seconds), Step::Time(seconds / operations)]
        }))
    }
}

impl fmt::Display for CoThreads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, threads, ms, operation_us, kib } = self;
        write!(out, "co-threads:{processes}:{threads}:{ms}:{operation_us}:{kib}")
    }
}

/// Makes its process's other threads, then works as they do.
struct Leader {
    to_make: u64,
    worker: Worker,
    is_done: bool,
}

impl Leader {
    fn new(of: CoThreads, done: Rc<Cell<u64>>) -> Self {
        Self {
            to_make: of.threads - 1,
            worker: Worker { of, until: None, working: false, done },
            is_done: false,
        }
    }
}

impl Program for Leader {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if self.to_make > 0 {
            self.to_make -= 1;
            let footprint = self.worker.of.footprint();
            return Step::Fork(Child { footprint, ..Child::thread("co-threads", self.worker.clone()) });
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
    until: Option<Ns>,
    working: bool,
    done: Rc<Cell<u64>>,
}

impl Program for Worker {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        let until = *self.until.get_or_insert(view.now + self.of.ms * 1_000_000);
        if view.now >= until {
            return Step::Exit;
        }
        if std::mem::replace(&mut self.working, true) {
            self.done.set(self.done.get() + 1);
        }
        Step::Run(self.of.operation_us * 1000)
    }
}
