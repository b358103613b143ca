//! How fast a CPU is at this moment: its core, the other threads that run on that core, its
//! frequency.
//!
//! A task's work is given in ns at full speed. A CPU at another speed takes longer for it by its
//! [`Pace`]. When that changes while a task runs, the end of its remaining work is computed again.
use super::{Core, CpuId, TaskId};
use crate::engine::Ns;
use flsched_machine::{Distance, FULL_SPEED, Price};

/// How many times longer than at full speed work takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace(u64);

const UNIT: u32 = 16;

impl Pace {
    /// Full speed.
    pub const FULL: Self = Self(1 << UNIT);

    /// `speed` relative to `full`.
    fn of(speed: u64, full: u64) -> Self {
        Self(((full << UNIT) / speed.max(1)).max(1 << UNIT))
    }

    /// How long this work takes, rounded up.
    pub fn time(self, work: Ns) -> Ns {
        if self == Self::FULL {
            return work;
        }
        const UP: u64 = (1 << UNIT) - 1;
        if let Some(product) = work.checked_mul(self.0).and_then(|product| product.checked_add(UP)) {
            return product >> UNIT;
        }
        let product = u128::from(work) * u128::from(self.0) + u128::from(UP);
        u64::try_from(product >> UNIT).unwrap_or(u64::MAX)
    }

    /// How much work is done in this time, rounded down: all of it in the time from [`Self::time`].
    pub fn work(self, time: Ns) -> Ns {
        match time.checked_mul(1 << UNIT) {
            _ if self == Self::FULL => time,
            Some(product) => product / self.0,
            None => (u128::from(time) * (1 << UNIT) / u128::from(self.0)) as u64,
        }
    }
}

impl Core {
    /// `scx_bpf_cpuperf_cap()`: relative to the machine's fastest CPU.
    pub(crate) fn perf_cap(&self, cpu: CpuId) -> u32 {
        self.machine.speed.capacity[cpu]
    }

    /// `scx_bpf_cpuperf_cur()`: the mean frequency before the CPU's last tick, relative to the one
    /// that the kernel takes for the highest. A CPU that idles without ticks keeps the old value.
    pub(crate) fn perf_cur(&self, cpu: CpuId) -> u32 {
        self.cpus[cpu].perf_seen
    }

    /// `scx_bpf_cpuperf_set()`: the performance that the CPU should have. Only `schedutil` uses it.
    pub(crate) fn set_perf_target(&mut self, cpu: CpuId, perf: u32) {
        self.cpus[cpu].perf_target = Some(perf);
        self.watch_frequency(cpu);
    }

    /// What sched_ext starts with.
    pub(crate) fn ask_for_full_speed(&mut self) {
        self.cpus.iter_mut().for_each(|cpu| cpu.perf_target = Some(FULL_SPEED));
    }

    /// `arch_scale_freq_tick()`: of the time since the last tick, as far as the CPU was busy.
    pub(crate) fn see_frequency(&mut self, cpu: CpuId) {
        if let Some(frequency) = &self.machine.speed.frequency
            && let Some(mhz) = self.frequencies.at_tick(self.now, cpu)
        {
            let perf = mhz * u64::from(FULL_SPEED) / u64::from(*frequency.scale_mhz);
            self.cpus[cpu].perf_seen = perf.min(u64::from(FULL_SPEED)) as u32;
        }
    }

    /// `cpu` leaves the idle task or switches to it, which affects its core's other threads and its
    /// frequency.
    pub(crate) fn set_busy(&mut self, cpu: CpuId, is_busy: bool) {
        let core = self.machine.places[cpu].core;
        let busy = &mut self.busy_threads[core];
        *busy = if is_busy { *busy + 1 } else { *busy - 1 };
        let busy = *busy;
        self.frequencies.count(&self.machine, self.now, cpu, is_busy, busy);
        if is_busy {
            self.watch_frequency(cpu);
        }
        let changes = |count: u32| self.machine.smt_speed(count);
        let before = if is_busy { busy - 1 } else { busy + 1 };
        if before > 0 && changes(before) != changes(busy) {
            for index in 0..self.machine.threads[core].len() {
                self.renew_pace(self.machine.threads[core][index]);
            }
        } else {
            self.renew_pace(cpu);
        }
    }

