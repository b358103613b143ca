//! How CPUs without work find some: `sched_balance_newidle()`, and later, idle and without ticks,
//! by another CPU's request: `nohz_balancer_kick()`.
use super::balance::Doing;
use super::{Fair, MIGRATION_COST, Rules};
use crate::core::{Core, CpuId};
use crate::engine::{Event, Ns};
use std::sync::Arc;

const SECOND: Ns = 1_000_000_000;

/// One idle CPU at a time balances for all idle ones.
#[derive(Debug, Default)]
pub(super) struct Nohz {
    /// Not before this time.
    next: Ns,
    /// The idle CPU that has been called; it works through the others from here on.
    at: Option<CpuId>,
    /// How many CPUs are left.
    left: usize,
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
        let patience = self.queues[cpu].average_idle;
        let is_worth_it = match self.queues[cpu].levels.first() {
            Some(level) if R::IS_MODERN => patience >= level.cost,
            Some(_) => patience >= MIGRATION_COST,
            None => false,
        };
        if R::IS_MODERN {
            self.expect_to_idle(core, cpu);
        }
        if self.overloaded == 0 || !is_worth_it {
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
            let before = core.clock();
            let moved = self.balance_domain(core, cpu, depth, domain, Doing::Stopping);
            let now = core.clock();
            self.note_cost(cpu, depth, now, now - before);
            spent += now - before;
            if moved > 0 || self.queues[cpu].count > 0 {
                break;
            }
        }
        core.lock(lock);
    }

    /// `update_next_balance()`: when to balance next was decided for a working CPU, which does so more seldom.
    fn expect_to_idle(&mut self, core: &Core, cpu: CpuId) {
        if let Some(last) = self.queues[cpu].levels.first().and_then(|level| level.balanced_at) {
            let next = last + self.interval(core, cpu, 0, Doing::Idling);
            self.queues[cpu].balance_at = self.queues[cpu].balance_at.min(next);
        }
    }

    /// `update_newidle_cost()`: the highest cost so far, which decays by 1 % a second. Here all searches take as long as
    /// most do; on the kernel the longest takes twice as long (`max_newidle_lb_cost`, 21 µs, where most take 10 µs).
    fn note_cost(&mut self, cpu: CpuId, depth: usize, now: Ns, cost: Ns) {
        let cost = 2 * cost;
        let level = &mut self.queues[cpu].levels[depth];
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
