//! A CPU with less load pulls tasks that wait on a busier CPU: `sched_balance_rq()`, and when it is
//! called by a CPU that works. For a CPU that is about to idle see [`super::nohz`].
use super::idlest::{Fullness, GroupLoad};
use super::{Fair, MIGRATION_COST, Rules};
use crate::classes::Enqueue;
use crate::classes::domains::{Domain, Level};
use crate::core::{Core, CpuId, SCHED_NORMAL, TaskId};
use crate::engine::Ns;
use flsched_machine::Price;
use std::sync::Arc;

/// `sysctl_sched_nr_migrate`: the most tasks that are moved at a time.
const MOST: usize = 32;
const MS: Ns = 1_000_000;

/// What the balancing CPU is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Working,
    Idling,
    /// It has just run out of work.
    Stopping,
}

/// How much has to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    Tasks(u64),
    Load(u64),
}

/// The shortest interval between two attempts: one millisecond for each CPU.
pub(super) fn shortest(domain: &Domain) -> Ns {
    domain.cpus.len() as Ns * MS
}

impl<R: Rules> Fair<R> {
    /// `sched_balance_domains()` of `cpu`, executed by the simulated CPU.
    pub(super) fn balance_domains(&mut self, core: &mut Core, cpu: CpuId) {
        let domains = Arc::clone(&self.domains);
        let tick = core.machine.tick_ns;
        let mut next = core.clock() + 60_000 * MS;
        for (depth, domain) in domains.around(cpu).enumerate() {
            let doing = if self.is_idle(core, cpu) { Doing::Idling } else { Doing::Working };
            let last = self.queues[cpu].levels[depth].balanced_at;
            if last.is_none_or(|last| core.clock() >= last + self.interval(core, cpu, depth, doing)) {
                self.balance_domain(core, cpu, depth, domain, doing);
                self.queues[cpu].levels[depth].balanced_at = Some(core.clock());
            }
            let doing = if self.is_idle(core, cpu) { Doing::Idling } else { Doing::Working };
            let last = self.queues[cpu].levels[depth].balanced_at.unwrap_or(0);
            next = next.min(last + self.interval(core, cpu, depth, doing));
        }
        self.queues[cpu].balance_at = next.max(core.clock() + tick / 2);
    }

    /// `get_sd_balance_interval()`: longer for a CPU that is busy.
    pub(super) fn interval(&self, core: &Core, cpu: CpuId, depth: usize, doing: Doing) -> Ns {
        let tick = core.machine.tick_ns;
        let mut interval = self.queues[cpu].levels[depth].interval;
        if doing == Doing::Working {
            let factor = match self.domains.at(cpu, depth).level {
                _ if R::IS_MODERN => 16,
                Level::Machine => 32,
                _ => 64,
            };
            interval = (interval * factor).saturating_sub(tick);
        }
        interval.clamp(tick, (core.nr_cpus() as Ns * 100 * MS).max(tick))
    }

    /// `sched_balance_rq()`: `cpu` pulls from the busiest group of the domain. Returns how many
    /// tasks were moved.
    pub(super) fn balance_domain(
        &mut self,
        core: &mut Core,
        cpu: CpuId,
        depth: usize,
        domain: &Domain,
        doing: Doing,
    ) -> usize {
        let Some(local) = domain.groups.iter().position(|group| group.binary_search(&cpu).is_ok()) else {
            return 0;
        };
        if doing != Doing::Stopping && !self.is_appointed(core, cpu, &domain.groups[local]) {
            return 0;
        }
        if R::IS_MODERN {
            Self::spend_search(core, domain.cpus.len());
        } else {
            core.spend(Price::LoadBalance, *core.machine.costs.load_balance_ns);
        }
        let loads: Vec<GroupLoad> = domain
            .groups
            .iter()
            .map(|group| self.group_load(core, group.iter().copied(), domain.imbalance_percent()))
            .collect();
        if domain.cpus.len() == core.nr_cpus() {
            self.was_overloaded = self.overloaded > 0;
        }
        if R::IS_MODERN && doing != Doing::Stopping && domain.cpus.len() == self.domains.cache(cpu).len() {
            let used: u64 = loads.iter().map(|group| group.used).sum();
            self.limit_scan(cpu, used, domain.imbalance_percent());
        }
        let found = busiest(&loads, local, domain, doing).and_then(|(group, excess)| {
            Some((self.busiest_of(core, &domain.groups[group], excess)?, excess))
        });
        let Some((from, excess)) = found else {
            self.back_off(cpu, depth, domain, doing);
            return 0;
        };
        let moved = self.fetch(core, from, cpu, domain, excess, doing, depth);
        let level = &mut self.queues[cpu].levels[depth];
        if moved > 0 {
            level.failed = 0;
            level.interval = shortest(domain);
            return moved;
        }
        if doing != Doing::Stopping {
            level.failed += 1;
        }
        if level.failed > domain.cache_nice_tries() + 2 && self.ask_to_evict(core, from, cpu) {
            self.queues[cpu].levels[depth].failed = 0;
        }
        0
    }

