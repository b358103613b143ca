//! How a CPU gets its next task: `balance_one()`, `consume_dispatch_q()` and related functions of
//! `kernel/sched/ext.c`.
use super::Ext;
use super::dsq::DsqIndex;
use crate::core::{Core, CpuId, TaskId};
use crate::env::abi::*;

/// `SCX_DSP_MAX_LOOPS`.
const MOST_LOOPS: u32 = 32;

impl Ext {
    /// `balance_one()`: fills the local queue of `cpu`, or decides that `prev` continues.
    pub(super) fn balance_one(&mut self, core: &mut Core, cpu: CpuId, prev: Option<TaskId>) {
        self.keep[cpu] = false;
        if self.released[cpu] {
            self.released[cpu] = false;
            if let Some(acquire) = self.ops().cpu_acquire {
                let mut args = 0u64; // its struct is empty
                // SAFETY: a callback of the policy, with the arguments of its type.
                self.call(core, "cpu_acquire", || unsafe { acquire(cpu as i32, (&raw mut args).cast()) });
            }
        }
        if prev.is_some() {
            self.update_curr(core, cpu);
        }
        let goes_on = prev.filter(|&prev| core.tasks[prev].scx.flags & TASK_QUEUED != 0);
        let has_slice = |core: &Core| goes_on.is_some_and(|prev| core.tasks[prev].scx.slice > 0);
        if has_slice(core) {
            self.keep[cpu] = true;
            return;
        }
        if self.dsqs.len(cpu) > 0 || self.consume(core, cpu, self.dsqs.global()) {
            return;
        }
        if let Some(dispatch) = self.ops().dispatch
            && core.online.has(cpu)
        {
            let pointer = prev.map_or(std::ptr::null_mut(), |prev| core.tasks[prev].as_ptr());
            for _ in 0..MOST_LOOPS {
                self.dispatched = 0;
                self.dispatching = Some(cpu);
                // SAFETY: a callback of the policy, with the arguments of its type.
                self.call(core, "dispatch", || unsafe { dispatch(cpu as i32, pointer) });
                self.flush(core, cpu);
                self.dispatching = None;
                if core.violation.is_some() {
                    return;
                }
                if has_slice(core) {
                    self.keep[cpu] = true;
                    return;
                }
                if self.dsqs.len(cpu) > 0 || self.consume(core, cpu, self.dsqs.global()) {
                    return;
                }
                if self.dispatched == 0 {
                    break;
                }
            }
            // The policy kept dispatching tasks, but none to this CPU. The CPU ends this scheduling cycle and
            // is kicked to begin another.
            if self.dispatched > 0 {
                self.kicks.push((cpu, 0));
            }
        }
        if goes_on.is_some() && self.flags & OPS_ENQ_LAST == 0 {
            self.keep[cpu] = true;
        }
    }

    /// `scx_bpf_dsq_move_to_local()`.
    pub(crate) fn move_to_local(&mut self, core: &mut Core, id: u64) -> bool {
        let Some(cpu) = self.dispatching else {
            core.fail(self.callback, None, "a task is moved to the local queue outside dispatch");
            return false;
        };
        self.flush(core, cpu);
        let Some(dsq) = self.dsqs.find(id).filter(|_| id & DSQ_BUILTIN == 0) else {
            core.fail(self.callback, None, format!("queue {id:#x} does not exist"));
            return false;
        };
        let moved = self.consume(core, cpu, dsq);
        self.dispatched += u32::from(moved);
        moved
    }

    /// `consume_dispatch_q()`: moves the first task that may run on `cpu` to its local queue. An empty queue is
    /// not locked.
    fn consume(&mut self, core: &mut Core, cpu: CpuId, dsq: DsqIndex) -> bool {
        let Some(first) = self.dsqs.first(dsq) else { return false };
        let lock = self.dsqs.lock_of(dsq);
        if let Some(lock) = lock {
            core.lock(lock);
        }
        let mut next = Some(first);
        let found = std::iter::from_fn(|| {
            let task = next?;
            next = self.dsqs.beside(task, false);
            Some(task)
        })
        .find(|&task| {
            let state = &core.tasks[task];
            state.cpu == cpu || (core.online.has(cpu) && state.may_run_on(cpu))
        });
        if let Some(task) = found {
            self.dsqs.remove(task);
        }
        if let Some(lock) = lock {
            core.unlock(lock);
        }
        match found {
            Some(task) if core.tasks[task].cpu == cpu => self.put(core, cpu, task, 0),
            Some(task) => self.migrate(core, cpu, task, 0),
            None => return false,
        }
        true
    }

    /// `scx_bpf_dsq_move()`: moves a task from the queue that is being iterated to another one.
    pub(crate) fn move_task(
        &mut self,
        core: &mut Core,
        task: TaskId,
        id: u64,
        flags: u64,
        by_vtime: bool,
    ) -> bool {
        if !["dispatch", "timer"].contains(&self.callback) {
            core.fail(self.callback, Some(task), "is moved outside dispatch and timers");
            return false;
        }
        let home = core.tasks[task].cpu;
        let local_of = self.dispatching.unwrap_or(home);
        let index = match id {
            DSQ_LOCAL => Some(self.dsqs.local(local_of)),
            DSQ_GLOBAL => Some(self.dsqs.global()),
            _ if id & DSQ_BUILTIN != 0 => self.resolve_for_reading(core, id),
            _ => self.dsqs.find(id),
        };
        let Some(dsq) = index else {
            core.fail(self.callback, Some(task), format!("queue {id:#x} does not exist"));
            return false;
        };
        self.dsqs.remove(task);
        if dsq < core.nr_cpus() {
            self.put_local(core, dsq, task, flags);
        } else {
            self.put(core, dsq, task, flags | if by_vtime { 1 << 57 } else { 0 });
            // Whose queue it is the kernel does not know. A CPU that chooses its next task takes others for itself.
            if let Some(cpu) = self.dispatching {
                core.waits_for(task, cpu);
            }
        }
        self.dispatched += 1;
        true
    }

    /// `scx_bpf_reenqueue_local()`: enqueues all tasks of the CPU's local queue again. Returns their number.
    pub(crate) fn reenqueue_local(&mut self, core: &mut Core) -> u32 {
        let cpu = core.here;
        if self.callback != "cpu_release" {
            core.fail(self.callback, None, "scx_bpf_reenqueue_local() is for cpu_release only");
            return 0;
        }
        let mut waiting = Vec::new();
        let mut next = self.dsqs.first(cpu);
        while let Some(task) = next {
            next = self.dsqs.beside(task, false);
            waiting.push(task);
        }
        for &task in &waiting {
            self.dsqs.remove(task);
            self.do_enqueue(core, cpu, task, ENQ_REENQ);
        }
        waiting.len() as u32
    }
}
