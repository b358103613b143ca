//! Loads that remember: `kernel/sched/pelt.c`. What a task or a CPU was loaded with counts half as much after 32 ms. So a
//! CPU of tasks that have just gone to sleep is still loaded, and a task that mostly sleeps is a small load.
use crate::engine::Ns;
use flsched_machine::FULL_SPEED;

/// `LOAD_AVG_MAX`: what a load of one comes to that has been there for ever.
const MOST: u64 = 47_742;
/// In microseconds of 1,024 ns, as all times here.
const PERIOD: u64 = 1024;
/// Periods in which a load halves.
const HALF_LIFE: u64 = 32;
/// One task, or all of a CPU's time.
const ONE: u64 = FULL_SPEED as u64;

/// The amounts that are averaged for a task or a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amounts {
    /// The weight of what can run; of a task, one.
    load: u64,
    /// The tasks that can run, each [`ONE`].
    runnable: u64,
    /// [`ONE`] while there is a running task.
    running: u64,
}

impl Amounts {
    /// A task that sleeps.
    pub(super) const ASLEEP: Self = Self { load: 0, runnable: 0, running: 0 };
    /// A task that sleeps in its run queue, until it has waited as long as it ran too much: `sched_delayed`.
    pub(super) const DELAYED: Self = Self { load: 1, runnable: 0, running: 0 };
    /// A task that waits for its CPU.
    pub(super) const WAITING: Self = Self { load: 1, runnable: ONE, running: 0 };
    /// A task that runs.
    pub(super) const RUNNING: Self = Self { load: 1, runnable: ONE, running: ONE };

    pub(super) fn of_cpu(load: u64, tasks: usize, runs: bool) -> Self {
        Self { load, runnable: tasks as u64 * ONE, running: u64::from(runs) * ONE }
    }

    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            load: of(self.load, other.load),
            runnable: of(self.runnable, other.runnable),
            running: of(self.running, other.running),
        }
    }
}

/// Averages of a task or a CPU: `struct sched_avg`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Average {
    /// Up to when they are known, in ns of the CPU's [`Clock`]; the part of the current period that has passed, in µs.
    known_at: Ns,
    part: u64,
    /// The amounts in the past, times microseconds, each period less than the next one.
    sum: Amounts,
}

impl Average {
    /// Of a new task: a load of one, as if it had been there for ever, and this utilisation:
    /// `init_entity_runnable_average()`, `post_init_entity_util_avg()`.
    pub(super) fn new(utilisation: u64) -> Self {
        let sum = Amounts { load: 1, runnable: utilisation, running: utilisation };
        Self { known_at: 0, part: 0, sum: sum.each(sum, |amount, _| amount * (MOST - PERIOD)) }
    }

    /// `last_update_time`
    pub(super) fn known_at(&self) -> Ns {
        self.known_at
    }

    /// Until now the amounts were these: `___update_load_sum()`.
    pub(super) fn update(&mut self, now: Ns, amounts: Amounts) {
        let passed = now.saturating_sub(self.known_at) / 1024;
        self.known_at += passed * 1024;
        let end = self.part + passed;
        let periods = end / PERIOD;
        let weighted = match periods {
            0 => passed,
            // The rest of the first period, those in between, and the part of the last one.
            _ => {
                let between = MOST - decayed(MOST, periods) - PERIOD;
                decayed(PERIOD - self.part, periods) + between + end % PERIOD
            }
        };
        self.sum = self.sum.each(amounts, |sum, amount| decayed(sum, periods) + amount * weighted);
        self.part = end % PERIOD;
    }

    /// `get_pelt_divider()`
    fn divider(&self) -> u64 {
        MOST - PERIOD + self.part
    }

    /// The load, times a weight: `load_avg`.
    pub(super) fn load(&self, weight: u64) -> u64 {
        weight * self.sum.load / self.divider()
    }

    /// How many tasks could run: `runnable_avg`, of [`FULL_SPEED`] for each.
    pub(super) fn runnable(&self) -> u64 {
        self.sum.runnable / self.divider()
    }

    /// The share of the time in which one ran: `util_avg`, of [`FULL_SPEED`].
    pub(super) fn utilisation(&self) -> u64 {
        self.sum.running / self.divider()
    }

    /// Whether one has run for so long that nothing tells that it ever did not.
    pub(super) fn is_full(&self) -> bool {
        self.sum.running >= (MOST - PERIOD) * ONE - MOST
    }

    /// A task of this weight comes with its past, and has this CPU's time from now on: `attach_entity_load_avg()`.
    pub(super) fn attach(&mut self, task: &mut Self, weight: u64) {
        let (from, to) = (task.divider(), self.divider());
        task.sum = task.sum.each(task.sum, |sum, _| sum * to / from);
        (task.known_at, task.part) = (self.known_at, self.part);
        self.sum = self.sum.each(task.weighted(weight), |sum, its| sum + its);
    }

    /// It goes with it: `detach_entity_load_avg()`.
    pub(super) fn detach(&mut self, task: &Self, weight: u64) {
        self.sum = self.sum.each(task.weighted(weight), u64::saturating_sub);
    }

    fn weighted(&self, weight: u64) -> Amounts {
        Amounts { load: weight * self.sum.load, ..self.sum }
    }
}

/// A CPU's time for its averages, `rq->clock_pelt`: it passes more slowly while a slow CPU works, so that the same work
/// is the same load on all CPUs. When the CPU idles, which a fast one would have done earlier, it catches up.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    at: Ns,
    behind: Ns,
    /// `rq->lost_idle_time`: what it did not catch up.
    lost: Ns,
}