    /// The running task of `from` is the only one that can be moved.
    fn ask_to_evict(&mut self, core: &mut Core, from: CpuId, to: CpuId) -> bool {
        let may_go = core.cpus[from].curr.is_some_and(|curr| core.tasks[curr].may_run_on(to));
        if !self.is_mine(core, from) || !may_go || self.queues[from].evict_to.is_some() {
            return false;
        }
        self.queues[from].evict_to = Some(to);
        core.resched(from);
        true
    }

    /// `should_we_balance()`: one CPU balances for its group, an idle one if there is any.
    fn is_appointed(&self, core: &Core, cpu: CpuId, group: &[CpuId]) -> bool {
        let online = || group.iter().copied().filter(|&cpu| core.online.has(cpu));
        online().find(|&other| self.is_idle(core, other)).or(online().next()) == Some(cpu)
    }

    fn back_off(&mut self, cpu: CpuId, depth: usize, domain: &Domain, doing: Doing) {
        let level = &mut self.queues[cpu].levels[depth];
        level.failed = 0;
        if doing != Doing::Stopping {
            level.interval = (level.interval * 2).min(2 * shortest(domain));
        }
    }

    /// `sched_balance_find_src_rq()`
    fn busiest_of(&self, core: &Core, group: &[CpuId], excess: Excess) -> Option<CpuId> {
        let key = |cpu: CpuId| match excess {
            Excess::Tasks(_) => self.queues[cpu].count as u64,
            Excess::Load(_) => self.cpu_load(cpu),
        };
        let mut best: Option<CpuId> = None;
        for &cpu in group.iter().filter(|&&cpu| core.online.has(cpu) && self.queues[cpu].count > 0) {
            if let Excess::Load(most) = excess
                && self.queues[cpu].count == 1
                && self.cpu_load(cpu) > most
            {
                continue;
            }
            if best.is_none_or(|best| key(cpu) > key(best)) {
                best = Some(cpu);
            }
        }
        best
    }

    /// `detach_tasks()`, `attach_tasks()`: first the tasks that have not run for longest.
    #[allow(clippy::too_many_arguments, reason = "struct lb_env")]
    fn fetch(
        &mut self,
        core: &mut Core,
        from: CpuId,
        to: CpuId,
        domain: &Domain,
        excess: Excess,
        doing: Doing,
        depth: usize,
    ) -> usize {
        if self.queues[from].count < 2 {
            return 0;
        }
        let (source, target) = (core.cpus[from].lock, core.cpus[to].lock);
        core.lock(source);
        if !R::IS_MODERN {
            core.lock(target);
        }
        let failed = self.queues[to].levels[depth].failed;
        let mut left = excess;
        let mut candidates = self.rules.waiting(from);
        candidates.sort_by_key(|&task| self.stamps[task]);
        let mut moved = Vec::new();
        for task in candidates.into_iter().take(MOST) {
            let enough = match left {
                Excess::Tasks(count) => count == 0,
                Excess::Load(load) => load == 0,
            };
            if enough || (doing != Doing::Working && self.queues[from].count <= 1) {
                break;
            }
            if !core.tasks[task].may_run_on(to) || core.tasks[task].migration_disabled > 0 {
                continue;
            }
            let is_hot = domain.level != Level::Core
                && core.clock().saturating_sub(core.tasks[task].se.exec_start) < MIGRATION_COST;
            if is_hot && failed <= domain.cache_nice_tries() {
                continue;
            }
            let task_load = self.task_load(core, task).max(1);
            left = match left {
                Excess::Load(load) if task_load >> failed.min(63) > load => continue,
                Excess::Load(load) => Excess::Load(load.saturating_sub(task_load)),
                Excess::Tasks(count) => Excess::Tasks(count - 1),
            };
            if R::IS_MODERN {
                core.spend(Price::Pull, *core.machine.costs.pull_ns);
            }
            self.detach(core, from, to, task);
            moved.push(task);
            // The task that waits for it must not wait long.
            if doing == Doing::Stopping {
                break;
            }
        }
        core.unlock(source);
        if R::IS_MODERN && !moved.is_empty() {
            core.lock(target);
        }
        for &task in &moved {
            self.attach(core, to, task, doing == Doing::Stopping);
        }
        if !R::IS_MODERN || !moved.is_empty() {
            core.unlock(target);
        }
        moved.len()
    }

    fn detach(&mut self, core: &mut Core, from: CpuId, to: CpuId, task: TaskId) {
        self.update_curr(core, from);
        self.rules.dequeue(from, task, false, false);
        self.sub(core, from, task);
        core.set_task_cpu(task, to);
    }

