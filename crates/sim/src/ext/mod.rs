//! sched_ext, after `kernel/sched/ext.c` of Linux 6.18: a scheduling class whose decisions a policy makes.
//!
//! Where the kernel would eject a policy for an error, the run ends. Its error names the callback, the task and
//! the time.
//!
//! *Custody*: `ops.enqueue` gives a task to the policy, which keeps it until it inserts the task into a queue or the
//! task is dequeued.
mod class;
pub(crate) mod context;
mod dispatch;
mod dsq;
mod idle;
mod insert;
mod restart;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::core::{Core, CpuId, CpuMask, LockId, TaskId};
use crate::engine::Ns;
use crate::env::abi::{OPS_KEEP_BUILTIN_IDLE, Ops, SLICE_INF};
use crate::env::instance::{Instance, Kfuncs};
use crate::env::maps::Maps;
use crate::env::timers::Timer;
use dsq::{DsqIndex, Dsqs};
use flsched_spec::PolicySpec;
use insert::Verdict;
use std::collections::BTreeMap;

/// `SCX_DSP_DFL_MAX_BATCH`.
const DEFAULT_BATCH: u32 = 32;
/// `SCX_WATCHDOG_MAX_TIMEOUT`, in ms.
const DEFAULT_TIMEOUT_MS: u32 = 30_000;

/// The task that the policy may insert directly: that of the running `ops.select_cpu` or `ops.enqueue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direct {
    None,
    Open(TaskId),
}

/// sched_ext with one policy.
pub(crate) struct Ext {
    spec: PolicySpec,
    /// The kfuncs that the policy may call.
    kfuncs: Kfuncs,
    ops: *const Ops,
    /// The index of this class among the run's classes.
    pub(crate) index: usize,
    flags: u64,
    max_batch: u32,
    timeout_ms: u32,
    pub(crate) dsqs: Dsqs,
    /// By task: the number of its current custody; 0: the policy does not have the task.
    custody: Vec<u64>,
    custodies: u64,
    /// Insertions into local queues of other CPUs, deferred until their locks can be taken: task, queue, flags.
    deferred: Vec<(TaskId, DsqIndex, u64)>,
    /// Kicks that are not yet carried out: CPU and flags.
    pub(crate) kicks: Vec<(CpuId, u64)>,
    direct: Direct,
    /// The CPU for which `ops.dispatch` is being called.
    dispatching: Option<CpuId>,
    verdicts: Vec<Verdict>,
    dispatched: u32,
    /// By CPU: whether [`Ext::balance_one`] decided that the previous task continues.
    keep: Vec<bool>,
    /// By CPU: whether a task of a higher class has taken it from sched_ext.
    released: Vec<bool>,
    /// The callback that is running; empty: none.
    pub(crate) callback: &'static str,
    pub(crate) has_builtin_idle: bool,
    pub(crate) idle_cpus: Box<CpuMask>,
    pub(crate) idle_cores: Box<CpuMask>,
    pub(crate) possible_cpus: Box<CpuMask>,
    pub(crate) maps: Maps,
    pub(crate) timers: Vec<Timer>,
    /// The cache lines on which the policy has used atomic operations, by number. Each has a lock, which times
    /// its transfers.
    pub(crate) lines: BTreeMap<u64, LockId>,
    /// The cpumasks that the policy has created.
    pub(crate) masks: Vec<*mut CpuMask>,
    /// The policy's statistics from before its last restart.
    counted: Vec<u64>,
    /// The lines that the policy has printed, and when.
    pub(crate) printed: Vec<(Ns, String)>,
    /// The loaded policy. It is the last field, so it is dropped after all pointers into it.
    instance: Instance,
}

impl Ext {
    /// Loads the policy and links it to `kfuncs`. `index`: the index among the run's classes.
    pub(crate) fn new(
        core: &mut Core,
        spec: &PolicySpec,
        index: usize,
        kfuncs: Kfuncs,
    ) -> Result<Self, Error> {
        let instance = Instance::load(spec, &core.machine, &core.online, kfuncs)?;
        let ops = instance.ops()?;
        // SAFETY: `ops` points to the object's table, which exists as long as `instance`.
        let table = unsafe { &*ops };
        let count = core.nr_cpus();
        let timeout_ms = if table.timeout_ms > 0 { table.timeout_ms } else { DEFAULT_TIMEOUT_MS };
        if timeout_ms > DEFAULT_TIMEOUT_MS {
            let what = format!("timeout_ms {timeout_ms} is more than {DEFAULT_TIMEOUT_MS}");
            return Err(Error::Policy { policy: spec.policy.name.into(), what });
        }
        Ok(Self {
            spec: spec.clone(),
            kfuncs,
            ops,
            index,
            flags: table.flags,
            max_batch: if table.dispatch_max_batch > 0 { table.dispatch_max_batch } else { DEFAULT_BATCH },
            timeout_ms,
            dsqs: Dsqs::new(core),
            custody: Vec::new(),
            custodies: 0,
            deferred: Vec::new(),
            kicks: Vec::new(),
            direct: Direct::None,
            dispatching: None,
            verdicts: Vec::new(),
            dispatched: 0,
            keep: vec![false; count],
            released: vec![false; count],
            callback: "",
            has_builtin_idle: table.update_idle.is_none() || table.flags & OPS_KEEP_BUILTIN_IDLE != 0,
            idle_cpus: Box::new(CpuMask::first(count)),
            idle_cores: Box::new(CpuMask::first(count)),
            possible_cpus: Box::new(CpuMask::first(count)),
            maps: Maps::default(),
            timers: Vec::new(),
            lines: BTreeMap::new(),
            masks: Vec::new(),
            counted: Vec::new(),
            printed: Vec::new(),
            instance,
        })
    }

    fn ops(&self) -> &Ops {
        // SAFETY: the object's table exists as long as `instance` and is never written.
        unsafe { &*self.ops }
    }

    /// Calls the policy. The kfuncs that it calls act on this simulation.
    pub(crate) fn call<R>(&mut self, core: &mut Core, callback: &'static str, body: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.callback, callback);
        let this: *mut Self = self;
        let entered = context::enter(this, core);
        let result = body();
        drop(entered);
        self.callback = outer;
        if outer.is_empty() {
            self.maps.forget_gone();
        }
        result
    }

    /// `update_curr_scx()`.
    fn update_curr(&mut self, core: &mut Core, cpu: CpuId) {
        let delta = core.update_curr(cpu);
        let Some(curr) = core.cpus[cpu].curr else { return };
        let scx = &mut core.tasks[curr].scx;
        if scx.slice != SLICE_INF {
            scx.slice = scx.slice.saturating_sub(delta);
        }
    }
}

impl Ext {
    fn free_masks(&mut self) {
        for mask in self.masks.drain(..) {
            // SAFETY: the pointer is from Box::into_raw() in cpumask_create() and was not released.
            drop(unsafe { Box::from_raw(mask) });
        }
    }
}

impl Drop for Ext {
    fn drop(&mut self) {
        self.free_masks();
    }
}
