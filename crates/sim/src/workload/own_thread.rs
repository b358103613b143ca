//! What creating and ending a thread of the project's own programs does with the memory of their process: the C library
//! maps a stack and an arena for it, Rust's a stack for signals. All of it happens under `mmap_lock`.
use super::{Step, World};
use crate::rest::{AT_FIRST, AT_LAST, Access, BEFORE_FORK, Detail, MmapLockId, Preparation};
use flsched_machine::MemoryCall;
use std::slice::Iter;

/// The memory of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    lock: MmapLockId,
    /// The machine's file says what these calls cost.
    is_known: bool,
}

impl Memory {
    pub(super) fn new(world: &mut World) -> Self {
        Self { lock: world.rest.add_mmap_lock(), is_known: world.rest.knows_startup }
    }

    pub(super) fn before_fork(self) -> Calls {
        self.calls(&BEFORE_FORK)
    }

    pub(super) fn at_first(self) -> Calls {
        self.calls(&AT_FIRST)
    }

    pub(super) fn at_last(self) -> Calls {
        self.calls(&AT_LAST)
    }

    fn calls(self, all: &'static [MemoryCall]) -> Calls {
        let all = if self.is_known { all } else { &[] };
        Calls { lock: self.lock, calls: all.iter(), steps: Vec::new() }
    }
}

/// The steps of some of these calls.
pub(super) struct Calls {
    lock: MmapLockId,
    calls: Iter<'static, MemoryCall>,
    /// Those of the present call, the next one last.
    steps: Vec<Detail>,
}

impl Calls {
    /// The next one; `None`: they are done.
    pub(super) fn next(&mut self) -> Option<Step> {
        if self.steps.is_empty() {
            let call = *self.calls.next()?;
            let lock = self.lock;
            self.steps.extend([Detail::UnlockMemory(lock), Detail::Prepare(Preparation::Memory(call))]);
            if call == MemoryCall::Unmap {
                let removal = Preparation::Memory(MemoryCall::Remove);
                self.steps.extend([Detail::DowngradeMemory(lock), Detail::Prepare(removal)]);
            }
            let access = if call.is_change() { Access::Write } else { Access::Read };
            let before = Preparation::Memory(MemoryCall::Enter);
            self.steps.extend([Detail::LockMemory(lock, access), Detail::Prepare(before)]);
        }
        self.steps.pop().map(Step::Rest)
    }
}
