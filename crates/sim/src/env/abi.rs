//! The structs and constants of `include/sim/*.h`, except those in [`crate::core`].
use crate::core::{CpuMask, TaskStruct};
use std::ffi::{c_char, c_void};

/// `struct sched_ext_ops`.
#[repr(C)]
pub(crate) struct Ops {
    pub(crate) select_cpu: Option<unsafe extern "C" fn(*mut TaskStruct, i32, u64) -> i32>,
    pub(crate) enqueue: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub(crate) dequeue: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub(crate) dispatch: Option<unsafe extern "C" fn(i32, *mut TaskStruct)>,
    pub(crate) tick: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub(crate) runnable: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub(crate) running: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub(crate) stopping: Option<unsafe extern "C" fn(*mut TaskStruct, bool)>,
    pub(crate) quiescent: Option<unsafe extern "C" fn(*mut TaskStruct, u64)>,
    pub(crate) yield_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut TaskStruct) -> bool>,
    pub(crate) set_weight: Option<unsafe extern "C" fn(*mut TaskStruct, u32)>,
    pub(crate) set_cpumask: Option<unsafe extern "C" fn(*mut TaskStruct, *const CpuMask)>,
    pub(crate) update_idle: Option<unsafe extern "C" fn(i32, bool)>,
    pub(crate) cpu_acquire: Option<unsafe extern "C" fn(i32, *mut c_void)>,
    pub(crate) cpu_release: Option<unsafe extern "C" fn(i32, *mut CpuReleaseArgs)>,
    pub(crate) init_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut InitTaskArgs) -> i32>,
    pub(crate) exit_task: Option<unsafe extern "C" fn(*mut TaskStruct, *mut ExitTaskArgs)>,
    pub(crate) enable: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub(crate) disable: Option<unsafe extern "C" fn(*mut TaskStruct)>,
    pub(crate) cpu_online: Option<unsafe extern "C" fn(i32)>,
    pub(crate) cpu_offline: Option<unsafe extern "C" fn(i32)>,
    pub(crate) init: Option<unsafe extern "C" fn() -> i32>,
    pub(crate) exit: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) dispatch_max_batch: u32,
    pub(crate) timeout_ms: u32,
    pub(crate) flags: u64,
    pub(crate) name: [c_char; 128],
}

/// `struct scx_cpu_release_args`.
#[repr(C)]
pub(crate) struct CpuReleaseArgs {
    pub(crate) reason: u32,
    pub(crate) task: *mut TaskStruct,
}

/// `struct scx_init_task_args`.
#[repr(C)]
pub(crate) struct InitTaskArgs {
    pub(crate) fork: bool,
}

/// `struct scx_exit_task_args`.
#[repr(C)]
pub(crate) struct ExitTaskArgs {
    pub(crate) cancelled: bool,
}

/// `struct scx_exit_info`.
#[repr(C)]
pub(crate) struct ExitInfo {
    kind: i32,
    exit_code: i64,
    reason: *const c_char,
    msg: *const c_char,
}

impl ExitInfo {
    /// `SCX_EXIT_UNREG_KERN`, `SCX_ECODE_RSN_HOTPLUG | SCX_ECODE_ACT_RESTART`.
    pub(crate) fn restart() -> Self {
        let (reason, msg) = (c"unregistered from the main kernel", c"CPU hotplug");
        Self { kind: 66, exit_code: 1 << 32 | 1 << 48, reason: reason.as_ptr(), msg: msg.as_ptr() }
    }
}

/// `struct sim_map`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SimMap {
    pub(crate) values: *mut u8,
    pub(crate) stride: u64,
    pub(crate) cpu_stride: u64,
    pub(crate) kind: u32,
    pub(crate) max_entries: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) id: u32,
}

