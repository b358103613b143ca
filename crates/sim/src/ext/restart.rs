//! Restart after CPU hotplug: the kernel ends a policy that has no hotplug callbacks, and its loader attaches it
//! again with tables of the CPUs that are online then.
use super::Ext;
use super::class::weight;
use super::dsq::Dsqs;
use crate::core::{Core, State, Task, TaskId};
use crate::env::abi::*;
use crate::env::instance::Instance;
use crate::env::maps::Maps;

impl Ext {
    /// Ends the policy and starts it again. This takes no time, whereas in the kernel the default scheduler runs in
    /// between.
    pub(super) fn restart(&mut self, core: &mut Core) {
        let alive = |task: &&Task| task.state != State::Dead || task.is_queued;
        let tasks: Vec<TaskId> = core.tasks.iter().filter(alive).map(|task| task.id).collect();
        self.end(core, &tasks);
        let loaded = Instance::load(&self.spec, &core.machine, &core.online, self.kfuncs)
            .and_then(|instance| Ok((instance.ops()?, instance)));
        match loaded {
            Ok((ops, instance)) => {
                self.ops = ops;
                self.instance = instance;
            }
            Err(error) => return core.fail("init", None, error.to_string()),
        }
        if let Some(init) = self.ops().init {
            // SAFETY: a callback of the policy.
            let result = self.call(core, "init", || unsafe { init() });
            if result != 0 {
                return core.fail("init", None, format!("it returned {result}"));
            }
        }
        self.begin(core, &tasks);
        let online: Vec<usize> = core.online.iter().collect();
        online.into_iter().for_each(|cpu| core.resched(cpu));
    }

    /// Ends the old instance and discards its state, except for its statistics.
    fn end(&mut self, core: &mut Core, tasks: &[TaskId]) {
        for &task in tasks {
            if core.tasks[task].class == self.index {
                self.disable_task(core, task);
            }
            self.exit_task(core, task);
        }
        if let Some(exit) = self.ops().exit {
            let mut info = ExitInfo::restart();
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "exit", || unsafe { exit((&raw mut info).cast()) });
        }
        self.counted = self.counts();
        self.dsqs = Dsqs::new(core);
        self.custody.fill(0);
        self.deferred.clear();
        self.kicks.clear();
        self.verdicts.clear();
        for timer in &mut self.timers {
            timer.is_armed = false;
            timer.generation = timer.generation.wrapping_add(1);
        }
        self.free_masks();
        self.maps = Maps::default();
        *self.idle_cpus = core.online.clone();
        *self.idle_cores = core.online.clone();
    }

    /// Passes all tasks to the new instance.
    fn begin(&mut self, core: &mut Core, tasks: &[TaskId]) {
        for &task in tasks {
            self.init_task(core, task, false);
        }
        for &task in tasks {
            if core.tasks[task].class != self.index {
                continue;
            }
            self.enable_task(core, task);
            let cpu = core.tasks[task].cpu;
            if core.tasks[task].scx.flags & TASK_QUEUED == 0 {
                continue;
            }
            if core.cpus[cpu].curr != Some(task) {
                self.set_runnable(core, task);
                self.do_enqueue(core, cpu, task, 0);
            } else if let Some(running) = self.ops().running {
                let pointer = core.tasks[task].as_ptr();
                // SAFETY: a callback of the policy, with the arguments of its type.
                self.call(core, "running", || unsafe { running(pointer) });
            }
        }
    }

    /// `scx_init_task()`. `is_fork`: the task is being forked; false: it existed before the policy.
    pub(super) fn init_task(&mut self, core: &mut Core, task: TaskId, is_fork: bool) {
        let state = &mut core.tasks[task];
        state.scx.ddsp_dsq_id = DSQ_INVALID;
        state.scx.ddsp_enq_flags = 0;
        state.scx.slice = SLICE_DFL;
        state.scx.dsq_vtime = 0;
        state.scx.weight = weight(state);
        let pointer = state.as_ptr();
        if let Some(init_task) = self.ops().init_task {
            let mut args = InitTaskArgs { fork: is_fork };
            // SAFETY: a callback of the policy, with the arguments of its type.
            let result = self.call(core, "init_task", || unsafe { init_task(pointer, &mut args) });
            if result != 0 {
                core.fail("init_task", Some(task), format!("it returned {result}"));
            }
        }
    }

    /// `scx_enable_task()`.
    pub(super) fn enable_task(&mut self, core: &mut Core, task: TaskId) {
        let pointer = core.tasks[task].as_ptr();
        if let Some(enable) = self.ops().enable {
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "enable", || unsafe { enable(pointer) });
        }
        self.set_weight(core, task);
    }

    pub(super) fn set_weight(&mut self, core: &mut Core, task: TaskId) {
        let (pointer, weight) = (core.tasks[task].as_ptr(), core.tasks[task].scx.weight);
        if let Some(set_weight) = self.ops().set_weight {
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "set_weight", || unsafe { set_weight(pointer, weight) });
        }
    }

    /// `scx_disable_task()`.
    pub(super) fn disable_task(&mut self, core: &mut Core, task: TaskId) {
        let pointer = core.tasks[task].as_ptr();
        if let Some(disable) = self.ops().disable {
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "disable", || unsafe { disable(pointer) });
        }
    }

    /// `scx_exit_task()`.
    pub(super) fn exit_task(&mut self, core: &mut Core, task: TaskId) {
        let pointer = core.tasks[task].as_ptr();
        if let Some(exit_task) = self.ops().exit_task {
            let mut args = ExitTaskArgs { cancelled: false };
            // SAFETY: a callback of the policy, with the arguments of its type.
            self.call(core, "exit_task", || unsafe { exit_task(pointer, &mut args) });
        }
    }
}
