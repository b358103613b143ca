//! What tasks load and use their CPUs with, over time: `update_load_avg()` and what belongs to it. Balancing goes by the
//! load, `schedutil` by the utilisation. Both go with a task to another CPU.
use super::pelt::{Amounts, Average};
use super::{Fair, Rules};
use crate::core::{Core, CpuId, TaskId};
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

impl TaskLoad {
    /// Whether it is a part of another CPU's averages.
    pub(super) fn is_on_other(&self, cpu: CpuId) -> bool {
        self.cpu.is_some_and(|it| it != cpu)
    }
}

impl<R: Rules> Fair<R> {
    /// A task is added to a CPU's run queue.
    pub(super) fn add(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.stamp(task);
        let weight = core.tasks[task].weight();
        if self.loads[task].cpu != Some(cpu) {
            self.leave_load(core, task);
            self.update_average(core, cpu);
            self.queues[cpu].average.attach(&mut self.loads[task].average, weight);
            self.loads[task].cpu = Some(cpu);
        }
        self.turn_to(core, cpu, task, Amounts::WAITING);
        let queue = &mut self.queues[cpu];
        queue.load += weight;
        queue.estimate += self.loads[task].estimate;
        queue.count += 1;
        if queue.count + queue.delayed == 2 {
            self.overloaded += 1;
            self.was_overloaded = true;
        }
    }

    /// It leaves that queue.
    pub(super) fn sub(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.turn_to(core, cpu, task, Amounts::ASLEEP);
        let queue = &mut self.queues[cpu];
        queue.estimate -= self.loads[task].estimate;
        queue.count -= 1;
        self.unload(core, cpu, task);
    }

    /// It sleeps, but does not leave the queue, and goes on loading the CPU: `set_delayed()`.
    pub(super) fn delay(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.turn_to(core, cpu, task, Amounts::DELAYED);
        let queue = &mut self.queues[cpu];
        queue.estimate -= self.loads[task].estimate;
        queue.count -= 1;
        queue.delayed += 1;
    }

    /// It is woken before it has left: `requeue_delayed_entity()`.
    pub(super) fn resume(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.turn_to(core, cpu, task, Amounts::WAITING);
        let queue = &mut self.queues[cpu];
        queue.estimate += self.loads[task].estimate;
        queue.count += 1;
        queue.delayed -= 1;
    }

    /// Such tasks have left the queue, asleep.
    pub(super) fn drop_load(&mut self, core: &Core, cpu: CpuId) {
        while let Some(task) = self.rules.take_left(cpu) {
            self.turn_to(core, cpu, task, Amounts::ASLEEP);
            self.queues[cpu].delayed -= 1;
            self.unload(core, cpu, task);
        }
    }

    fn unload(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        let queue = &mut self.queues[cpu];
        queue.load -= core.tasks[task].weight();
        self.overloaded -= usize::from(queue.count + queue.delayed == 1);
    }

    /// The task, which is not queued, is no longer part of a CPU's averages.
    pub(super) fn leave_load(&mut self, core: &Core, task: TaskId) {
        let Some(cpu) = self.loads[task].cpu.take() else { return };
        self.turn_to(core, cpu, task, Amounts::ASLEEP);
        let weight = core.tasks[task].weight();
        self.queues[cpu].average.detach(&self.loads[task].average, weight);
    }

    /// `remove_entity_load_avg()`: the task, which sleeps, is woken on another CPU, or has ended. Its old CPU takes its part
    /// off its averages when these are next updated, and seems to be loaded with it until then. If the CPU pulls another
    /// task meanwhile, it counts both, and balancing takes it for the busiest CPU although it has one task only.
    pub(super) fn remove_load(&mut self, core: &Core, task: TaskId) {
        let load = &mut self.loads[task];
        let Some(cpu) = load.cpu.take() else { return };
        let queue = &mut self.queues[cpu];
        load.average.update(queue.average.known_at(), Amounts::ASLEEP);
        queue.removed.push((load.average, core.tasks[task].weight()));
    }

    /// The running task's averages and its CPU's: `entity_tick()`.
    pub(super) fn tick_load(&mut self, core: &Core, cpu: CpuId, task: TaskId) {
        self.turn_to(core, cpu, task, Amounts::RUNNING);
    }

