//! sched_ext as a scheduling class: the functions of `ext_sched_class`, under the same names where the kernel has
//! them.
use super::{Direct, Ext};
use crate::Error;
use crate::classes::{Class, Dequeue, Enqueue, Wake};
use crate::core::{Core, CpuId, Task, TaskId};
use crate::engine::display_ns;
use crate::env::abi::*;
use flsched_machine::Price;

impl Class for Ext {
    fn name(&self) -> &str {
        self.spec.policy.name
    }

    fn start(&mut self, core: &mut Core) -> Result<(), Error> {
        core.ask_for_full_speed();
        let Some(init) = self.ops().init else { return Ok(()) };
        // SAFETY: a callback of the policy.
        let result = self.call(core, "init", || unsafe { init() });
        if let Some(violation) = core.violation.take() {
            return Err(violation.into());
        }
        if result != 0 {
            let what = format!("its init callback returned {result}");
            return Err(Error::Policy { policy: self.spec.policy.name.into(), what });
        }
        // At the end of scx_enable() each CPU chooses its next task. Here that takes no time.
        let online: Vec<CpuId> = core.online.iter().filter(|&cpu| core.cpus[cpu].curr.is_none()).collect();
        online.into_iter().for_each(|cpu| self.update_idle(core, cpu, true, true));
        Ok(())
    }

    fn task_new(&mut self, core: &mut Core, task: TaskId) {
        self.custody.resize(core.tasks.len(), 0);
        core.tasks[task].scx.flags |= TASK_RESET_RUNNABLE_AT;
        self.init_task(core, task, true);
        self.enable_task(core, task);
    }

    fn task_new_elsewhere(&mut self, core: &mut Core, task: TaskId) {
        self.custody.resize(core.tasks.len(), 0);
        core.tasks[task].scx.flags |= TASK_RESET_RUNNABLE_AT;
        self.init_task(core, task, true);
    }

    fn task_exists(&mut self, core: &mut Core, task: TaskId) {
        self.custody.resize(core.tasks.len(), 0);
        core.tasks[task].scx.flags |= TASK_RESET_RUNNABLE_AT;
        self.init_task(core, task, false);
    }

    fn task_dead(&mut self, core: &mut Core, task: TaskId) {
        self.disable_task(core, task);
        self.exit_task(core, task);
    }

    fn task_dead_elsewhere(&mut self, core: &mut Core, task: TaskId) {
        self.exit_task(core, task);
    }

    /// `reweight_task_scx()`.
    fn reweight(&mut self, core: &mut Core, task: TaskId) {
        let weight = weight(&core.tasks[task]);
        core.tasks[task].scx.weight = weight;
        self.set_weight(core, task);
    }

    /// `switching_to_scx()`.
    fn task_joins(&mut self, core: &mut Core, task: TaskId) {
        core.tasks[task].scx.weight = weight(&core.tasks[task]);
        core.tasks[task].scx.flags |= TASK_RESET_RUNNABLE_AT;
        self.enable_task(core, task);
        self.set_cpumask(core, task);
    }

    /// `switched_from_scx()`.
    fn task_leaves(&mut self, core: &mut Core, task: TaskId) {
        self.disable_task(core, task);
    }

    fn select_cpu(&mut self, core: &mut Core, task: TaskId, prev: CpuId, wake: Wake) -> CpuId {
        let flags = match wake {
            Wake::Fork => WAKE_FORK,
            Wake::Up { sync: false } => WAKE_TTWU,
            Wake::Up { sync: true } => WAKE_TTWU | WAKE_SYNC,
        };
        let Some(select_cpu) = self.ops().select_cpu else {
            if !self.has_builtin_idle {
                return prev;
            }
            let Some(cpu) = self.select_idle(core, task, prev, flags, None, 0) else { return prev };
            core.tasks[task].scx.slice = SLICE_DFL;
            core.tasks[task].scx.ddsp_dsq_id = DSQ_LOCAL;
            return cpu;
        };
        self.direct = Direct::Open(task);
        let pointer = core.tasks[task].as_ptr();
        // SAFETY: a callback of the policy, with the arguments of its type.
        let cpu = self.call(core, "select_cpu", || unsafe { select_cpu(pointer, prev as i32, flags) });
        self.direct = Direct::None;
        core.tasks[task].scx.selected_cpu = cpu;
        let valid = usize::try_from(cpu).ok().filter(|&cpu| cpu < core.nr_cpus());
        valid.unwrap_or_else(|| {
            core.fail("select_cpu", Some(task), format!("CPU {cpu} does not exist"));
            prev
        })
    }