    /// The speed of `cpu` may have changed.
    pub(super) fn renew_pace(&mut self, cpu: CpuId) {
        let speed = &self.machine.speed;
        let smt = self.machine.smt_speed(self.busy_threads[self.machine.places[cpu].core]);
        let mut of = u64::from(speed.capacity[cpu]) * u64::from(smt);
        let mut full = u64::from(FULL_SPEED) * u64::from(FULL_SPEED);
        if let Some(frequency) = &speed.frequency {
            of *= u64::from(self.frequencies.of_cpu(cpu));
            full *= u64::from(frequency.max_mhz());
        }
        let pace = Pace::of(of, full);
        if pace == self.cpus[cpu].pace {
            return;
        }
        let worked = self.stop_work(cpu, self.now);
        self.cpus[cpu].pace = pace;
        if let Some(since) = worked {
            self.start_work(cpu, since.max(self.now));
        }
    }

    /// The task of `cpu` stops its work at `until`, until [`Self::start_work`]. Returns since when it
    /// worked, if it did.
    pub(crate) fn stop_work(&mut self, cpu: CpuId, until: Ns) -> Option<Ns> {
        let state = &mut self.cpus[cpu];
        let (since, done_at) = state.working.take()?;
        if let Some(curr) = state.curr {
            let left = &mut self.tasks[curr].work_left;
            let time = until.saturating_sub(since);
            // Mostly all of it is done, and a division takes long.
            let work = if until == done_at { *left } else { state.pace.work(time) };
            *left = left.saturating_sub(work);
            self.spent.add_work(work, time);
        }
        Some(since)
    }

    /// It continues its work from `since` on; the idle task has none.
    pub(crate) fn start_work(&mut self, cpu: CpuId, since: Ns) {
        let state = &mut self.cpus[cpu];
        let done_at =
            state.curr.map(|curr| since.saturating_add(state.pace.time(self.tasks[curr].work_left)));
        state.working = done_at.map(|done_at| (since, done_at));
        self.queue.set_work(cpu, done_at);
    }

    /// `task` begins to run on `cpu`, which must load the task's data first.
    pub(crate) fn warm_up(&mut self, cpu: CpuId, task: TaskId) {
        let footprint = self.tasks[task].footprint;
        if footprint.is_empty() {
            return;
        }
        let Some(sizes) = &self.machine.speed.caches else { return };
        let (own, group) = (task, self.tasks[task].tgid as usize - 1);
        let (ns, bytes) = self.caches.load(sizes, &self.machine.places[cpu], footprint, own, group);
        self.counts.reloading += ns;
        // A fast core does not make memory faster: the time is given, and the work is what fills
        // it.
        let work = self.cpus[cpu].pace.work(ns);
        self.spent.assign(Price::Load, work);
        self.tasks[task].work_left += work + self.wait_for_memory(cpu, bytes, work);
    }

    /// How much longer the running task of `cpu` works for this piece of its program because other cores have the
    /// lines that it writes. Its process's threads that run now are taken to run as long as the piece takes; threads
    /// of one core have the lines in one cache.
    pub(crate) fn sharing(&mut self, cpu: CpuId, task: TaskId, piece: Ns) -> Ns {
        let lines = self.tasks[task].footprint.lines_per_us * piece / 1000;
        if lines == 0 || self.machine.speed.caches.is_none() {
            return 0;
        }
        let (machine, process) = (&self.machine, self.tasks[task].tgid);
        let runs =
            |other: &CpuId| self.cpus[*other].curr.is_some_and(|curr| self.tasks[curr].tgid == process);
        let travel_ns = |other: CpuId| match machine.distance(other, cpu) {
            Distance::Core => 0,
            distance => machine.costs.handover_ns.at(distance),
        };
        let (threads, sum) = (0..self.nr_cpus())
            .filter(runs)
            .fold((0, 0), |(threads, sum), other| (threads + 1, sum + travel_ns(other)));
        // As in `warm_up()`: a fast core does not make the way shorter.
        let work = self.cpus[cpu].pace.work(lines * sum / threads.max(1));
        self.spent.assign(Price::Handover, work);
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_planned_is_done() {
        for (speed, full) in [(1, 1), (2, 3), (7, 1024), (1023, 1024), (1, 1000)] {
            let pace = Pace::of(speed, full);
            for work in [0, 1, 2, 3, 999, 1_000_000_007, 3_600_000_000_000_000] {
                assert_eq!(pace.work(pace.time(work)), work, "{work} at {speed}/{full}");
                assert!(pace.time(work) >= work);
            }
        }
        assert_eq!(Pace::of(1, 2).time(100), 200);
        assert_eq!(Pace::of(1, 2).work(200), 100);
        assert_eq!(Pace::of(1, 2).time(u64::MAX), u64::MAX);
    }
}
