//! What tasks load and use their CPUs with, over time: `update_load_avg()` and what belongs to it. Balancing goes by the
//! load, `schedutil` by the utilisation. Both go with a task to another CPU.
use super::pelt::{Amounts, Average};
use super::{Fair, Rules};
use crate::core::{Core, CpuId, TaskId, load_weight};
use crate::engine::Ns;
use flsched_machine::FULL_SPEED;

/// `UTIL_EST_MARGIN`: smaller differences do not count, of [`FULL_SPEED`].
const MARGIN: u64 = 10;

const FULL: u64 = FULL_SPEED as u64;

/// A task's part in that.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TaskLoad {
    average: Average,
    /// What it does since they were updated.
    does: Amounts,
    /// The CPU of whose averages it is a part, even while it sleeps.
    cpu: Option<CpuId>,
    /// What it used by the time when it last went to sleep; falls slowly: `util_est`.
    estimate: u64,
}

impl<R: Rules> Fair<R> {
    /// A task is added to a CPU's run queue.
    pub(super) fn add(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.stamp(task);
        let weight = load_weight(core.tasks[task].static_prio);
        if self.loads[task].cpu != Some(cpu) {
            self.leave_load(core, task);
            self.update_average(core, cpu);
            self.queues[cpu].average.attach(&mut self.loads[task].average, weight);
            self.loads[task].cpu = Some(cpu);
        }
        self.turn_to(core, cpu, task, Amounts::WAITING);
        let queue = &mut self.queues[cpu];
        queue.count += 1;
        queue.load += weight;
        queue.estimate += self.loads[task].estimate;
        self.overloaded += usize::from(queue.count == 2);
    }

    /// It leaves that queue.
    pub(super) fn sub(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.turn_to(core, cpu, task, Amounts::ASLEEP);
        let queue = &mut self.queues[cpu];
        queue.count -= 1;
        queue.load -= load_weight(core.tasks[task].static_prio);
        queue.estimate -= self.loads[task].estimate;
        self.overloaded -= usize::from(queue.count == 1);
    }

    /// The task, which is not queued, is no longer part of a CPU's averages.
    pub(super) fn leave_load(&mut self, core: &Core, task: TaskId) {
        let Some(cpu) = self.loads[task].cpu.take() else { return };
        self.turn_to(core, cpu, task, Amounts::ASLEEP);
        let weight = load_weight(core.tasks[task].static_prio);
        self.queues[cpu].average.detach(&self.loads[task].average, weight);
    }

    /// The task begins to run.
    pub(super) fn run(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.turn_to(core, cpu, task, Amounts::RUNNING);
        self.queues[cpu].runs = true;
    }

    /// The running task does not run any more, and waits if it has not left.
    pub(super) fn stop(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.update_average(core, cpu);
        self.queues[cpu].runs = false;
        if self.loads[task].does == Amounts::RUNNING {
            self.turn_to(core, cpu, task, Amounts::WAITING);
        }
    }

    /// Updates a task's averages and those of its CPU, before the task turns to something else.
    fn turn_to(&mut self, core: &Core, cpu: CpuId, task: TaskId, does: Amounts) {
        let now = self.update_average(core, cpu);
        let load = &mut self.loads[task];
        let did = std::mem::replace(&mut load.does, does);
        load.average.update(now, did);
    }

    /// Returns the time on the CPU's clock for averages.
    fn update_average(&mut self, core: &Core, cpu: CpuId) -> Ns {
        let queue = &mut self.queues[cpu];
        let now = queue.clock.advance(core.clock(), speed(core, cpu));
        queue.average.update(now, Amounts::of_cpu(queue.load, queue.count, queue.runs));
        now
    }

    /// As they will be at that time.
    pub(super) fn average_at(&self, core: &Core, cpu: CpuId, at: Ns) -> Average {
        let queue = &self.queues[cpu];
        let (mut clock, mut average) = (queue.clock, queue.average);
        let now = clock.advance(at, speed(core, cpu));
        average.update(now, Amounts::of_cpu(queue.load, queue.count, queue.runs));
        average
    }

    /// The CPU switches to the idle task or from it: its clock for averages will pass at another speed.
    pub(super) fn turn_clock(&mut self, core: &Core, cpu: CpuId, is_idle: bool) {
        let queue = &mut self.queues[cpu];
        let speed = if is_idle { busy_speed(core, cpu) } else { FULL };
        queue.clock.advance(core.clock(), speed);
        if is_idle {
            queue.clock.catch_up(queue.average.is_full());
        }
    }

    /// `cpu_load()`; before 4.x, and in the model of it, what is there at the moment.
    pub(super) fn cpu_load(&self, core: &Core, cpu: CpuId) -> u64 {
        if R::IS_MODERN { self.average_at(core, cpu, core.clock()).load(1) } else { self.queues[cpu].load }
    }

    /// `task_h_load()`, of a task that can run or has just been woken.
    pub(super) fn task_load(&self, core: &Core, task: TaskId) -> u64 {
        let weight = load_weight(core.tasks[task].static_prio);
        if R::IS_MODERN { self.loads[task].average.load(weight) } else { weight }
    }

    /// `post_init_entity_util_avg()`: a new task is expected to use as much as the CPU's others for its weight, but not more
    /// than half of what they leave.
    pub(super) fn expect(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.update_average(core, cpu);
        let there = &self.queues[cpu].average;
        let most = u64::from(core.perf_cap(cpu)).saturating_sub(there.utilisation()) / 2;
        let expected = match there.utilisation() {
            0 => most,
            used => used * load_weight(core.tasks[task].static_prio) / (there.load(1) + 1),
        };
        self.loads[task].average = Average::new(expected.min(most));
    }

    /// `util_est_update()`, of a task that has just left its queue to sleep.
    pub(super) fn estimate(&mut self, task: TaskId) {
        let TaskLoad { average, estimate, .. } = &mut self.loads[task];
        let used = average.utilisation();
        if used >= *estimate {
            *estimate = used;
        } else if used + MARGIN < *estimate && used + MARGIN >= average.runnable() {
            *estimate -= (*estimate - used) / 4;
        }
    }

    /// `cpu_util_cfs_boost()` of what the CPU can do, of [`FULL_SPEED`].
    pub(super) fn cpu_utilisation(&self, core: &Core, cpu: CpuId) -> u32 {
        let average = self.average_at(core, cpu, core.now);
        let used = average.utilisation().max(average.runnable()).max(self.queues[cpu].estimate);
        let share = used * FULL / u64::from(core.perf_cap(cpu)).max(1);
        share.min(FULL) as u32
    }
}

/// How fast the CPU works, of [`FULL_SPEED`], as the kernel knows it; the idle task's time is everywhere the same.
fn speed(core: &Core, cpu: CpuId) -> u64 {
    if core.cpus[cpu].curr.is_none() { FULL } else { busy_speed(core, cpu) }
}

fn busy_speed(core: &Core, cpu: CpuId) -> u64 {
    u64::from(core.perf_cap(cpu)) * u64::from(core.perf_cur(cpu)) / FULL
}
