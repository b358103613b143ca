//! The kernel's functions that `include/sim/*.h` declares, by name. Queues, tasks and time are here,
//! CPUs in `cpus.rs`, walking a queue in `iter.rs`, maps in `maps.rs`, timers in `timers.rs`.
mod cpus;
mod iter;
mod maps;
mod timers;

use crate::core::{Core, TaskStruct};
use crate::env::abi::{DSQ_BUILTIN, EEXIST, EINVAL, PF_EXITING};
use crate::ext::Ext;
use crate::ext::context::with;
use rand::Rng;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

/// The function of that name.
pub(crate) fn find(name: &str) -> Option<*const c_void> {
    Some(match name {
        "scx_bpf_create_dsq" => create_dsq as *const c_void,
        "scx_bpf_destroy_dsq" => destroy_dsq as _,
        "scx_bpf_dsq_nr_queued" => dsq_nr_queued as _,
        "scx_bpf_dsq_peek" => dsq_peek as _,
        "scx_bpf_dsq_insert" => dsq_insert as _,
        "scx_bpf_dsq_insert_vtime" => dsq_insert_vtime as _,
        "sim_dsq_move_to_local" => dsq_move_to_local as _,
        "scx_bpf_dispatch_nr_slots" => dispatch_nr_slots as _,
        "scx_bpf_dispatch_cancel" => dispatch_cancel as _,
        "sim_reenqueue_local" => reenqueue_local as _,
        "sim_iter_scx_dsq_new" => iter::new as _,
        "bpf_iter_scx_dsq_next" => iter::next as _,
        "sim_dsq_move" => iter::dsq_move as _,
        "scx_bpf_nr_cpu_ids" => cpus::nr_cpu_ids as _,
        "scx_bpf_nr_node_ids" => cpus::nr_node_ids as _,
        "scx_bpf_cpu_node" => cpus::cpu_node as _,
        "scx_bpf_kick_cpu" => cpus::kick_cpu as _,
        "scx_bpf_select_cpu_dfl" => cpus::select_cpu_dfl as _,
        "scx_bpf_select_cpu_and" => cpus::select_cpu_and as _,
        "scx_bpf_test_and_clear_cpu_idle" => cpus::test_and_clear_cpu_idle as _,
        "scx_bpf_pick_idle_cpu" => cpus::pick_idle_cpu as _,
        "scx_bpf_pick_any_cpu" => cpus::pick_any_cpu as _,
        "scx_bpf_get_idle_cpumask" => cpus::idle_cpumask as _,
        "scx_bpf_get_idle_smtmask" => cpus::idle_smtmask as _,
        "scx_bpf_get_online_cpumask" => cpus::online_cpumask as _,
        "scx_bpf_get_possible_cpumask" => cpus::possible_cpumask as _,
        "scx_bpf_cpuperf_cap" => cpus::cpuperf_cap as _,
        "scx_bpf_cpuperf_cur" => cpus::cpuperf_cur as _,
        "scx_bpf_cpuperf_set" => cpus::cpuperf_set as _,
        "bpf_cpumask_create" => cpus::cpumask_create as _,
        "bpf_cpumask_release" => cpus::cpumask_release as _,
        "scx_bpf_task_running" => task_running as _,
        "scx_bpf_task_cpu" => task_cpu as _,
        "scx_bpf_cpu_curr" => cpu_curr as _,
        "bpf_task_from_pid" => task_from_pid as _,
        "bpf_get_current_task_btf" => current_task as _,
        "scx_bpf_now" => now as _,
        "bpf_ktime_get_ns" => ktime as _,
        "bpf_jiffies64" => jiffies as _,
        "bpf_get_smp_processor_id" => processor_id as _,
        "bpf_get_prandom_u32" => prandom as _,
        "sim_write_line" => write_line as _,
        "sim_error" => error as _,
        "sim_print" => print as _,
        "sim_map_open" => maps::open as _,
        "sim_hash_lookup" => maps::hash_lookup as _,
        "sim_hash_update" => maps::hash_update as _,
        "sim_hash_delete" => maps::hash_delete as _,
        "sim_task_storage_get" => maps::task_storage_get as _,
        "sim_task_storage_delete" => maps::task_storage_delete as _,
        "sim_timer_init" => timers::init as _,
        "sim_timer_set_callback" => timers::set_callback as _,
        "bpf_timer_start" => timers::start as _,
        "bpf_timer_cancel" => timers::cancel as _,
        _ => return None,
    })
}

/// A CPU that the policy named, or the end of the run.
fn valid_cpu(ext: &mut Ext, core: &mut Core, cpu: i32) -> Option<usize> {
    let valid = usize::try_from(cpu).ok().filter(|&cpu| cpu < core.nr_cpus());
    if valid.is_none() {
        core.fail(ext.callback, None, format!("CPU {cpu} does not exist"));
    }
    valid
}

unsafe extern "C" fn create_dsq(id: u64, _node: i32) -> i32 {
    with(|ext, core| match id & DSQ_BUILTIN {
        0 if ext.dsqs.find(id).is_some() => -EEXIST,
        0 => {
            ext.dsqs.create(core, id);
            0
        }
        _ => -EINVAL,
    })
}