/// `struct bpf_iter_scx_dsq`.
#[repr(C)]
pub(crate) struct DsqIter {
    pub(crate) dsq_id: u64,
    pub(crate) flags: u64,
    pub(crate) seq: u64,
    pub(crate) last: *mut TaskStruct,
    pub(crate) ahead: *mut TaskStruct,
    pub(crate) slice: u64,
    pub(crate) vtime: u64,
    pub(crate) set: u32,
}

/// The expected contents of `sim_layout` in `include/sim/ops.h`: sizes and offsets of shared structs.
pub(crate) const LAYOUT: [u32; 7] = [
    size_of::<TaskStruct>() as u32,
    std::mem::offset_of!(TaskStruct, scx) as u32,
    std::mem::offset_of!(TaskStruct, cpus_ptr) as u32,
    std::mem::offset_of!(TaskStruct, cpus_mask) as u32,
    size_of::<Ops>() as u32,
    size_of::<SimMap>() as u32,
    size_of::<DsqIter>() as u32,
];

pub(crate) const DSQ_BUILTIN: u64 = 1 << 63;
pub(crate) const DSQ_LOCAL_ON_FLAG: u64 = 1 << 62;
pub(crate) const DSQ_INVALID: u64 = DSQ_BUILTIN;
pub(crate) const DSQ_GLOBAL: u64 = DSQ_BUILTIN | 1;
pub(crate) const DSQ_LOCAL: u64 = DSQ_BUILTIN | 2;
pub(crate) const DSQ_LOCAL_ON: u64 = DSQ_BUILTIN | DSQ_LOCAL_ON_FLAG;

pub(crate) const ENQ_WAKEUP: u64 = 1;
pub(crate) const ENQ_HEAD: u64 = 1 << 4;
pub(crate) const ENQ_CPU_SELECTED: u64 = 1 << 10;
pub(crate) const ENQ_PREEMPT: u64 = 1 << 32;
pub(crate) const ENQ_REENQ: u64 = 1 << 40;
pub(crate) const ENQ_LAST: u64 = 1 << 41;
/// `__SCX_ENQ_INTERNAL_MASK`.
pub(crate) const ENQ_INTERNAL: u64 = 0xff << 56;
pub(crate) const DEQ_SLEEP: u64 = 1;
pub(crate) const DEQ_CORE_SCHED_EXEC: u64 = 1 << 32;

pub(crate) const WAKE_FORK: u64 = 1 << 2;
pub(crate) const WAKE_TTWU: u64 = 1 << 3;
pub(crate) const WAKE_SYNC: u64 = 1 << 4;

pub(crate) const KICK_IDLE: u64 = 1;
pub(crate) const KICK_PREEMPT: u64 = 2;
pub(crate) const KICK_WAIT: u64 = 4;

pub(crate) const PICK_IDLE_CORE: u64 = 1;
pub(crate) const PICK_IDLE_IN_NODE: u64 = 2;

/// `TASK_ON_RQ_MIGRATING`: the value of `on_rq` while a task moves from one run queue to another.
pub(crate) const ON_RQ_MIGRATING: i32 = 2;

pub(crate) const TASK_QUEUED: u32 = 1;
pub(crate) const TASK_RESET_RUNNABLE_AT: u32 = 4;
pub(crate) const TASK_DEQD_FOR_SLEEP: u32 = 8;

pub(crate) const OPS_KEEP_BUILTIN_IDLE: u64 = 1;
pub(crate) const OPS_ENQ_LAST: u64 = 2;
pub(crate) const OPS_ENQ_EXITING: u64 = 4;
pub(crate) const OPS_ENQ_MIGRATION_DISABLED: u64 = 16;
pub(crate) const OPS_ALLOW_QUEUED_WAKEUP: u64 = 32;

pub(crate) const SLICE_DFL: u64 = 20_000_000;
pub(crate) const SLICE_INF: u64 = u64::MAX;
pub(crate) const PF_EXITING: u32 = 4;

pub(crate) const ENOENT: i32 = 2;
pub(crate) const E2BIG: i32 = 7;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const EINVAL: i32 = 22;