impl Clock {
    /// Since the last call the CPU had this speed, of [`FULL_SPEED`]: `update_rq_clock_pelt()`.
    pub(super) fn advance(&mut self, now: Ns, speed: u64) -> Ns {
        let passed = now.saturating_sub(self.at);
        self.at += passed;
        self.behind += passed - passed * speed / ONE;
        self.at - self.lost - self.behind
    }

    /// The CPU idles, and never would have if it `was_full`: `update_idle_rq_clock_pelt()`.
    pub(super) fn catch_up(&mut self, was_full: bool) {
        let behind = std::mem::take(&mut self.behind);
        self.lost += if was_full { behind } else { 0 };
    }
}

/// A sum after so many periods: `decay_load()`.
fn decayed(sum: u64, periods: u64) -> u64 {
    // 2^(-n/32), times 2^32.
    const PARTS: [u64; HALF_LIFE as usize] = parts();
    if periods == 0 || sum == 0 {
        return sum;
    }
    let halvings = periods / HALF_LIFE;
    if halvings >= 64 {
        return 0;
    }
    let halved = u128::from(sum >> halvings);
    ((halved * u128::from(PARTS[(periods % HALF_LIFE) as usize])) >> 32) as u64
}

const fn parts() -> [u64; HALF_LIFE as usize] {
    /// 2^(-1/32)
    const DECAY: f64 = 0.978_572_062_087_700_1;
    let mut parts = [0; HALF_LIFE as usize];
    let (mut part, mut at) = (4_294_967_295.0, 0);
    while at < parts.len() {
        parts[at] = part as u64;
        part *= DECAY;
        at += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    #[test]
    fn a_load_halves_in_32_ms_and_comes_back() {
        let mut it = Average::new(0);
        assert_eq!(it.load(1024), 1024);
        it.update(32 * PERIOD * 1024, Amounts::ASLEEP);
        assert!((505..=520).contains(&it.load(1024)), "{}", it.load(1024));
        it.update(400 * MS, Amounts::WAITING);
        assert!((1015..=1024).contains(&it.load(1024)), "{}", it.load(1024));
        it.update(3_000 * MS, Amounts::ASLEEP);
        assert_eq!(it.load(1024), 0);
    }

    #[test]
    fn only_a_running_task_uses_its_cpu() {
        let mut it = Average::new(512);
        assert_eq!((it.utilisation(), it.runnable()), (512, 512));
        it.update(32 * PERIOD * 1024, Amounts::WAITING);
        assert!((250..=260).contains(&it.utilisation()), "{}", it.utilisation());
        assert!((760..=772).contains(&it.runnable()), "{}", it.runnable());
        it.update(1_000 * MS, Amounts::RUNNING);
        assert!(it.utilisation() >= 1023 && it.is_full(), "{it:?}");
        it.update(1_002 * MS, Amounts::WAITING);
        assert!(!it.is_full(), "{it:?}");
    }

    #[test]
    fn nothing_is_lost_within_a_period() {
        let mut it = Average::new(1024);
        (0..100_000).for_each(|at| it.update(at * 10, Amounts::ASLEEP));
        assert_eq!(it.sum, Average::new(1024).sum);
    }

    #[test]
    fn steps_of_any_length_come_to_the_same() {
        let (mut often, mut once) = (Average::default(), Average::default());
        let amounts = Amounts::of_cpu(7, 1, true);
        for step in 1..=3_000 {
            often.update(step * 30_720, amounts);
        }
        once.update(3_000 * 30_720, amounts);
        assert!(often.load(1).abs_diff(once.load(1)) <= 1 && often.load(100).abs_diff(once.load(100)) < 20);
        assert!(often.utilisation().abs_diff(once.utilisation()) <= 1);
    }

    #[test]
    fn a_task_takes_its_past_along() {
        let mut task = Average::new(300);
        let mut cpu = Average::default();
        cpu.update(700 * MS + 333_000, Amounts::ASLEEP);
        cpu.attach(&mut task, 1024);
        assert!(cpu.load(1).abs_diff(1024) <= 1 && cpu.utilisation().abs_diff(300) <= 1, "{cpu:?}");
        // It runs there as the only one.
        task.update(750 * MS, Amounts::RUNNING);
        cpu.update(750 * MS, Amounts::of_cpu(1024, 1, true));
        assert!(cpu.utilisation().abs_diff(task.utilisation()) <= 1 && task.utilisation() > 700, "{task:?}");
        cpu.detach(&task, 1024);
        assert!(cpu.load(1) <= 1 && cpu.utilisation() <= 1, "{cpu:?}");
        cpu.detach(&task, 1024);
        assert_eq!(cpu.load(1), 0, "never below");
    }

    #[test]
    fn a_slow_cpus_time_passes_slowly_until_it_idles() {
        let mut clock = Clock::default();
        assert_eq!(clock.advance(10 * MS, 1024), 10 * MS);
        assert_eq!(clock.advance(20 * MS, 512), 15 * MS);
        assert_eq!(clock.advance(15 * MS, 512), 15 * MS, "never back");
        clock.catch_up(false);
        assert_eq!(clock.advance(30 * MS, 1024), 30 * MS);
        clock.advance(40 * MS, 512);
        clock.catch_up(true);
        assert_eq!(clock.advance(50 * MS, 1024), 45 * MS, "it would never have idled");
    }
}
