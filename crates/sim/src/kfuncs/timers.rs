//! BPF timers.
use crate::core::CpuId;
use crate::engine::Event;
use crate::env::abi::{EBUSY, EINVAL, SimMap};
use crate::env::timers::{Handler, Timer};
use crate::ext::context::with;

const CLOCK_MONOTONIC: u64 = 1;
const ABSOLUTE: u64 = 1;

/// The number that init() left in the policy's memory: one more than its index.
unsafe fn index(timer: *const u64) -> Option<usize> {
    // SAFETY: a struct bpf_timer, two words.
    unsafe { (*timer).checked_sub(1).map(|index| index as usize) }
}

pub(super) unsafe extern "C" fn init(timer: *mut u64, map: *mut SimMap, clock: u64) -> i64 {
    // SAFETY: as in index().
    if unsafe { index(timer) }.is_some() {
        return -i64::from(EBUSY);
    }
    with(|ext, _| {
        let Some(key) = ext.maps.key_of(map, timer.cast()) else { return -i64::from(EINVAL) };
        if clock & 0xf != CLOCK_MONOTONIC {
            return -i64::from(EINVAL);
        }
        // A value may have the timer anywhere; the handler gets its start.
        // SAFETY: open() gave the map to the policy.
        let shown = unsafe { &*map };
        let into = (timer as u64).wrapping_sub(shown.values as u64);
        let value = if shown.values.is_null() {
            timer.cast()
        } else {
            // SAFETY: within the array's values.
            unsafe { shown.values.add((into / shown.stride * shown.stride) as usize) }
        };
        ext.timers.push(Timer { map, key, value, handler: None, generation: 0, is_armed: false });
        // SAFETY: as in index().
        unsafe { *timer = ext.timers.len() as u64 };
        0
    })
}

pub(super) unsafe extern "C" fn set_callback(timer: *mut u64, handler: Handler) -> i64 {
    // SAFETY: as in index().
    let Some(index) = (unsafe { index(timer) }) else { return -i64::from(EINVAL) };
    with(|ext, _| ext.timers[index].handler = Some(handler));
    0
}

pub(super) unsafe extern "C" fn start(timer: *mut u64, ns: u64, flags: u64) -> i64 {
    // SAFETY: as in index().
    let Some(index) = (unsafe { index(timer) }) else { return -i64::from(EINVAL) };
    with(|ext, core| {
        let timer = &mut ext.timers[index];
        if timer.handler.is_none() {
            return -i64::from(EINVAL);
        }
        timer.generation = timer.generation.wrapping_add(1);
        timer.is_armed = true;
        let at = if flags & ABSOLUTE != 0 { ns.max(core.clock()) } else { core.clock() + ns };
        let cpu: CpuId = core.here;
        let generation = timer.generation;
        core.queue.push(at, Event::Timer { class: ext.index, cpu, timer: index, generation });
        0
    })
}

pub(super) unsafe extern "C" fn cancel(timer: *mut u64) -> i64 {
    // SAFETY: as in index().
    let Some(index) = (unsafe { index(timer) }) else { return -i64::from(EINVAL) };
    with(|ext, _| {
        let timer = &mut ext.timers[index];
        timer.generation = timer.generation.wrapping_add(1);
        i64::from(std::mem::take(&mut timer.is_armed))
    })
}
