//! Grace periods of RCU, and the thread of the kernel that begins and ends them. It is woken at ticks and competes
//! with the other tasks of its class, so it ends turns there.
use crate::core::TaskId;
use crate::engine::Ns;

/// What a callback frees, with how many grace periods follow: what the callback releases may need another one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Freed {
    /// Nodes of a map that was changed, and the like.
    Memory = 1,
    /// A task: its `task_struct`, and then its stack and the rest of its process.
    Task = 3,
}

/// Of `rcu_state`, and of the lists of callbacks of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct GracePeriods {
    /// `None`: the machine's file does not say what it costs.
    pub thread: Option<TaskId>,
    /// How many have still to begin, one after the other.
    wanted: u32,
    /// One has begun and not ended.
    is_running: bool,
    /// When the thread last began to sleep.
    slept_at: Ns,
}

impl GracePeriods {
    pub fn want(&mut self, freed: Freed) {
        self.wanted = self.wanted.max(freed as u32);
    }

    /// The thread has ended the one that was running, and has begun the next one if any is wanted.
    pub fn advance(&mut self, now: Ns) {
        self.is_running = self.wanted > 0;
        self.wanted = self.wanted.saturating_sub(1);
        self.slept_at = now;
    }

    /// Must the thread do something at a tick at this time? `lasts`: for how many ticks each period goes on.
    pub fn are_due(&self, now: Ns, tick_ns: Ns, lasts: u64) -> bool {
        let ticks = now / tick_ns - self.slept_at / tick_ns;
        if self.is_running { ticks >= lasts } else { self.wanted > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which of these ticks, each 100 ns long, the thread is woken if it does its work in 5 ns.
    fn ticks(freed: Freed, lasts: u64) -> Vec<Ns> {
        let mut periods = GracePeriods::default();
        assert!(!periods.are_due(100, 100, lasts));
        periods.want(freed);
        let mut due = Vec::new();
        for tick in 2..20 {
            if periods.are_due(tick * 100, 100, lasts) {
                periods.advance(tick * 100 + 5);
                due.push(tick);
            }
        }
        due
    }

    #[test]
    fn a_grace_period_begins_at_a_tick_and_lasts_for_some() {
        assert_eq!(ticks(Freed::Memory, 1), [2, 3]);
        assert_eq!(ticks(Freed::Memory, 2), [2, 4]);
    }

    #[test]
    fn what_a_task_leaves_needs_several() {
        assert_eq!(ticks(Freed::Task, 2), [2, 4, 6, 8]);
    }

    #[test]
    fn what_is_freed_meanwhile_waits_for_the_next_one() {
        let mut periods = GracePeriods::default();
        periods.want(Freed::Memory);
        periods.advance(105);
        periods.want(Freed::Memory);
        assert!(!periods.are_due(200, 100, 2));
        assert!(periods.are_due(300, 100, 2));
        periods.advance(305);
        assert!(periods.are_due(500, 100, 2));
        periods.advance(505);
        assert!(!periods.are_due(900, 100, 2));
    }
}
