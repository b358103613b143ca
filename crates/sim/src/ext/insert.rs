//! Insertion of tasks into dispatch queues: `do_enqueue_task()`, `direct_dispatch()`, `finish_dispatch()` and
//! `dispatch_enqueue()` of `kernel/sched/ext.c`.
use super::dsq::DsqIndex;
use super::{Direct, Ext};
use crate::core::{Core, CpuId, TaskId};
use crate::env::abi::*;

/// An insertion that `ops.dispatch` requested. It is carried out when the callback has returned, or when it
/// moves tasks to the local queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    task: TaskId,
    dsq_id: u64,
    flags: u64,
    /// The custody of the task when the insertion was requested.
    custody: u64,
}

/// `SCX_ENQ_DSQ_PRIQ`: a flag of insertions by virtual time.
const BY_VTIME: u64 = 1 << 57;

impl Ext {
    /// `do_enqueue_task()`.
    pub(super) fn do_enqueue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, flags: u64) {
        let state = &core.tasks[task];
        let pinned = state.migration_disabled > 0 && state.nr_cpus_allowed > 1;
        let exiting = state.flags & PF_EXITING != 0;
        if !core.online.has(cpu) {
            core.tasks[task].scx.slice = SLICE_DFL;
            let local = self.dsqs.local(cpu);
            return self.put(core, local, task, flags);
        }
        if state.scx.ddsp_dsq_id == DSQ_INVALID {
            if (exiting && self.flags & OPS_ENQ_EXITING == 0)
                || (pinned && self.flags & OPS_ENQ_MIGRATION_DISABLED == 0)
            {
                core.tasks[task].scx.slice = SLICE_DFL;
                let local = self.dsqs.local(cpu);
                self.put(core, local, task, flags);
                return;
            }
            let Some(enqueue) = self.ops().enqueue else {
                core.tasks[task].scx.slice = SLICE_DFL;
                let global = self.dsqs.global();
                self.put(core, global, task, flags);
                return;
            };
            self.custodies += 1;
            self.custody[task] = self.custodies;
            let outer = std::mem::replace(&mut self.direct, Direct::Open(task));
            let pointer = core.tasks[task].as_ptr();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "enqueue", || unsafe { enqueue(pointer, flags) });
            self.direct = outer;
            if core.tasks[task].scx.ddsp_dsq_id == DSQ_INVALID {
                return; // in the policy's hands
            }
        }
        self.direct_dispatch(core, cpu, task, flags);
    }

    /// `direct_dispatch()`. An insertion into the local queue of another CPU needs that CPU's lock, so it is
    /// deferred.
    fn direct_dispatch(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, flags: u64) {
        let scx = &mut core.tasks[task].scx;
        let id = std::mem::replace(&mut scx.ddsp_dsq_id, DSQ_INVALID);
        let flags = std::mem::take(&mut scx.ddsp_enq_flags) | flags;
        let Some(dsq) = self.resolve(core, cpu, task, id) else { return };
        self.custody[task] = 0;
        if dsq < core.nr_cpus() && dsq != self.dsqs.local(cpu) {
            self.deferred.push((task, dsq, flags));
        } else {
            self.put(core, dsq, task, flags);
        }
    }

    /// `find_dsq_for_dispatch()`. If the queue does not exist, the run ends with an error.
    fn resolve(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, id: u64) -> Option<DsqIndex> {
        if id == DSQ_LOCAL {
            return Some(self.dsqs.local(cpu));
        }
        if id & DSQ_LOCAL_ON == DSQ_LOCAL_ON {
            let cpu = (id & 0xffff_ffff) as usize;
            if cpu < core.nr_cpus() {
                return Some(self.dsqs.local(cpu));
            }
            core.fail(self.callback, Some(task), format!("SCX_DSQ_LOCAL_ON: CPU {cpu} does not exist"));
            return None;
        }
        if id == DSQ_GLOBAL {
            return Some(self.dsqs.global());
        }
        let found = self.dsqs.find(id);
        if found.is_none() {
            core.fail(self.callback, Some(task), format!("queue {id:#x} does not exist"));
        }
        found
    }

    /// The policy's queue or the local queue with this id; `None`: it does not exist.
    pub(crate) fn resolve_for_reading(&mut self, core: &mut Core, id: u64) -> Option<DsqIndex> {
        if id & DSQ_BUILTIN == 0 {
            return self.dsqs.find(id);
        }
        let cpu = if id == DSQ_LOCAL { core.here } else { (id & 0xffff_ffff) as usize };
        if id != DSQ_LOCAL && id & DSQ_LOCAL_ON != DSQ_LOCAL_ON {
            return None;
        }
        (cpu < core.nr_cpus()).then(|| self.dsqs.local(cpu))
    }

    /// `dispatch_enqueue()`.
    pub(super) fn put(&mut self, core: &mut Core, dsq: DsqIndex, task: TaskId, flags: u64) {
        let builtin = dsq <= self.dsqs.global();
        let vtime = (flags & BY_VTIME != 0).then_some(core.tasks[task].scx.dsq_vtime);
        if builtin && vtime.is_some() {
            core.fail(self.callback, Some(task), "a built-in queue is not ordered by virtual time");
            return;
        }
        let lock = self.dsqs.lock_of(dsq);
        if let Some(lock) = lock {
            core.lock(lock);
        }
        let scx = &mut core.tasks[task].scx;
        scx.ddsp_dsq_id = DSQ_INVALID;
        scx.ddsp_enq_flags = 0;
        let at_head = flags & (ENQ_HEAD | ENQ_PREEMPT) != 0;
        self.custody[task] = 0;
        if let Err(what) = self.dsqs.push(dsq, task, at_head, vtime) {
            core.fail(self.callback, Some(task), format!("queue {:#x}: {what}", self.dsqs.id_of(dsq)));
        }
        if let Some(lock) = lock {
            core.unlock(lock);
        }
        if dsq < core.nr_cpus() {
            self.after_local(core, dsq, task, flags);
        }
    }

    /// Reschedules `cpu` after an insertion into its local queue, if it is idle, runs a lower class, or `flags`
    /// request preemption.
    fn after_local(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, flags: u64) {
        match core.cpus[cpu].curr {
            None => core.resched(cpu),
            Some(curr) if core.tasks[curr].class > self.index => core.resched(cpu),
            Some(curr)
                if flags & ENQ_PREEMPT != 0 && curr != task && core.tasks[curr].class == self.index =>
            {
                core.tasks[curr].scx.slice = 0;
                core.resched(cpu);
            }
            Some(_) => {}
        }
    }

    /// `scx_bpf_dsq_insert()` and, with `vtime`, `scx_bpf_dsq_insert_vtime()`.
    pub(crate) fn insert(
        &mut self,
        core: &mut Core,
        task: TaskId,
        dsq_id: u64,
        slice: u64,
        flags: u64,
        vtime: Option<u64>,
    ) -> bool {
        if flags & ENQ_INTERNAL != 0 {
            core.fail(self.callback, Some(task), format!("enq_flags {flags:#x} are not for policies"));
            return false;
        }
        let scx = &mut core.tasks[task].scx;
        scx.slice = if slice > 0 { slice } else { scx.slice.max(1) };
        let mut flags = flags;
        if let Some(vtime) = vtime {
            scx.dsq_vtime = vtime;
            flags |= BY_VTIME;
        }
        match self.direct {
            Direct::Open(open) if open == task && scx.ddsp_dsq_id == DSQ_INVALID => {
                scx.ddsp_dsq_id = dsq_id;
                scx.ddsp_enq_flags = flags;
            }
            Direct::Open(open) if open == task => {
                core.fail(self.callback, Some(task), "is inserted a second time");
                return false;
            }
            Direct::Open(open) => {
                let what =
                    format!("is inserted while the policy is asked about {}", core.tasks[open].label());
                core.fail(self.callback, Some(task), what);
                return false;
            }
            Direct::None if self.dispatching.is_none() => {
                core.fail(self.callback, Some(task), "is inserted outside select_cpu, enqueue and dispatch");
                return false;
            }
            Direct::None if self.verdicts.len() >= self.max_batch as usize => {
                core.fail(self.callback, Some(task), "dispatch buffer overflow");
                return false;
            }
            Direct::None => {
                let custody = self.custody[task];
                self.verdicts.push(Verdict { task, dsq_id, flags, custody });
            }
        }
        true
    }

    /// `flush_dispatch_buf()` and `finish_dispatch()`: carries out the requested insertions. As in the kernel, an
    /// insertion is ignored if the policy's custody of the task has ended since.
    pub(super) fn flush(&mut self, core: &mut Core, cpu: CpuId) {
        let verdicts = std::mem::take(&mut self.verdicts);
        for verdict in &verdicts {
            let Verdict { task, dsq_id, flags, custody } = *verdict;
            self.dispatched += 1;
            if custody == 0 || self.custody[task] != custody {
                continue;
            }
            let Some(dsq) = self.resolve(core, cpu, task, dsq_id) else { continue };
            self.custody[task] = 0;
            if dsq < core.nr_cpus() {
                self.put_local(core, dsq, task, flags);
            } else {
                self.put(core, dsq, task, flags);
            }
        }
        self.verdicts = verdicts;
        self.verdicts.clear();
    }

    /// `scx_bpf_dispatch_nr_slots()`.
    pub(crate) fn free_slots(&self) -> u32 {
        self.max_batch - self.verdicts.len() as u32
    }

    /// `scx_bpf_dispatch_cancel()`.
    pub(crate) fn cancel_dispatch(&mut self, core: &mut Core) {
        if self.verdicts.pop().is_none() {
            core.fail(self.callback, None, "dispatch buffer underflow");
        }
    }

    /// `dispatch_to_local_dsq()`: inserts a task into the local queue of `cpu`, moving it there if need be.
    pub(super) fn put_local(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, flags: u64) {
        let from = core.tasks[task].cpu;
        if from == cpu {
            return self.put(core, cpu, task, flags);
        }
        if !core.tasks[task].may_run_on(cpu) {
            let what = format!("may not run on CPU {cpu}, to whose local queue it goes");
            return core.fail(self.callback, Some(task), what);
        }
        if !core.online.has(cpu) {
            let global = self.dsqs.global();
            return self.put(core, global, task, flags);
        }
        self.migrate(core, cpu, task, flags);
    }

    /// `move_remote_task_to_local_dsq()`.
    pub(super) fn migrate(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, flags: u64) {
        let lock = core.cpus[core.tasks[task].cpu].lock;
        if core.tasks[task].cpu != core.here {
            core.lock(lock);
            core.unlock(lock);
        }
        core.set_task_cpu(task, cpu);
        let lock = core.cpus[cpu].lock;
        if cpu != core.here {
            core.lock(lock);
        }
        self.put(core, cpu, task, flags);
        if cpu != core.here {
            core.unlock(lock);
        }
    }
}
