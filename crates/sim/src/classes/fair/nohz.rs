//! How CPUs without work find some: `sched_balance_newidle()`, and later, idle and without ticks,
//! by another CPU's request: `nohz_balancer_kick()`.
use super::balance::Doing;
use super::{Fair, MIGRATION_COST, Rules};
use crate::core::{Core, CpuId};
use crate::engine::{Event, Ns, Random};
use rand::RngExt;
use std::sync::Arc;

const SECOND: Ns = 1_000_000_000;
/// `LOAD_AVG_PERIOD`, in ms.
const AVERAGES_NS: Ns = 32_000_000;

/// One idle CPU at a time balances for all idle ones.
#[derive(Debug, Default)]
pub(super) struct Nohz {
    /// Not before this time.
    next: Ns,
    /// The idle CPU that has been called; it works through the others from here on.
    at: Option<CpuId>,
    /// How many CPUs are left.
    left: usize,
    /// When the averages of idle CPUs are to be updated next.
    next_averages: Ns,
}

/// How often a CPU that would idle has found a task in a domain. It searches with this probability (`NI_RANDOM`, since
/// 7.0, in 6.18 since 6.18.5).
#[derive(Debug, Clone)]
pub(super) struct Success {
    calls: u32,
    /// A search that was made counts as many as were not.
    successes: u32,
    /// Of 1024.
    ratio: u32,
}

/// `sd_init()`.
impl Default for Success {
    fn default() -> Self {
        Self { calls: 512, successes: 256, ratio: 512 }
    }
}

impl Success {
    /// Is there to be a search? Returns what one that finds a task counts.
    fn throw(&mut self, random: &mut Random) -> Option<u32> {
        let weight = 1 + self.ratio;
        if random.random_range(0..1024) > weight {
            self.note(0);
            return None;
        }
        Some((1024 + weight / 2) / weight)
    }

    /// `update_newidle_stats()`.
    fn note(&mut self, successes: u32) {
        self.calls += 1;
        self.successes += successes;
        if self.calls >= 1024 {
            self.ratio = self.successes;
            self.calls /= 2;
            self.successes /= 2;
        }
    }
}

impl<R: Rules> Fair<R> {
    pub(super) fn note_idle(&mut self, now: Ns, cpu: CpuId, is_idle: bool) {
        let queue = &mut self.queues[cpu];
        if is_idle {
            queue.idle_since = Some(now);
            return;
        }
        if let Some(since) = queue.idle_since.take() {
            let idled = now.saturating_sub(since);
            let average = queue.average_idle + idled / 8 - queue.average_idle / 8;
            let is_long = !R::IS_MODERN && idled > 2 * MIGRATION_COST;
            queue.average_idle = if is_long { idled } else { average }.min(2 * MIGRATION_COST);
        }
    }

    /// `cpu` has nothing to run, and searches for tasks no longer than it usually idles. Its lock
    /// is held, and released in between.
    pub(super) fn balance_newly_idle(&mut self, core: &mut Core, cpu: CpuId) {
        if R::IS_MODERN && Self::is_woken_for(core, cpu) {
            return;
        }
        let patience = self.queues[cpu].average_idle;
        let is_worth_it = match self.queues[cpu].levels.first() {
            Some(level) if R::IS_MODERN => patience >= level.cost,
            Some(_) => patience >= MIGRATION_COST,
            None => false,
        };
        if R::IS_MODERN {
            self.expect_to_idle(core, cpu);
        }
        let is_overloaded = if R::IS_MODERN { self.was_overloaded } else { self.overloaded > 0 };
        if !is_overloaded || !is_worth_it {
            return;
        }
        let lock = core.cpus[cpu].lock;
        core.unlock(lock);
        let domains = Arc::clone(&self.domains);
        let mut spent = 0;
        for (depth, domain) in domains.around(cpu).enumerate() {
            if R::IS_MODERN && patience < spent + self.queues[cpu].levels[depth].cost {
                break;
            }
            let success = &mut self.queues[cpu].levels[depth].success;
            let thrown = if R::IS_MODERN { success.throw(&mut core.random) } else { Some(1) };
            let Some(weight) = thrown else { continue };
            let before = core.clock();
            let moved = self.balance_domain(core, cpu, depth, domain, Doing::Stopping);
            let now = core.clock();
            self.note_search(cpu, depth, now, now - before, if moved > 0 { weight } else { 0 });
            spent += now - before;
            if moved > 0 || self.queues[cpu].count > 0 || Self::is_woken_for(core, cpu) {
                break;
            }
        }
        core.lock(lock);
    }

