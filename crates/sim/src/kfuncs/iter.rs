//! `bpf_for_each(scx_dsq, …)`: walking a queue while tasks are taken out of it.
use crate::core::TaskStruct;
use crate::env::abi::DsqIter;
use crate::ext::context::with;
use std::ptr::null_mut;

const REVERSE: u64 = 1 << 16;

pub(super) unsafe extern "C" fn new(iter: *mut DsqIter, dsq_id: u64, flags: u64) {
    with(|ext, core| {
        let mut seq = 0;
        match ext.dsqs.find(dsq_id) {
            Some(index) => seq = ext.dsqs.seq(index),
            None => core.fail(ext.callback, None, format!("walk of queue {dsq_id:#x}, which does not exist")),
        }
        let fresh =
            DsqIter { dsq_id, flags, seq, last: null_mut(), ahead: null_mut(), slice: 0, vtime: 0, set: 0 };
        // SAFETY: on the policy's stack.
        unsafe { iter.write(fresh) };
    });
}

pub(super) unsafe extern "C" fn next(iter: *mut DsqIter) -> *mut TaskStruct {
    with(|ext, core| {
        // SAFETY: new() wrote it.
        let iter = unsafe { &mut *iter };
        let Some(dsq) = ext.dsqs.find(iter.dsq_id) else { return null_mut() };
        let reverse = iter.flags & REVERSE != 0;
        let is_in = |pointer: *mut TaskStruct| {
            (!pointer.is_null()).then(|| core.task_at(pointer)).filter(|&task| ext.dsqs.of(task) == Some(dsq))
        };
        let mut found = if iter.last.is_null() {
            ext.dsqs.end(dsq, reverse)
        } else if let Some(last) = is_in(iter.last) {
            ext.dsqs.beside(last, reverse)
        } else {
            is_in(iter.ahead)
        };
        // Tasks that were added after the walk began are not part of it.
        while let Some(task) = found
            && ext.dsqs.seq_of(task) > iter.seq
        {
            found = ext.dsqs.beside(task, reverse);
        }
        let Some(task) = found else {
            return null_mut();
        };
        iter.last = core.tasks[task].as_ptr();
        iter.ahead = ext.dsqs.beside(task, reverse).map_or(null_mut(), |task| core.tasks[task].as_ptr());
        iter.last
    })
}

pub(super) unsafe extern "C" fn dsq_move(
    iter: *mut DsqIter,
    task: *mut TaskStruct,
    dsq_id: u64,
    flags: u64,
    by_vtime: bool,
) -> bool {
    with(|ext, core| {
        // SAFETY: new() wrote it.
        let iter = unsafe { &mut *iter };
        let task = core.task_at(task);
        let Some(from) = ext.dsqs.find(iter.dsq_id) else { return false };
        let set = std::mem::take(&mut iter.set);
        if ext.dsqs.of(task) != Some(from) || ext.dsqs.seq_of(task) > iter.seq {
            return false;
        }
        if set & 1 != 0 {
            core.tasks[task].scx.slice = iter.slice;
        }
        if set & 2 != 0 {
            core.tasks[task].scx.dsq_vtime = iter.vtime;
        }
        ext.move_task(core, task, dsq_id, flags, by_vtime)
    })
}
