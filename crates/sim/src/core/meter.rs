//! How long a CPU was busy, and at which frequency.
use crate::engine::Ns;

pub use flsched_recording::timeline::STEP_MHZ;

/// The busy time of one CPU.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    busy_since: Option<Ns>,
    /// Time busy, by step.
    busy_at: Vec<Ns>,
    total: Total,
    at_tick: Total,
}

/// What APERF and MPERF count: only while the CPU is not idle.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    busy_ns: Ns,
    /// In MHz × ns.
    cycles: u64,
}

impl Total {
    fn mean_mhz(self, since: Self) -> Option<u64> {
        (self.cycles - since.cycles).checked_div(self.busy_ns - since.busy_ns)
    }
}

impl Meter {
    /// The CPU becomes busy or idle.
    pub(super) fn set_busy(&mut self, now: Ns, is_busy: bool, mhz: u32) {
        self.count(now, mhz);
        self.busy_since = is_busy.then_some(now);
    }

    /// The CPU ran at `mhz` until now.
    pub(super) fn count(&mut self, now: Ns, mhz: u32) {
        let Some(since) = self.busy_since.replace(now) else {
            self.busy_since = None;
            return;
        };
        let step = (mhz / STEP_MHZ) as usize;
        if step >= self.busy_at.len() {
            self.busy_at.resize(step + 1, 0);
        }
        let ns = now - since;
        self.busy_at[step] += ns;
        self.total.busy_ns += ns;
        self.total.cycles += ns * u64::from(mhz);
    }

    /// The mean frequency in MHz since the last call; `None`: the CPU was idle.
    pub(super) fn tick(&mut self, now: Ns, mhz: u32) -> Option<u64> {
        self.count(now, mhz);
        let before = std::mem::replace(&mut self.at_tick, self.total);
        self.total.mean_mhz(before)
    }

    /// Its mean frequency while it was busy, in MHz; `None`: it never was.
    pub fn mean_mhz(&self) -> Option<f64> {
        let Total { busy_ns, cycles } = self.total;
        (busy_ns > 0).then(|| cycles as f64 / busy_ns as f64)
    }

    /// Time in which it was busy.
    pub fn busy_ns(&self) -> Ns {
        self.total.busy_ns
    }

    /// The lowest frequency of each step in MHz, and for how long the CPU was busy in this step.
    pub fn busy_at(&self) -> impl Iterator<Item = (u32, Ns)> {
        let steps = (0..).step_by(STEP_MHZ as usize).zip(self.busy_at.iter().copied());
        steps.filter(|(_, ns)| *ns > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_busy_time_counts() {
        let mut meter = Meter::default();
        assert_eq!(meter.tick(5, 3000), None);
        meter.set_busy(10, true, 1200);
        meter.count(40, 1200);
        assert_eq!(meter.tick(70, 2450), Some((30 * 1200 + 30 * 2450) / 60));
        meter.set_busy(80, false, 2450);
        meter.set_busy(90, true, 1250);
        assert_eq!(meter.tick(110, 1250), Some((10 * 2450 + 20 * 1250) / 30));
        assert_eq!(meter.busy_at().collect::<Vec<_>>(), [(1200, 50), (2400, 40)]);
        assert_eq!((meter.busy_ns(), meter.mean_mhz()), (90, Some(1766.0 + 2.0 / 3.0)));
    }
}
