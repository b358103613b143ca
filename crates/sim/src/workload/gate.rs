//! How the threads of the project's own programs begin together: they wait on a condition that is signalled to all each
//! time another thread arrives, and once more when the first one has started them all. Woken threads take the mutex one
//! after the other. `crates/compare/src/workload/team.rs` is the real one.
use super::{ConditionId, SemaphoreId, Step, World};
use std::cell::Cell;
use std::rc::Rc;

/// The condition and what its mutex protects.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    mutex: SemaphoreId,
    changed: ConditionId,
    waiting: Rc<Cell<u64>>,
    is_open: Rc<Cell<bool>>,
}

impl Gate {
    pub(super) fn new(world: &mut World) -> Self {
        Self {
            mutex: world.add_mutex(),
            changed: world.add_condition(),
            waiting: Rc::default(),
            is_open: Rc::default(),
        }
    }

    /// The way through it of a thread that waits to begin.
    pub(super) fn pass(&self) -> Passage {
        Passage { gate: self.clone(), opens_at: None, at: Place::Before }
    }

    /// The way of the thread that opens it once so many others wait.
    pub(super) fn open(&self, expected: u64) -> Passage {
        Passage { gate: self.clone(), opens_at: Some(expected), at: Place::Before }
    }
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Before,
    Arrived,
    Holding,
    Woken,
    Leaving,
    Through,
}

/// The steps of one thread.
#[derive(Debug)]
pub(super) struct Passage {
    gate: Gate,
    opens_at: Option<u64>,
    at: Place,
}

impl Passage {
    /// The next one; `None`: it is through.
    pub(super) fn next(&mut self) -> Option<Step> {
        let gate = &self.gate;
        let (at, step) = match (self.at, self.opens_at) {
            (Place::Before, None) => (Place::Arrived, Step::Down(gate.mutex)),
            (Place::Before, Some(_)) | (Place::Woken, _) => (Place::Holding, Step::Down(gate.mutex)),
            (Place::Arrived, _) => {
                gate.waiting.set(gate.waiting.get() + 1);
                (Place::Holding, Step::Broadcast(gate.changed))
            }
            (Place::Holding, None) if gate.is_open.get() => (Place::Through, Step::Up(gate.mutex)),
            (Place::Holding, Some(expected)) if gate.waiting.get() == expected => {
                gate.is_open.set(true);
                (Place::Leaving, Step::Broadcast(gate.changed))
            }
            (Place::Holding, _) => (Place::Woken, Step::WaitFor(gate.changed, Some(gate.mutex))),
            (Place::Leaving, _) => (Place::Through, Step::Up(gate.mutex)),
            (Place::Through, _) => return None,
        };
        self.at = at;
        Some(step)
    }
}
