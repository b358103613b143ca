//! Watches a run for what its rules are about.
use super::usage::{Group, Shares, Usage};
use super::{Held, Rule, Score, Scores};
use crate::core::{CpuId, Observer, PF_KTHREAD, SCHED_IDLE, State, Task, TaskId};
use crate::engine::{Ns, display_ns};
use std::ops::Range;

/// The class of the tasks that rules are about.
const BELOW_RT: usize = 1;
/// A task that exits.
const PF_EXITING: u32 = 4;
/// Shorter waits are near no bound.
const SHORT_NS: Ns = 10_000_000;
/// `SCX_WATCHDOG_MAX_TIMEOUT`.
const EJECTED_AFTER: Ns = 30_000_000_000;
/// No wait of a task of nice 0 may be longer, however many others there are.
const LONGEST_WAIT: Ns = 25_000_000_000;
/// With more tasks on its CPU one may wait longer.
const CROWD: u64 = 16;
/// What a switch costs at most.
const SWITCH_NS: Ns = 20_000;
/// In addition to two ticks: the time that CPUs need to find a task and to switch to it.
const TO_SWITCH_NS: Ns = 1_000_000;
/// An idle CPU takes as long at most to begin with a task.
const TO_START_NS: Ns = 200_000;
/// Beside more background tasks, those of nice 0 together get half of the CPU only.
const MANY: u32 = 1_000;
/// Shares of less time are not judged.
const LEAST_TOTAL: Ns = 1_000_000_000;
/// If tasks run for less than that on average, turns may be longer than what they get.
const LEAST_MEAN: Ns = 200_000_000;

/// Tasks that are alike and compute all the time, where no others do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alike {
    /// Ranges of their numbers.
    pub tasks: Vec<Range<TaskId>>,
}

#[derive(Debug)]
pub(crate) struct Watch {
    held: Held,
    tick: Ns,
    /// What was before does not count: the scheduler was not in force.
    from: Ns,
    /// When a CPU last went on- or offline.
    hotplug_at: Ns,
    cpus: Vec<Usage>,
    /// By CPU: since when it has idled, or run background, at each look while tasks waited that may run there, and whether it
    /// has idled.
    beside_since: Vec<Option<(Ns, bool)>>,
    /// By task.
    tasks: Vec<Watched>,
    /// By task: whether it yields in vain.
    yields: Vec<bool>,
    alike: Vec<Alike>,
    /// From when on the tasks that are alike are compared, and how long each had run by then.
    compare_from: Ns,
    ran_before: Option<Vec<Ns>>,
    scores: Scores,
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    /// Since it was last queued.
    group: Group,
    /// Where it is counted: where it waits, or runs.
    cpu: CpuId,
    /// When its affinity last changed.
    moved_at: Ns,
    /// Since when it has been of its group.
    group_since: Ns,
    /// When the wait began in which it was last queued or moved.
    since: Ns,
    /// Most tasks at a time on the CPUs where it waited before, during that wait.
    peak: u32,
    /// Of the wait that began at `lost_since`: how long it could not run before `moved_at`, where it might run then.
    lost: Ns,
    lost_since: Ns,
}

impl Watch {
    /// `yields`: the tasks that yield in vain; `compare_from`: when to begin to compare those that are alike; `from`:
    /// when the scheduler is attached.
    pub fn new(
        held: Held,
        cpus: usize,
        tick: Ns,
        yields: Vec<bool>,
        alike: Vec<Alike>,
        compare_from: Ns,
        from: Ns,
    ) -> Self {
        Self {
            held,
            tick,
            from,
            hotplug_at: 0,
            cpus: (0..cpus).map(|_| Usage::new()).collect(),
            beside_since: vec![None; cpus],
            tasks: Vec::new(),
            yields,
            alike,
            compare_from,
            ran_before: None,
            scores: Scores::new(),
        }
    }

    fn watched(&mut self, task: TaskId) -> &mut Watched {
        if self.tasks.len() <= task {
            self.tasks.resize(
                task + 1,
                Watched {
                    group: Group::Normal,
                    cpu: 0,
                    moved_at: 0,
                    group_since: 0,
                    since: 0,
                    peak: 0,
                    lost: 0,
                    lost_since: Ns::MAX,
                },
            );
        }
        &mut self.tasks[task]
    }

    fn group_of(&self, task: &Task) -> Group {
        if task.class < BELOW_RT {
            Group::Above
        } else if is_of_kernel(task) {
            Group::Normal
        } else if task.static_prio > 120 || task.policy == SCHED_IDLE {
            Group::Background
        } else if self.yields.get(task.id).copied().unwrap_or(false) {
            Group::Yielder
        } else {
            Group::Normal
        }
    }