    /// `scx_allow_ttwu_queue()`.
    fn allows_queued_wake_ups(&self) -> bool {
        self.flags & OPS_ALLOW_QUEUED_WAKEUP != 0
    }

    /// Not for a task that `ops.select_cpu` has inserted.
    fn calls_ops_enqueue(&self, core: &Core, task: TaskId) -> bool {
        core.tasks[task].scx.ddsp_dsq_id == DSQ_INVALID
    }

    fn enqueue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Enqueue) {
        let selected = core.tasks[task].nr_cpus_allowed > 1 && core.tasks[task].migration_disabled == 0;
        let flags = match why {
            Enqueue::WakeUp if selected => ENQ_WAKEUP | ENQ_CPU_SELECTED,
            Enqueue::WakeUp | Enqueue::Delayed => ENQ_WAKEUP,
            // `wake_up_new_task()` does not say that the policy has chosen the CPU.
            Enqueue::Fork | Enqueue::Restore => 0,
        };
        core.tasks[task].scx.flags |= TASK_QUEUED;
        self.set_runnable(core, task);
        if core.tasks[task].on_rq != ON_RQ_MIGRATING
            && let Some(runnable) = self.ops().runnable
        {
            let pointer = core.tasks[task].as_ptr();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "runnable", || unsafe { runnable(pointer, flags) });
        }
        // The running task is put back after a change, as of its affinity: it keeps its CPU.
        if core.cpus[cpu].curr == Some(task) {
            let local = self.dsqs.local(cpu);
            return self.put(core, local, task, flags);
        }
        self.do_enqueue(core, cpu, task, flags);
    }

    fn dequeue(&mut self, core: &mut Core, cpu: CpuId, task: TaskId, why: Dequeue) {
        let flags = if why == Dequeue::Sleep { DEQ_SLEEP } else { 0 };
        self.ops_dequeue(core, task, flags);
        let pointer = core.tasks[task].as_ptr();
        self.update_curr(core, cpu);
        if core.cpus[cpu].curr == Some(task)
            && let Some(stopping) = self.ops().stopping
        {
            // SAFETY: a callback of the policy, with the arguments of its type; likewise below.
            self.call(core, "stopping", || unsafe { stopping(pointer, false) });
        }
        if core.tasks[task].on_rq != ON_RQ_MIGRATING
            && let Some(quiescent) = self.ops().quiescent
        {
            // SAFETY: as above.
            self.call(core, "quiescent", || unsafe { quiescent(pointer, flags) });
        }
        let scx = &mut core.tasks[task].scx;
        scx.flags &= !(TASK_QUEUED | TASK_DEQD_FOR_SLEEP);
        if why == Dequeue::Sleep {
            scx.flags |= TASK_DEQD_FOR_SLEEP;
        }
        scx.ddsp_dsq_id = DSQ_INVALID;
        scx.ddsp_enq_flags = 0;
        self.deferred.retain(|(deferred, ..)| *deferred != task);
        if let Some(dsq) = self.dsqs.of(task) {
            self.locked(core, dsq, |ext| ext.dsqs.remove(task));
        }
    }

    /// A wake-up does not preempt by itself: the policy kicks a CPU for that.
    fn wakeup_preempt(&mut self, _core: &mut Core, _cpu: CpuId, _task: TaskId) {}

    fn balance(&mut self, core: &mut Core, cpu: CpuId, prev: Option<TaskId>) {
        self.balance_one(core, cpu, prev);
    }

    fn pick(&mut self, core: &mut Core, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let next = if self.keep[cpu] { prev } else { self.dsqs.first(cpu) }?;
        if core.tasks[next].scx.slice == 0 {
            core.tasks[next].scx.slice = SLICE_DFL;
        }
        Some(next)
    }

    fn put_prev(&mut self, core: &mut Core, cpu: CpuId, prev: TaskId, next: Option<TaskId>) {
        self.update_curr(core, cpu);
        let queued = core.tasks[prev].scx.flags & TASK_QUEUED != 0;
        if queued && let Some(stopping) = self.ops().stopping {
            let pointer = core.tasks[prev].as_ptr();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "stopping", || unsafe { stopping(pointer, true) });
        }
        let next_class = next.map(|next| core.tasks[next].class);
        if queued {
            self.set_runnable(core, prev);
            if core.tasks[prev].scx.slice > 0 {
                self.put(core, cpu, prev, ENQ_HEAD);
            } else if next_class.is_none_or(|class| class > self.index) {
                self.do_enqueue(core, cpu, prev, ENQ_LAST);
            } else {
                self.do_enqueue(core, cpu, prev, 0);
            }
        }
        if let Some(next) = next
            && next_class.is_some_and(|class| class < self.index)
            && !self.released[cpu]
        {
            self.released[cpu] = true;
            if let Some(cpu_release) = self.ops().cpu_release {
                let mut args = CpuReleaseArgs { reason: 0, task: core.tasks[next].as_ptr() };
                // SAFETY: a callback of the policy, with the arguments of its type.
                self.call(core, "cpu_release", || unsafe { cpu_release(cpu as i32, &mut args) });
            }
        }
    }

    fn set_next(&mut self, core: &mut Core, _cpu: CpuId, next: TaskId) {
        self.ops_dequeue(core, next, DEQ_CORE_SCHED_EXEC);
        self.dsqs.remove(next);
        if let Some(running) = self.ops().running {
            let pointer = core.tasks[next].as_ptr();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "running", || unsafe { running(pointer) });
        }
        core.tasks[next].scx.flags |= TASK_RESET_RUNNABLE_AT;
    }

    fn tick(&mut self, core: &mut Core, cpu: CpuId, curr: TaskId) {
        self.update_curr(core, cpu);
        if let Some(tick) = self.ops().tick {
            let pointer = core.tasks[curr].as_ptr();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "tick", || unsafe { tick(pointer) });
        }
        if core.tasks[curr].scx.slice == 0 {
            core.resched(cpu);
        }
    }

    fn yield_task(&mut self, core: &mut Core, _cpu: CpuId, curr: TaskId) {
        match self.ops().yield_task {
            Some(yield_task) => {
                let pointer = core.tasks[curr].as_ptr();
                // SAFETY: a callback of the policy, with the arguments of its type.
                self.call(core, "yield", || unsafe { yield_task(pointer, std::ptr::null_mut()) });
            }
            None => core.tasks[curr].scx.slice = 0,
        }
    }

    fn yield_to(&mut self, core: &mut Core, _cpu: CpuId, curr: TaskId, to: TaskId) -> bool {
        self.ops().yield_task.is_some_and(|yield_task| {
            let (from, to) = (core.tasks[curr].as_ptr(), core.tasks[to].as_ptr());
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "yield", || unsafe { yield_task(from, to) })
        })
    }

    fn update_idle(&mut self, core: &mut Core, cpu: CpuId, is_idle: bool, changed: bool) {
        if changed && let Some(update_idle) = self.ops().update_idle {
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "update_idle", || unsafe { update_idle(cpu as i32, is_idle) });
        }
        if self.has_builtin_idle {
            self.record_idle(&core.machine, cpu, is_idle);
        }
    }

    fn set_cpumask(&mut self, core: &mut Core, task: TaskId) {
        if let Some(set_cpumask) = self.ops().set_cpumask {
            let pointer = core.tasks[task].as_ptr();
            let mask = core.tasks[task].cpus_ptr;
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "set_cpumask", || unsafe { set_cpumask(pointer, mask) });
        }
    }

    /// Carries out deferred insertions, then kicks. The kernel mostly does both in `irq_work`.
    fn settle(&mut self, core: &mut Core, _cpu: CpuId) {
        while !self.deferred.is_empty() {
            let (task, cpu, flags) = self.deferred.remove(0);
            self.put_local(core, cpu, task, flags);
        }
        if self.kicks.is_empty() {
            return;
        }
        // Kicks go out in the order of CPUs; those with SCX_KICK_IDLE come last.
        self.kicks.sort_by_key(|&(cpu, flags)| (flags & KICK_IDLE, cpu));
        for (cpu, flags) in std::mem::take(&mut self.kicks) {
            let curr = core.cpus[cpu].curr;
            if !core.online.has(cpu) && cpu != core.here {
                continue;
            }
            if flags & KICK_IDLE != 0 {
                if curr.is_none() {
                    core.resched(cpu);
                }
                continue;
            }
            if let Some(curr) = curr {
                if core.tasks[curr].class < self.index {
                    continue;
                }
                if flags & KICK_PREEMPT != 0 && core.tasks[curr].class == self.index {
                    core.tasks[curr].scx.slice = 0;
                }
            }
            core.resched(cpu);
            if flags & KICK_WAIT != 0 && cpu != core.here {
                core.spend(Price::Ipi, 2 * core.ipi_ns(cpu));
            }
        }
    }

    fn hotplug(&mut self, core: &mut Core, cpu: CpuId, is_online: bool) {
        let callback = if is_online { self.ops().cpu_online } else { self.ops().cpu_offline };
        match callback {
            Some(callback) => {
                let name = if is_online { "cpu_online" } else { "cpu_offline" };
                // SAFETY: a callback of the policy, with the arguments of its type.
                self.call(core, name, || unsafe { callback(cpu as i32) });
            }
            None => self.restart(core),
        }
    }

    fn timer(&mut self, core: &mut Core, _cpu: CpuId, timer: usize, generation: u32) {
        let state = &mut self.timers[timer];
        if state.generation != generation || !state.is_armed {
            return;
        }
        state.is_armed = false;
        let (map, value) = (state.map.cast(), state.value);
        let mut key = state.key.clone();
        if let Some(handler) = state.handler {
            // SAFETY: a timer's handler, with the arguments that BPF passes to it.
            self.call(core, "timer", || unsafe { handler(map, key.as_mut_ptr(), value) });
        }
    }

    fn watchdog(&mut self, core: &mut Core) {
        let now = core.now / core.machine.tick_ns + 1000;
        let limit = u64::from(self.timeout_ms) * 1_000_000 / core.machine.tick_ns;
        let starved = core.tasks.iter().find(|task| {
            task.class == self.index
                && task.is_queued
                && core.cpus[task.cpu].curr != Some(task.id)
                && now.saturating_sub(task.scx.runnable_at) > limit
        });
        if let Some(task) = starved {
            let waited = (now - task.scx.runnable_at) * core.machine.tick_ns;
            let what = format!("has been runnable for {} and does not run", display_ns(waited));
            core.fail(crate::WATCHDOG, Some(task.id), what);
        }
    }

    fn waiting(&self, core: &Core) -> usize {
        let held = core.tasks.iter().filter(|task| {
            self.custody.get(task.id).is_some_and(|&custody| custody != 0)
                && task.is_queued
                && core.cpus[task.cpu].curr != Some(task.id)
        });
        self.dsqs.total() + self.deferred.len() + held.count()
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        let names = self.spec.policy.statistics.iter().map(|statistic| statistic.name.to_owned());
        names.zip(self.counts().into_iter().chain(std::iter::repeat(0))).collect()
    }
}

