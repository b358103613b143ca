//! The kernel's functions about CPUs.
use super::valid_cpu;
use crate::core::{CpuMask, TaskStruct};
use crate::env::abi::{EBUSY, EINVAL, KICK_IDLE, KICK_PREEMPT, KICK_WAIT, PICK_IDLE_CORE, PICK_IDLE_IN_NODE};
use crate::ext::context::with;
use rand::RngExt;

pub(super) unsafe extern "C" fn nr_cpu_ids() -> u32 {
    with(|_, core| core.nr_cpus() as u32)
}

pub(super) unsafe extern "C" fn nr_node_ids() -> u32 {
    with(|_, core| core.machine.places.iter().map(|place| place.node + 1).max().unwrap_or(1) as u32)
}

pub(super) unsafe extern "C" fn cpu_node(cpu: i32) -> i32 {
    with(|ext, core| valid_cpu(ext, core, cpu).map_or(-EINVAL, |cpu| core.machine.places[cpu].node as i32))
}

/// Kicks are sent when the callback is over, as the kernel does with an interrupt of its own.
pub(super) unsafe extern "C" fn kick_cpu(cpu: i32, flags: u64) {
    with(|ext, core| {
        let Some(cpu) = valid_cpu(ext, core, cpu) else { return };
        if flags & KICK_IDLE != 0 && flags & (KICK_PREEMPT | KICK_WAIT) != 0 {
            core.fail(ext.callback, None, "SCX_KICK_IDLE goes with neither PREEMPT nor WAIT");
            return;
        }
        if flags & KICK_IDLE == 0 || core.cpus[cpu].curr.is_none() {
            ext.kicks.push((cpu, flags));
        }
    });
}

pub(super) unsafe extern "C" fn select_cpu_dfl(
    task: *mut TaskStruct,
    prev: i32,
    wake_flags: u64,
    is_idle: *mut bool,
) -> i32 {
    with(|ext, core| {
        let Some(prev) = valid_cpu(ext, core, prev) else { return prev };
        let found = if ext.needs_builtin_idle(core) {
            let task = core.task_at(task);
            ext.select_idle(core, task, prev, wake_flags, None, 0)
        } else {
            None
        };
        // SAFETY: a variable of the policy's.
        unsafe { *is_idle = found.is_some() };
        found.unwrap_or(prev) as i32
    })
}

pub(super) unsafe extern "C" fn select_cpu_and(
    task: *mut TaskStruct,
    prev: i32,
    wake_flags: u64,
    allowed: *const CpuMask,
    flags: u64,
) -> i32 {
    with(|ext, core| {
        let Some(prev) = valid_cpu(ext, core, prev) else { return -EINVAL };
        if !ext.needs_builtin_idle(core) {
            return -EBUSY;
        }
        let task = core.task_at(task);
        // SAFETY: a mask of the policy's.
        let allowed = unsafe { allowed.as_ref() };
        ext.select_idle(core, task, prev, wake_flags, allowed, flags).map_or(-EBUSY, |cpu| cpu as i32)
    })
}

pub(super) unsafe extern "C" fn test_and_clear_cpu_idle(cpu: i32) -> bool {
    with(|ext, core| match valid_cpu(ext, core, cpu) {
        Some(cpu) if ext.needs_builtin_idle(core) => ext.take_idle(core, cpu),
        _ => false,
    })
}

pub(super) unsafe extern "C" fn pick_idle_cpu(allowed: *const CpuMask, flags: u64) -> i32 {
    with(|ext, core| {
        if !ext.needs_builtin_idle(core) {
            return -EBUSY;
        }
        if flags & PICK_IDLE_IN_NODE != 0 {
            core.fail(ext.callback, None, "SCX_PICK_IDLE_IN_NODE needs SCX_OPS_BUILTIN_IDLE_PER_NODE");
            return -EINVAL;
        }
        // SAFETY: a mask of the policy's or a task's.
        let allowed = unsafe { &*allowed };
        ext.pick_idle(core, allowed, None, flags & PICK_IDLE_CORE != 0).map_or(-EBUSY, |cpu| cpu as i32)
    })
}

pub(super) unsafe extern "C" fn pick_any_cpu(allowed: *const CpuMask, flags: u64) -> i32 {
    with(|ext, core| {
        // SAFETY: a mask of the policy's or a task's.
        let allowed = unsafe { &*allowed };
        let idle = ext
            .has_builtin_idle
            .then(|| ext.pick_idle(core, allowed, None, flags & PICK_IDLE_CORE != 0))
            .flatten();
        let from = core.random.random_range(0..core.nr_cpus());
        idle.or_else(|| allowed.first_common_from(&core.online, from)).map_or(-EBUSY, |cpu| cpu as i32)
    })
}

pub(super) unsafe extern "C" fn idle_cpumask() -> *const CpuMask {
    with(|ext, core| {
        ext.needs_builtin_idle(core);
        &raw const *ext.idle_cpus
    })
}

pub(super) unsafe extern "C" fn idle_smtmask() -> *const CpuMask {
    with(|ext, core| {
        ext.needs_builtin_idle(core);
        &raw const *ext.idle_cores
    })
}

pub(super) unsafe extern "C" fn online_cpumask() -> *const CpuMask {
    with(|_, core| &raw const core.online)
}

pub(super) unsafe extern "C" fn possible_cpumask() -> *const CpuMask {
    with(|ext, _| &raw const *ext.possible_cpus)
}

pub(super) unsafe extern "C" fn cpuperf_cap(cpu: i32) -> u32 {
    with(|ext, core| valid_cpu(ext, core, cpu).map_or(0, |cpu| core.perf_cap(cpu)))
}

pub(super) unsafe extern "C" fn cpuperf_cur(cpu: i32) -> u32 {
    with(|ext, core| valid_cpu(ext, core, cpu).map_or(0, |cpu| core.perf_cur(cpu)))
}

pub(super) unsafe extern "C" fn cpuperf_set(cpu: i32, perf: u32) {
    with(|ext, core| {
        if perf > 1024 {
            core.fail(ext.callback, None, format!("performance {perf} is more than SCX_CPUPERF_ONE"));
        } else if let Some(cpu) = valid_cpu(ext, core, cpu) {
            core.set_perf_target(cpu, perf);
        }
    });
}

pub(super) unsafe extern "C" fn cpumask_create() -> *mut CpuMask {
    with(|ext, _| {
        let mask = Box::into_raw(Box::new(CpuMask::empty()));
        ext.masks.push(mask);
        mask
    })
}

pub(super) unsafe extern "C" fn cpumask_release(mask: *mut CpuMask) {
    with(|ext, core| match ext.masks.iter().position(|&known| known == mask) {
        Some(index) => {
            ext.masks.swap_remove(index);
            // SAFETY: from cpumask_create(), and freed once.
            drop(unsafe { Box::from_raw(mask) });
        }
        None => core.fail(ext.callback, None, "a cpumask is released that was never created"),
    });
}