    /// `ttwu_pending`: a task that the CPU is to enqueue itself is on its way.
    fn is_woken_for(core: &Core, cpu: CpuId) -> bool {
        !core.cpus[cpu].wake_list.is_empty()
    }

    /// `update_next_balance()`: when to balance next was decided for a working CPU, which does so more seldom.
    fn expect_to_idle(&mut self, core: &Core, cpu: CpuId) {
        if let Some(last) = self.queues[cpu].levels.first().and_then(|level| level.balanced_at) {
            let next = last + self.interval(core, cpu, 0, Doing::Idling);
            self.queues[cpu].balance_at = self.queues[cpu].balance_at.min(next);
        }
    }

    /// `update_newidle_cost()`: the highest cost so far, which decays by 1 % a second. Here all searches that find a task
    /// take as long as most do; on the kernel the longest takes a third more (8, 12 and 28 µs with 4, 16 and 64 CPUs, where
    /// most take 6, 9 and 24 µs).
    fn note_search(&mut self, cpu: CpuId, depth: usize, now: Ns, cost: Ns, successes: u32) {
        let cost = cost * 4 / 3;
        let level = &mut self.queues[cpu].levels[depth];
        level.success.note(successes);
        if cost > level.cost {
            level.cost = cost.min(MIGRATION_COST + 200);
            level.cost_at = now;
        } else if now > level.cost_at + SECOND {
            level.cost = level.cost * 253 / 256;
            level.cost_at = now;
        }
    }

    /// At the tick of a working CPU: checks whether there is a task that idle CPUs could pull.
    pub(super) fn kick_idle_balance(&mut self, core: &mut Core, cpu: CpuId) {
        if core.clock() >= self.nohz.next_averages {
            self.nohz.next_averages = core.clock() + AVERAGES_NS;
            self.update_idle_averages(core);
        }
        if self.nohz.at.is_some() || core.clock() < self.nohz.next {
            return;
        }
        let shared = self.domains.cache(cpu);
        let is_crowded = self.queues[cpu].count > 1
            || shared.len() > 1 && shared.iter().filter(|&&cpu| !self.is_idle(core, cpu)).count() > 1;
        let idle = core.idle.first_common_from(&core.online, 0);
        let Some(idle) = idle.filter(|_| is_crowded) else { return };
        self.nohz.next = core.clock() + core.machine.tick_ns;
        self.nohz.at = Some(idle);
        self.nohz.left = core.nr_cpus();
        core.send(idle, self.call(idle));
    }

    fn call(&self, cpu: CpuId) -> Event {
        Event::Timer { class: self.index, cpu, timer: 0, generation: 0 }
    }

    /// `nohz_idle_balance()`: for the next idle CPU that is due, then for the others, unless there is a
    /// task to run.
    pub(super) fn balance_for_idle(&mut self, core: &mut Core, cpu: CpuId) {
        let Some(from) = self.nohz.at else { return };
        let count = core.nr_cpus();
        let mut at = from;
        while self.nohz.left > 0 {
            self.nohz.left -= 1;
            at = (at + 1) % count;
            if core.online.has(at) && self.is_idle(core, at) && core.clock() >= self.queues[at].balance_at {
                self.balance_domains(core, at);
                break;
            }
        }
        let goes_on = self.nohz.left > 0 && self.is_idle(core, cpu) && !core.cpus[cpu].need_resched;
        self.nohz.at = goes_on.then_some(at);
        if goes_on {
            core.queue.push(core.clock(), self.call(cpu));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::random;

    /// How many of 100,000 searches are made, in the second half of them, if so many of 1024 find a task.
    fn made(found: u32) -> f64 {
        let (mut random, mut success) = (random(1, 0), Success::default());
        let mut made = 0;
        for number in 0..100_000 {
            let Some(weight) = success.throw(&mut random) else { continue };
            success.note(if random.random_range(0..1024) < found { weight } else { 0 });
            made += u32::from(number >= 50_000);
        }
        f64::from(made) / 50_000.0
    }

    #[test]
    fn a_cpu_searches_as_often_as_it_finds_a_task() {
        for found in [0, 256, 768, 1024] {
            let (made, found) = (made(found), f64::from(found) / 1024.0);
            assert!((made - found).abs() < 0.1, "{made} of the searches, {found} of which find a task");
        }
    }
}