    /// The averages of all idle CPUs, of which nobody else takes care: `NOHZ_STATS_KICK`.
    pub(super) fn update_idle_averages(&mut self, core: &Core) {
        for cpu in 0..self.queues.len() {
            if self.is_idle(core, cpu) {
                self.update_average(core, cpu);
            }
        }
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
        for (mut average, weight) in queue.removed.drain(..) {
            average.update(now, Amounts::ASLEEP);
            queue.average.detach(&average, weight);
        }
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

    /// `cpu_load()`, when it was last updated; before 4.x, and in the model of it, what is there at the moment.
    pub(super) fn cpu_load(&self, cpu: CpuId) -> u64 {
        let queue = &self.queues[cpu];
        if R::IS_MODERN { queue.average.load(1) } else { queue.load }
    }

    /// `task_h_load()`, of a task that can run or has just been woken.
    pub(super) fn task_load(&self, core: &Core, task: TaskId) -> u64 {
        let weight = core.tasks[task].weight();
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
            used => used * core.tasks[task].weight() / (there.load(1) + 1),
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

#[cfg(test)]
mod tests {
    use super::super::tests::{fork, four_cpus};
    use crate::classes::{Class, Dequeue, Enqueue};
    use crate::core::{Core, TaskId};

    #[test]
    fn a_cpu_seems_loaded_with_those_that_left_it_asleep_until_it_does_something() {
        let (mut core, mut fair) = four_cpus();
        fork(&mut core, &mut fair);
        for _ in 0..2 {
            let task = fork(&mut core, &mut fair);
            core.set_task_cpu(task, 1);
            fair.enqueue(&mut core, 1, task, Enqueue::Fork);
        }
        fair.dequeue(&mut core, 1, 1, Dequeue::Sleep);
        let loads = |fair: &super::Fair<_>| [fair.cpu_load(0), fair.cpu_load(1)];
        assert_eq!(loads(&fair), [0, 2048]);
        core.set_task_cpu(1, 0);
        fair.enqueue(&mut core, 0, 1, Enqueue::WakeUp);
        assert_eq!(loads(&fair), [1024, 2048]);
        fair.dequeue(&mut core, 1, 2, Dequeue::Sleep);
        assert_eq!(loads(&fair), [1024, 1024]);
        fair.task_dead(&mut core, 2);
        assert_eq!(loads(&fair), [1024, 1024], "it has ended, and the CPU has done nothing since");
        fair.update_idle_averages(&core);
        assert_eq!(loads(&fair), [1024, 0]);
    }

    /// A task that has run for longer than its share stays in the queue when it goes to sleep, until the other has caught up.
    #[test]
    fn a_task_loads_its_cpu_until_it_leaves_the_queue() {
        const MS: u64 = 1_000_000;
        type Fair = super::Fair<super::super::Eevdf>;
        let (mut core, mut fair) = four_cpus();
        let tasks = [0, 1].map(|_| fork(&mut core, &mut fair));
        for task in tasks {
            fair.enqueue(&mut core, 0, task, Enqueue::Fork);
        }
        let begin = |core: &mut Core, fair: &mut Fair, task: TaskId| {
            core.cpus[0].curr = Some(task);
            core.tasks[task].se.exec_start = core.clock();
            fair.set_next(core, 0, task);
        };
        begin(&mut core, &mut fair, tasks[0]);
        core.cpus[0].clock += 2 * MS;
        fair.dequeue(&mut core, 0, tasks[0], Dequeue::Sleep);
        let queue = |fair: &Fair| (fair.queues[0].count, fair.queues[0].delayed, fair.queues[0].load);
        assert_eq!(queue(&fair), (1, 1, 2048));
        fair.put_prev(&mut core, 0, tasks[0], None);
        assert_eq!(fair.pick(&mut core, 0, None), Some(tasks[1]));
        assert_eq!(queue(&fair), (1, 1, 2048), "it has not waited yet");
        begin(&mut core, &mut fair, tasks[1]);
        core.cpus[0].clock += 4 * MS;
        assert_eq!(fair.pick(&mut core, 0, Some(tasks[1])), Some(tasks[1]));
        assert_eq!(queue(&fair), (1, 0, 1024));
    }
}