    fn enters_group(&mut self, task: &Task, now: Ns) -> Group {
        let group = self.group_of(task);
        let watched = self.watched(task.id);
        if watched.group != group {
            (watched.group, watched.group_since) = (group, now);
        }
        group
    }

    /// It waits on this CPU from now on; whether its wait is a new one, its own time says.
    fn waits_on(&mut self, task: &Task, cpu: CpuId, now: Ns) {
        let from = task.since.max(self.from).min(now);
        let before = *self.watched(task.id);
        let earlier = if before.since == task.since { before.peak } else { 0 };
        // One that was queued long ago and has run since has waited where it was queued.
        let peak = if from < now { earlier.max(self.cpus[before.cpu].peak(from, now)) } else { earlier };
        let watched = self.watched(task.id);
        (watched.cpu, watched.since, watched.peak) = (cpu, task.since, peak);
    }

    /// A queued task is counted on this CPU from now on.
    fn count_on(&mut self, task: &Task, cpu: CpuId, now: Ns) {
        let Watched { group, cpu: before, .. } = *self.watched(task.id);
        self.waits_on(task, cpu, now);
        if before == cpu {
            return;
        }
        for (cpu, is_queued) in [(before, false), (cpu, true)] {
            let shares = self.cpus[cpu].queued(group, is_queued, now);
            self.judge(cpu, shares, now);
        }
    }
}

impl Observer for Watch {
    fn queued(&mut self, task: &Task, is_queued: bool, now: Ns) {
        if is_queued {
            self.enters_group(task, now);
            self.waits_on(task, task.cpu, now);
        }
        let Watched { group, cpu, .. } = *self.watched(task.id);
        let shares = self.cpus[cpu].queued(group, is_queued, now);
        self.judge(cpu, shares, now);
    }

    fn moved(&mut self, task: &Task, to: CpuId, now: Ns) {
        self.count_on(task, to, now);
    }

    fn waits_for(&mut self, task: &Task, cpu: CpuId, now: Ns) {
        self.count_on(task, cpu, now);
    }

    /// A running task exits. Others wait for its end, whatever its nice value is.
    fn exits(&mut self, task: &Task, now: Ns) {
        let before = self.watched(task.id).group;
        let after = self.enters_group(task, now);
        for (group, is_queued) in [(before, false), (after, true)] {
            let shares = self.cpus[task.cpu].queued(group, is_queued, now);
            self.judge(task.cpu, shares, now);
        }
        let shares = self.cpus[task.cpu].runs(Some(after), now);
        self.judge(task.cpu, shares, now);
    }

    fn goes_on(&mut self, task: &Task, now: Ns) {
        let group = self.watched(task.id).group;
        let shares = self.cpus[task.cpu].runs(Some(group), now);
        self.judge(task.cpu, shares, now);
    }

    fn may_run_elsewhere(&mut self, task: &Task, now: Ns) {
        // It is in no queue while it is moved.
        let waits = task.state == State::Runnable && task.on_cpu == 0;
        let lost = if waits { self.lost(task, task.since, now) } else { 0 };
        let watched = self.watched(task.id);
        (watched.moved_at, watched.lost, watched.lost_since) = (now, lost, task.since);
    }

    fn hotplug(&mut self, cpu: CpuId, is_online: bool, now: Ns) {
        self.cpus[cpu].goes_online(is_online, now);
        self.hotplug_at = now;
    }

    /// What was before does not count.
    fn attached(&mut self, now: Ns) {
        self.from = now;
        self.cpus.iter_mut().for_each(|cpu| cpu.forget(now));
    }

    fn leaves(&mut self, cpu: CpuId, now: Ns) {
        let shares = self.cpus[cpu].switches(now);
        self.judge(cpu, shares, now);
    }

    fn idles(&mut self, cpu: CpuId, now: Ns) {
        let shares = self.cpus[cpu].runs(None, now);
        self.judge(cpu, shares, now);
    }

    fn begins(&mut self, task: &Task, cpu: CpuId, since: Ns, now: Ns) {
        let group = self.watched(task.id).group;
        let shares = self.cpus[cpu].runs(Some(group), now);
        self.judge(cpu, shares, now);
        self.waited(task, cpu, since, now);
        // It may have come back from another CPU's queue.
        if self.watched(task.id).cpu != cpu {
            self.count_on(task, cpu, now);
        }
    }