unsafe extern "C" fn destroy_dsq(id: u64) {
    with(|ext, core| match ext.dsqs.find(id) {
        Some(index) if ext.dsqs.len(index) > 0 => {
            core.fail(ext.callback, None, format!("queue {id:#x} is destroyed with tasks in it"));
        }
        Some(_) => ext.dsqs.destroy(id),
        None => {}
    });
}

unsafe extern "C" fn dsq_nr_queued(id: u64) -> i32 {
    const ENOENT: i32 = 2;
    with(|ext, core| {
        let index = ext.resolve_for_reading(core, id);
        index.map_or(-ENOENT, |index| ext.dsqs.len(index) as i32)
    })
}

unsafe extern "C" fn dsq_peek(id: u64) -> *mut TaskStruct {
    with(|ext, core| {
        if id & DSQ_BUILTIN != 0 {
            core.fail(ext.callback, None, format!("peek at built-in queue {id:#x}"));
            return null_mut();
        }
        let Some(index) = ext.dsqs.find(id) else {
            core.fail(ext.callback, None, format!("peek at queue {id:#x}, which does not exist"));
            return null_mut();
        };
        ext.dsqs.first(index).map_or(null_mut(), |task| core.tasks[task].as_ptr())
    })
}

unsafe extern "C" fn dsq_insert(task: *mut TaskStruct, id: u64, slice: u64, flags: u64) -> bool {
    with(|ext, core| {
        let task = core.task_at(task);
        ext.insert(core, task, id, slice, flags, None)
    })
}

unsafe extern "C" fn dsq_insert_vtime(
    task: *mut TaskStruct,
    id: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) -> bool {
    with(|ext, core| {
        let task = core.task_at(task);
        ext.insert(core, task, id, slice, flags, Some(vtime))
    })
}

unsafe extern "C" fn dsq_move_to_local(id: u64, _flags: u64) -> bool {
    with(|ext, core| ext.move_to_local(core, id))
}

unsafe extern "C" fn dispatch_nr_slots() -> u32 {
    with(|ext, _| ext.free_slots())
}

unsafe extern "C" fn dispatch_cancel() {
    with(|ext, core| ext.cancel_dispatch(core));
}

unsafe extern "C" fn reenqueue_local() -> u32 {
    with(|ext, core| ext.reenqueue_local(core))
}

unsafe extern "C" fn task_running(task: *const TaskStruct) -> bool {
    with(|_, core| {
        let task = core.task_at(task);
        core.cpus[core.tasks[task].cpu].curr == Some(task)
    })
}

unsafe extern "C" fn task_cpu(task: *const TaskStruct) -> i32 {
    with(|_, core| core.tasks[core.task_at(task)].cpu as i32)
}

unsafe extern "C" fn cpu_curr(cpu: i32) -> *mut TaskStruct {
    with(|ext, core| match valid_cpu(ext, core, cpu).and_then(|cpu| core.cpus[cpu].curr) {
        Some(curr) => core.tasks[curr].as_ptr(),
        None => null_mut(),
    })
}

unsafe extern "C" fn task_from_pid(pid: i32) -> *mut TaskStruct {
    with(|_, core| {
        let task = usize::try_from(pid - 1).ok().and_then(|index| core.tasks.get(index));
        // A task that exits may have been unhashed already.
        let task = task.filter(|task| task.flags & PF_EXITING == 0);
        task.map_or(null_mut(), |task| task.as_ptr())
    })
}

thread_local! {
    /// The task of a CPU that idles. Its pid is 0, and it is never queued.
    static IDLE_TASK: *mut TaskStruct = {
        // SAFETY: numbers, and pointers that may be null.
        let mut task: Box<TaskStruct> = Box::new(unsafe { std::mem::zeroed() });
        task.cpus_ptr = &raw const task.cpus_mask;
        Box::leak(task)
    };
}

/// Never null: an interrupt on an idle CPU finds its idle task there.
unsafe extern "C" fn current_task() -> *mut TaskStruct {
    with(|_, core| match core.cpus[core.here].curr {
        Some(curr) => core.tasks[curr].as_ptr(),
        None => IDLE_TASK.with(|task| *task),
    })
}

// A policy may take 0 for never.
unsafe extern "C" fn now() -> u64 {
    with(|_, core| core.rq_clock(core.here) + 1)
}

unsafe extern "C" fn ktime() -> u64 {
    with(|_, core| core.clock() + 1)
}

unsafe extern "C" fn jiffies() -> u64 {
    with(|_, core| core.jiffies())
}

unsafe extern "C" fn processor_id() -> u32 {
    with(|_, core| core.here as u32)
}

unsafe extern "C" fn prandom() -> u32 {
    with(|_, core| core.random.next_u32())
}

unsafe extern "C" fn write_line(line: u64) {
    with(|ext, core| {
        let line = *ext.lines.entry(line).or_insert_with(|| core.locks.add("policy"));
        core.write(line);
    });
}

unsafe extern "C" fn error(text: *const c_char) {
    // SAFETY: sim_say() ends it with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    with(|ext, core| core.fail(ext.callback, None, text));
}

unsafe extern "C" fn print(text: *const c_char) {
    // SAFETY: sim_say() ends it with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    with(|ext, core| ext.printed.push((core.clock(), text)));
}

#[cfg(test)]
mod tests;
