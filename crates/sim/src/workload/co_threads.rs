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
pub(super) const TIME_IS: &str = "time of a million operations";
/// Half of the first-level cache of the paper's machine.
const BYTES: u64 = 16 * 1024;
/// As many as pass between two switches are one as well as another.
const OPERATION_US: u64 = 100;

/// `co-threads:PROCESSES:THREADS:BYTES:SECONDS:OPERATION_US`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoThreads {
    /// Processes.
    pub processes: u64,
    /// Threads of each.
    pub threads: u64,
    /// Data that the threads of a process share.
    pub bytes: u64,
    /// For how long they work.
    pub seconds: u64,
    /// How long an operation takes with the data in the cache, in µs.
    pub operation_us: u64,
}

impl CoThreads {
    /// The paper's third test, and its ten seconds.
    pub(super) fn parse(parameters: &mut Parameters<'_>) -> Result<Self, Error> {
        Ok(Self {
            processes: parameters.number("PROCESSES", 9, 1..=10_000)?,
            threads: parameters.number("THREADS", 3, 1..=10_000)?,
            bytes: parameters.number("BYTES", BYTES, 0..=1 << 30)?,
            seconds: parameters.number("SECONDS", 10, 1..=1000)?,
            operation_us: parameters.number("OPERATION_US", OPERATION_US, 1..=1_000_000)?,
        })
    }

    fn footprint(&self) -> Footprint {
        Footprint { own_bytes: 0, shared_bytes: self.bytes }
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
            let seconds = of.seconds as f64;
            vec![
                Step::Figure("operations_per_s", operations / seconds),
                Step::Time(seconds / operations * 1e6),
            ]
        }))
    }
}

impl fmt::Display for CoThreads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, threads, bytes, seconds, operation_us } = *self;
        write!(out, "co-threads:{processes}:{threads}:{bytes}:{seconds}")?;
        match operation_us {
            OPERATION_US => Ok(()),
            other => write!(out, ":{other}"),
        }
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
        let until = *self.until.get_or_insert(view.now + self.of.seconds * 1_000_000_000);
        if view.now >= until {
            return Step::Exit;
        }
        if std::mem::replace(&mut self.working, true) {
            self.done.set(self.done.get() + 1);
        }
        Step::Run(self.of.operation_us * 1000)
    }
}
