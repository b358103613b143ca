//! Loads that remember: `kernel/sched/pelt.c`. What a task or a CPU was loaded with counts half as much after 32 ms. So a
//! CPU of tasks that have just gone to sleep is still loaded, and a task that mostly sleeps is a small load.
use crate::engine::Ns;

/// `LOAD_AVG_MAX`: what a load of one comes to that has been there for ever.
const MOST: u64 = 47_742;
/// In microseconds of 1,024 ns, as all times here.
const PERIOD: u64 = 1024;
/// Periods in which a load halves.
const HALF_LIFE: u64 = 32;

/// An average load: `struct sched_avg`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Average {
    /// Up to when it is known, in ns; the part of the current period that has passed, in µs.
    known_at: Ns,
    part: u64,
    /// The load in the past, times microseconds, each period less than the next one.
    sum: u64,
}

impl Average {
    /// Of a load of one, as of a new task: `init_entity_runnable_average()`.
    pub(super) fn full(now: Ns) -> Self {
        Self { known_at: now, part: 0, sum: MOST - PERIOD }
    }

    /// Until now the load was this one: `___update_load_sum()`.
    pub(super) fn update(&mut self, now: Ns, load: u64) {
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
        self.sum = decayed(self.sum, periods) + load * weighted;
        self.part = end % PERIOD;
    }

    /// As it will be now if the load was this one since.
    pub(super) fn at(mut self, now: Ns, load: u64) -> u64 {
        self.update(now, load);
        self.value(1)
    }

    /// The load, times a weight: `___update_load_avg()`.
    pub(super) fn value(&self, weight: u64) -> u64 {
        weight * self.sum / (MOST - PERIOD + self.part)
    }

    /// A task of this weight comes with its past: `attach_entity_load_avg()`.
    pub(super) fn attach(&mut self, task: &Self, weight: u64) {
        self.sum += weight * task.sum;
    }

    /// It goes with it: `detach_entity_load_avg()`.
    pub(super) fn detach(&mut self, task: &Self, weight: u64) {
        self.sum = self.sum.saturating_sub(weight * task.sum);
    }
}

/// A sum after so many periods: `decay_load()`.
fn decayed(sum: u64, periods: u64) -> u64 {
    // 2^(-n/32), times 2^32.
    const PARTS: [u64; HALF_LIFE as usize] = parts();
    if periods == 0 {
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
        let mut it = Average::full(0);
        assert_eq!(it.value(1024), 1024);
        it.update(32 * PERIOD * 1024, 0);
        assert!((505..=520).contains(&it.value(1024)), "{}", it.value(1024));
        it.update(400 * MS, 1);
        assert!((1015..=1024).contains(&it.value(1024)), "{}", it.value(1024));
        it.update(3_000 * MS, 0);
        assert_eq!(it.value(1024), 0);
    }

    #[test]
    fn steps_of_any_length_come_to_the_same() {
        let (mut often, mut once) = (Average::default(), Average::default());
        for step in 1..=3_000 {
            often.update(step * 30_720, 7);
        }
        once.update(3_000 * 30_720, 7);
        assert!(
            often.value(1).abs_diff(once.value(1)) <= 1 && often.value(100).abs_diff(once.value(100)) < 20
        );
        assert_eq!(once.at(3_000 * 30_720, 7), once.value(1));
    }

    #[test]
    fn nothing_is_lost_within_a_period() {
        let mut it = Average::full(0);
        (0..100_000).for_each(|at| it.update(at * 10, 0));
        assert_eq!(it.sum, MOST - PERIOD);
    }

    #[test]
    fn a_task_takes_its_load_along() {
        let task = Average::full(0);
        let mut cpu = Average::default();
        cpu.attach(&task, 1024);
        assert_eq!(cpu.value(1), 1024);
        cpu.detach(&task, 1024);
        assert_eq!(cpu.value(1), 0);
        cpu.detach(&task, 1024);
        assert_eq!(cpu.value(1), 0, "never below");
    }
}