    /// `is_picking`: the CPU is about to pick its next task.
    fn attach(&mut self, core: &mut Core, to: CpuId, task: TaskId, is_picking: bool) {
        self.update_curr(core, to);
        self.rules.enqueue(to, task, Enqueue::Restore);
        self.cool(core, task);
        self.add(core, to, task);
        if is_picking {
            return;
        }
        let interrupts = match core.cpus[to].curr {
            None => true,
            Some(_) if !self.is_mine(core, to) => false,
            Some(_) => core.tasks[task].policy == SCHED_NORMAL && self.rules.preempts(to, task),
        };
        if interrupts {
            self.resched(core, to);
        }
    }

    /// `active_load_balance_cpu_stop()`: the CPU's stopper thread moves a task away.
    pub(super) fn evict(&mut self, core: &mut Core, cpu: CpuId) {
        let Some(to) = self.queues[cpu].evict_to.take() else { return };
        let (source, target) = (core.cpus[cpu].lock, core.cpus[to].lock);
        core.lock(source);
        let mut candidates = self.rules.waiting(cpu);
        candidates.sort_by_key(|&task| self.stamps[task]);
        let movable =
            |&task: &TaskId| core.tasks[task].may_run_on(to) && core.tasks[task].migration_disabled == 0;
        let task = candidates.into_iter().find(movable).filter(|_| core.online.has(to));
        if let Some(task) = task {
            self.detach(core, cpu, to, task);
        }
        core.unlock(source);
        if let Some(task) = task {
            core.lock(target);
            self.attach(core, to, task, false);
            core.unlock(target);
        }
        // The CPU idles for the stopper's sake.
        if core.cpus[cpu].curr.is_none() && self.queues[cpu].count > 0 {
            core.resched(cpu);
        }
    }
}

/// `sched_balance_find_src_group()` and `calculate_imbalance()`: the group to pull from, and how
/// much.
fn busiest(loads: &[GroupLoad], local: usize, domain: &Domain, doing: Doing) -> Option<(usize, Excess)> {
    let others = loads.iter().enumerate().filter(|(index, load)| *index != local && load.tasks > 0);
    let key = |load: &GroupLoad| match load.fullness {
        Fullness::Overloaded => (Fullness::Overloaded, load.average(), 0),
        Fullness::Full => (Fullness::Full, load.average(), 0),
        Fullness::HasSpare => (Fullness::HasSpare, load.cpus - load.idle.min(load.cpus), load.tasks),
    };
    let (index, from) = others.max_by(|(a, one), (b, other)| key(one).cmp(&key(other)).then(b.cmp(a)))?;
    let own = &loads[local];
    if own.cpus == 0 || own.fullness > from.fullness {
        return None;
    }
    let (all, cpus) = loads.iter().fold((0, 0), |(load, cpus), group| (load + group.load, cpus + group.cpus));
    let average = all / cpus.max(1);
    // The groups of a domain above cores get equal numbers of tasks: `SD_PREFER_SIBLING`.
    let prefers_siblings = domain.level > Level::Core && domain.level < Level::Machine;
    if own.fullness == Fullness::Overloaded
        && (own.average() >= from.average()
            || own.average() >= average
            || 100 * from.average() <= domain.imbalance_percent() * own.average())
    {
        return None;
    }
    let spread = prefers_siblings && own.fullness == Fullness::HasSpare && sibling_imbalance(own, from) > 1;
    if from.fullness != Fullness::Overloaded && !spread {
        let is_even = from.cpus > 1 && own.idle <= from.idle + 1;
        if doing == Doing::Working || is_even || from.tasks == 1 {
            return None;
        }
    }
    let excess = match own.fullness {
        Fullness::HasSpare if from.cpus == 1 || prefers_siblings => {
            Excess::Tasks(sibling_imbalance(own, from) / 2)
        }
        Fullness::HasSpare => {
            let spare = own.idle.saturating_sub(from.idle) / 2;
            let minimum = u64::from(from.fullness == Fullness::Overloaded && doing != Doing::Working);
            Excess::Tasks(spare.max(minimum))
        }
        _ if own.average() >= from.average() => return None,
        _ => {
            let above = from.average().saturating_sub(average) * from.cpus;
            let below = average.saturating_sub(own.average()) * own.cpus;
            Excess::Load(above.min(below))
        }
    };
    match excess {
        Excess::Tasks(0) | Excess::Load(0) => None,
        excess => Some((index, excess)),
    }
}

/// `sibling_imbalance()`: how many tasks more than its share of both groups' CPUs, doubled.
fn sibling_imbalance(own: &GroupLoad, from: &GroupLoad) -> u64 {
    if own.cpus == from.cpus {
        return from.tasks.saturating_sub(own.tasks);
    }
    let difference = (own.cpus * from.tasks).saturating_sub(from.cpus * own.tasks);
    let imbalance = (2 * difference + own.cpus + from.cpus) / (own.cpus + from.cpus);
    // For a CPU without a task of its own a move is always a gain.
    if imbalance == 0 && own.tasks == 0 && from.tasks > 1 { 2 } else { imbalance }
}