impl Ext {
    /// The policy's statistics, including those from before its restarts.
    pub(super) fn counts(&self) -> Vec<u64> {
        let now = self.instance.address("policy_stats").map(|map| self.maps.sums(map, self.keep.len()));
        let mut now = now.unwrap_or_default();
        now.resize(now.len().max(self.counted.len()), 0);
        now.iter_mut().zip(&self.counted).for_each(|(now, before)| *now += before);
        now
    }

    /// `set_task_runnable()`.
    pub(super) fn set_runnable(&mut self, core: &mut Core, task: TaskId) {
        let jiffies = core.jiffies();
        let scx = &mut core.tasks[task].scx;
        if scx.flags & TASK_RESET_RUNNABLE_AT != 0 {
            scx.runnable_at = jiffies;
            scx.flags &= !TASK_RESET_RUNNABLE_AT;
        }
    }

    /// `ops_dequeue()`: calls `ops.dequeue` if the policy has custody of the task, and ends the custody.
    fn ops_dequeue(&mut self, core: &mut Core, task: TaskId, flags: u64) {
        if std::mem::take(&mut self.custody[task]) == 0 {
            return;
        }
        if let Some(dequeue) = self.ops().dequeue {
            let pointer = core.tasks[task].as_ptr();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "dequeue", || unsafe { dequeue(pointer, flags) });
        }
    }

    fn locked<R>(&mut self, core: &mut Core, dsq: usize, body: impl FnOnce(&mut Self) -> R) -> R {
        let lock = self.dsqs.lock_of(dsq);
        if let Some(lock) = lock {
            core.lock(lock);
        }
        let result = body(self);
        if let Some(lock) = lock {
            core.unlock(lock);
        }
        result
    }
}

/// `sched_weight_to_cgroup()` of `sched_prio_to_weight`: 100 at nice 0.
pub(super) fn weight(task: &Task) -> u32 {
    let load = task.weight();
    ((load * 100 + 512) / 1024).clamp(1, 10_000) as u32
}