    /// For CPUs that idle, or run background, beside tasks that wait.
    fn look(&mut self, tasks: &[Task], idle_since: &[Option<Ns>], now: Ns) {
        if self.ran_before.is_none() && now >= self.compare_from {
            self.ran_before = Some(tasks.iter().map(|task| ran(task, now)).collect());
        }
        if !self.held.rules.contains(&Rule::Work) && !self.held.rules.contains(&Rule::Background) {
            return;
        }
        let mut beside = vec![None; self.cpus.len()];
        let recent = now.saturating_sub(self.tick);
        let free: Vec<(CpuId, Ns, bool)> = (0..self.cpus.len())
            .filter_map(|cpu| match (idle_since[cpu], self.cpus[cpu].background_since()) {
                (Some(since), _) => Some((cpu, since, true)),
                (None, Some(since)) => Some((cpu, since, false)),
                (None, None) => None,
            })
            .filter(|(_, since, _)| *since < recent)
            .collect();
        let waits = |task: &&Task| {
            task.is_queued && task.on_cpu == 0 && task.class == BELOW_RT && task.state == State::Runnable
        };
        let tasks =
            tasks.iter().filter(waits).filter(|task| !free.is_empty() && task.migration_disabled == 0);
        for task in tasks {
            let watched = *self.watched(task.id);
            let since = task.since.max(watched.moved_at).max(self.hotplug_at).max(self.from);
            if now.saturating_sub(since) < TO_START_NS {
                continue;
            }
            for &(cpu, _, is_idle) in &free {
                if task.may_run_on(cpu) && (is_idle || watched.group == Group::Normal) {
                    let longest = beside[cpu].get_or_insert((since, task, is_idle));
                    if since < longest.0 {
                        *longest = (since, task, is_idle);
                    }
                }
            }
        }
        self.note_work(&beside, now);
    }
}

impl Watch {
    fn note(&mut self, rule: Rule, value: f64, at: Ns, task: Option<&Task>, what: impl FnOnce() -> String) {
        let is_worst = self.scores.get(&rule).is_none_or(|worst| worst.value < value);
        if value <= 0.0 || at < self.from || !is_worst || !self.held.rules.contains(&rule) {
            return;
        }
        self.scores.insert(rule, Score { value, at, task: task.map(Task::label), what: what() });
    }

    /// How long no task could have run on any of the CPUs where this one may.
    fn unavailable(&self, task: &Task, from: Ns, to: Ns) -> Ns {
        let cpus = 0..self.cpus.len();
        let where_it_may = cpus.filter(|&cpu| task.may_run_on(cpu));
        where_it_may.map(|cpu| self.cpus[cpu].unavailable(from, to)).min().unwrap_or(0)
    }

    /// How long it has not been able to run in the wait that began then.
    fn lost(&mut self, task: &Task, since: Ns, now: Ns) -> Ns {
        let watched = *self.watched(task.id);
        let from = since.max(self.from).min(now);
        if watched.lost_since != since {
            return self.unavailable(task, from, now);
        }
        watched.lost + self.unavailable(task, watched.moved_at.max(from).min(now), now)
    }

    fn waited(&mut self, task: &Task, cpu: CpuId, since: Ns, now: Ns) {
        let from = since.max(self.from);
        if task.class < BELOW_RT || now.saturating_sub(from) < SHORT_NS {
            return;
        }
        let wait = (now - from).saturating_sub(self.lost(task, since, now));
        let watched = *self.watched(task.id);
        let before = if watched.since == since { watched.peak } else { 0 };
        let peak = self.cpus[watched.cpu].peak(from, now).max(self.cpus[cpu].peak(from, now)).max(before);
        let there = u64::from(peak);
        let is_polite = there <= CROWD;
        if is_polite || !self.held.only_polite {
            self.note(Rule::Ejection, wait as f64 / EJECTED_AFTER as f64, now, Some(task), || {
                format!("was runnable for {} and did not run; the kernel allows 30 s", display_ns(wait))
            });
        }
        let rule = match watched.group {
            _ if is_of_kernel(task) => Rule::Progress,
            Group::Normal => Rule::Wait,
            _ => return,
        };
        // Before that it waited as another one.
        let wait = wait.min(now.saturating_sub(watched.group_since));
        let in_proportion = self.held.max_delay * there.max(CROWD) / CROWD;
        let bound =
            in_proportion.min(LONGEST_WAIT.max(self.held.max_delay)) + 2 * self.tick + there * SWITCH_NS;
        self.note(rule, wait as f64 / bound as f64, now, Some(task), || {
            format!(
                "waited for {} among up to {there} on its CPU; at most {} are promised",
                display_ns(wait),
                display_ns(bound)
            )
        });
    }

