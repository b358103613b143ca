//! The simulation to which a policy's call of a kfunc belongs: the one that is calling the policy on this thread.
use super::Ext;
use crate::core::Core;
use std::cell::Cell;
use std::ptr::null_mut;

thread_local! {
    static CURRENT: Cell<(*mut Ext, *mut Core)> = const { Cell::new((null_mut(), null_mut())) };
}

/// While this guard exists, the policy's calls go to the simulation that called [`enter`].
pub(super) struct Entered {
    outer: (*mut Ext, *mut Core),
}

/// Directs the policy's calls to `ext` and `core`. The caller must not use either until the policy has returned.
pub(super) fn enter(ext: *mut Ext, core: *mut Core) -> Entered {
    Entered { outer: CURRENT.replace((ext, core)) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

/// Runs the body of a kfunc on the simulation that is calling the policy. Panics if none is.
pub(crate) fn with<R>(body: impl FnOnce(&mut Ext, &mut Core) -> R) -> R {
    let (ext, core) = CURRENT.get();
    assert!(!ext.is_null(), "a policy calls a function outside of a simulation");
    // SAFETY: both pointers are valid, and the caller of enter() uses neither until the policy returns.
    unsafe { body(&mut *ext, &mut *core) }
}
