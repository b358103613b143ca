//! sched_ext, after `kernel/sched/ext.c` of Linux 6.18: a scheduling class that asks a policy.
//!
//! What a policy must not do ends the run with the callback, the task and the time, where the
//! kernel would eject it.
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

/// May the policy insert a task at once, and which?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direct {
    None,
    Open(TaskId),
}

/// The class.
pub(crate) struct Ext {
    spec: PolicySpec,
    /// What it may call.
    kfuncs: Kfuncs,
    ops: *const Ops,
    /// Its number among the run's classes.
    pub(crate) index: usize,
    flags: u64,
    max_batch: u32,
    timeout_ms: u32,
    pub(crate) dsqs: Dsqs,
    /// By task: 0, or the number of the time for which the policy has it in its hands.
    custody: Vec<u64>,
    custodies: u64,
    /// Tasks on their way to the local queue of a CPU whose lock was not held.
    deferred: Vec<(TaskId, DsqIndex, u64)>,
    /// Kicks on their way.
    pub(crate) kicks: Vec<(CpuId, u64)>,
    direct: Direct,
    /// The CPU for which `ops.dispatch` is asked.
    dispatching: Option<CpuId>,
    verdicts: Vec<Verdict>,
    dispatched: u32,
    /// By CPU: whether the running task continues.
    keep: Vec<bool>,
    /// By CPU: a higher class has it.
    released: Vec<bool>,
    /// The callback in which the policy is.
    pub(crate) callback: &'static str,
    pub(crate) has_builtin_idle: bool,
    pub(crate) idle_cpus: Box<CpuMask>,
    pub(crate) idle_cores: Box<CpuMask>,
    pub(crate) possible_cpus: Box<CpuMask>,
    pub(crate) maps: Maps,
    pub(crate) timers: Vec<Timer>,
    /// Cache lines of its variables that it has written to by atomic operations, by number.
    pub(crate) lines: BTreeMap<u64, LockId>,
    /// The policy's cpumasks.
    pub(crate) masks: Vec<*mut CpuMask>,
    /// What it counted before it was started again.
    counted: Vec<u64>,
    /// What it printed.
    pub(crate) printed: Vec<(Ns, String)>,
    /// Last, so that it goes after what points into it.
    instance: Instance,
}

impl Ext {
    /// With a policy of its own, which calls `kfuncs`; `index`: which of the run's classes it is.
    pub(crate) fn new(
        core: &mut Core,
        spec: &PolicySpec,
        index: usize,
        kfuncs: Kfuncs,
    ) -> Result<Self, Error> {
        let instance = Instance::load(spec, &core.machine, &core.online, kfuncs)?;
        let ops = instance.ops()?;
        // SAFETY: the object's table, as long as the instance lives.
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
        // SAFETY: the object's table, valid as long as the instance; it is never written.
        unsafe { &*self.ops }
    }

    /// Calls the policy, which calls back into this simulation.
    fn call<R>(&mut self, core: &mut Core, callback: &'static str, body: impl FnOnce() -> R) -> R {
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
            // SAFETY: from Box::into_raw() in cpumask_create(), and not released.
            drop(unsafe { Box::from_raw(mask) });
        }
    }
}

impl Drop for Ext {
    fn drop(&mut self) {
        self.free_masks();
    }
}
