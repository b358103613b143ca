//! Which simulation a policy's call belongs to: the one that has just called the policy.
use super::Ext;
use crate::core::Core;
use std::cell::Cell;
use std::ptr::null_mut;

thread_local! {
    static CURRENT: Cell<(*mut Ext, *mut Core)> = const { Cell::new((null_mut(), null_mut())) };
}

/// While it lives, the policy's calls go to the simulation that entered.
pub(super) struct Entered {
    outer: (*mut Ext, *mut Core),
}

/// The caller must not touch what it borrowed for the pointers until the policy has returned.
pub(super) fn enter(ext: *mut Ext, core: *mut Core) -> Entered {
    Entered { outer: CURRENT.replace((ext, core)) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

/// For the functions that a policy calls.
pub(crate) fn with<R>(body: impl FnOnce(&mut Ext, &mut Core) -> R) -> R {
    let (ext, core) = CURRENT.get();
    assert!(!ext.is_null(), "a policy calls a function outside of a simulation");
    // SAFETY: the caller of enter() has lent both to this call, and waits for it to return.
    unsafe { body(&mut *ext, &mut *core) }
}