    fn judge(&mut self, cpu: CpuId, shares: Option<Shares>, now: Ns) {
        let Some(shares) = shares.filter(|shares| shares.total >= LEAST_TOTAL) else { return };
        let percent = |part: Ns| 100 * part / shares.total;
        let part = |part: Ns, allowed: f64| {
            part.saturating_sub(2 * self.tick) as f64 / (allowed * shares.total as f64)
        };
        let allowed = if shares.most_background > MANY { 0.5 } else { 0.1 };
        let value = part(shares.background, allowed);
        let half = part(shares.yielders, 0.5);
        self.note(Rule::Share, value, now, None, || {
            format!(
                "CPU {cpu} ran background for {} % of {} while a task of nice 0 was there; {} % are allowed beside {} \
                 background tasks",
                percent(shares.background),
                display_ns(shares.total),
                100.0 * allowed,
                shares.most_background
            )
        });
        self.note(Rule::Yield, half, now, None, || {
            format!(
                "CPU {cpu} ran tasks that yield in vain for {} % of {} while others had work there; 50 % are allowed",
                percent(shares.yielders),
                display_ns(shares.total)
            )
        });
    }

    /// `beside`: by CPU that idles or runs background, the task that has waited longest, if any may run there.
    fn note_work(&mut self, beside: &[Option<(Ns, &Task, bool)>], now: Ns) {
        let bound = 2 * self.tick + TO_SWITCH_NS;
        for (cpu, beside) in beside.iter().enumerate() {
            let Some((_, task, is_idle)) = *beside else {
                self.beside_since[cpu] = None;
                continue;
            };
            let known = self.beside_since[cpu].filter(|(_, was_idle)| *was_idle == is_idle);
            let (since, _) = *self.beside_since[cpu].insert(known.unwrap_or((now, is_idle)));
            let (rule, does) =
                if is_idle { (Rule::Work, "idled") } else { (Rule::Background, "ran background") };
            self.note(rule, (now - since) as f64 / bound as f64, now, Some(task), || {
                let (time, bound) = (display_ns(now - since), display_ns(bound));
                format!("waits; for {time} tasks have waited while CPU {cpu} {does}, where they may run; {bound} is allowed")
            });
        }
    }

    /// The run is over.
    pub fn finish(mut self, tasks: &[Task], now: Ns) -> Scores {
        for task in tasks.iter().filter(|task| task.is_queued && task.on_cpu == 0) {
            self.waited(task, task.cpu, task.since, now);
        }
        for cpu in 0..self.cpus.len() {
            let shares = self.cpus[cpu].rest(now);
            self.judge(cpu, shares, now);
        }
        let ran_before = self.ran_before.take().unwrap_or_default();
        for alike in std::mem::take(&mut self.alike) {
            self.compare(&alike, &ran_before, tasks, now);
        }
        self.scores
    }

    fn compare(&mut self, alike: &Alike, ran_before: &[Ns], tasks: &[Task], now: Ns) {
        let mut shares = Vec::new();
        for number in alike.tasks.iter().cloned().flatten() {
            let (Some(before), Some(task)) = (ran_before.get(number), tasks.get(number)) else { return };
            if task.state == State::Dead {
                return;
            }
            shares.push((ran(task, now).saturating_sub(*before), number));
        }
        let mean = shares.iter().map(|(ran, _)| ran).sum::<Ns>() / (shares.len() as Ns).max(1);
        let Some(&(least, number)) = shares.iter().min() else { return };
        if mean < LEAST_MEAN {
            return;
        }
        // One that has got nothing at all breaks the rule a hundredfold.
        let value = (0.5 * mean as f64 / least.max(1) as f64).min(100.0);
        self.note(Rule::Balance, value, now, tasks.get(number), || {
            format!(
                "ran for {}, and {} tasks like it for {} on average; it should be at least half of that",
                display_ns(least),
                shares.len(),
                display_ns(mean)
            )
        });
    }
}

/// How long it has run until now.
fn ran(task: &Task, now: Ns) -> Ns {
    task.ran + if task.on_cpu == 1 { now.saturating_sub(task.since) } else { 0 }
}

/// Whether the kernel waits for it: it exits, or is a thread of the kernel.
fn is_of_kernel(task: &Task) -> bool {
    task.flags & (PF_EXITING | PF_KTHREAD) != 0
}
