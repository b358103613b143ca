//! What simulated CPU time is spent on, and how sure the number is that gives it its length.
use crate::file::MachineFile;
use crate::sourced::Certainty;
use strum::VariantArray;

/// A price in a machine's file, or a use of CPU time that has none there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum Price {
    /// The workload's own instructions.
    Work,
    /// The workload spins until another task has done something.
    Spin,
    /// A CPU spins for a lock.
    LockWait,
    /// `costs.switch_ns`
    Switch,
    /// `costs.wakeup_ns`
    WakeUp,
    /// `costs.syscall_ns`
    Syscall,
    /// `costs.pipe_ns`
    Pipe,
    /// `costs.socket_ns`
    Socket,
    /// `costs.fork_ns`
    Fork,
    /// `costs.exit_ns`
    Exit,
    /// `costs.tick_ns`
    Tick,
    /// `costs.load_balance_ns`
    LoadBalance,
    /// `costs.cpu_search_ns`
    CpuSearch,
    /// `costs.pull_ns`
    Pull,
    /// `costs.idle_exit_ns`
    IdleExit,
    /// `costs.ipi_ns`, as far as a CPU waits for the interrupt's arrival.
    Ipi,
    /// `costs.handover_ns`
    Handover,
    /// `caches.load_ns_per_kib`
    Load,
    /// `caches.memory_gb_per_s`, as far as tasks wait for each other's data.
    Memory,
    /// `startup`
    Startup,
    /// What the workload's own work takes longer than on the fastest core alone: `smt` and `frequency`.
    Slowness,
}

impl Price {
    /// How many there are.
    pub const COUNT: usize = Self::VARIANTS.len();
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// Its place in machine files, or what it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Spin => "spinning",
            Self::LockWait => "waiting for locks",
            Self::Switch => "costs.switch_ns",
            Self::WakeUp => "costs.wakeup_ns",
            Self::Syscall => "costs.syscall_ns",
            Self::Pipe => "costs.pipe_ns",
            Self::Socket => "costs.socket_ns",
            Self::Fork => "costs.fork_ns",
            Self::Exit => "costs.exit_ns",
            Self::Tick => "costs.tick_ns",
            Self::LoadBalance => "costs.load_balance_ns",
            Self::CpuSearch => "costs.cpu_search_ns",
            Self::Pull => "costs.pull_ns",
            Self::IdleExit => "costs.idle_exit_ns",
            Self::Ipi => "costs.ipi_ns",
            Self::Handover => "costs.handover_ns",
            Self::Load => "caches.load_ns_per_kib",
            Self::Memory => "caches.memory_gb_per_s",
            Self::Startup => "startup",
            Self::Slowness => "smt, frequency",
        }
    }

    /// How sure it is, where it is a price; of several numbers, the least sure one counts.
    pub(crate) fn certainty(self, file: &MachineFile) -> Option<Certainty> {
        let costs = &file.costs;
        match self {
            Self::Work | Self::Spin | Self::LockWait => None,
            Self::Switch => Some(costs.switch_ns.certainty),
            Self::WakeUp => Some(costs.wakeup_ns.certainty),
            Self::Syscall => Some(costs.syscall_ns.certainty),
            Self::Pipe => Some(costs.pipe_ns.certainty),
            Self::Socket => Some(costs.socket_ns.certainty),
            Self::Fork => Some(costs.fork_ns.certainty),
            Self::Exit => Some(costs.exit_ns.certainty),
            Self::Tick => Some(costs.tick_ns.certainty),
            Self::LoadBalance => Some(costs.load_balance_ns.certainty),
            Self::CpuSearch => Some(costs.cpu_search_ns.certainty),
            Self::Pull => Some(costs.pull_ns.certainty),
            Self::IdleExit => Some(costs.idle_exit_ns.certainty),
            Self::Ipi => Some(costs.ipi_ns.certainty),
            Self::Handover => Some(costs.handover_ns.certainty),
            Self::Load => file.caches.as_ref().map(|caches| caches.load_ns_per_kib.certainty),
            Self::Memory => file.caches.as_ref()?.memory_gb_per_s.as_ref().map(|memory| memory.certainty),
            Self::Startup => file.startup.as_ref().map(|startup| startup.certainty()),
            Self::Slowness => {
                let smt = file.smt.iter().map(|smt| smt.certainty);
                let frequency = file.frequency.iter().map(|frequency| frequency.certainty());
                smt.chain(frequency).max()
            }
        }
    }
}

/// The least sure of several numbers.
macro_rules! least_sure {
    ($first:expr $(, $more:expr)* $(,)?) => {
        $first.certainty$(.max($more.certainty))*
    };
}

impl crate::Startup {
    fn certainty(&self) -> Certainty {
        least_sure!(
            self.exec_ns,
            self.task_slab_ns,
            self.start_ns,
            self.copy_on_write_ns,
            self.player_fork_ns,
            self.reap_ns,
            self.memory_ns,
            self.child_ns
        )
    }
}

impl crate::Frequency {
    fn certainty(&self) -> Certainty {
        least_sure!(
            self.min_mhz,
            self.turbo_mhz,
            self.scale_mhz,
            self.interval_us,
            self.up_mhz_per_ms,
            self.down_mhz_per_ms
        )
    }
}

impl crate::Power {
    /// How sure its least sure number is.
    pub fn certainty(&self) -> Certainty {
        least_sure!(self.package_mw, self.idle_core_mw, self.core_mw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_sure_number_counts() {
        let text = include_str!("../../../machines/xeon-e7-8870v4-4s.toml");
        let file = MachineFile::parse(text, "it").unwrap();
        let frequency = file.frequency.as_ref().unwrap();
        assert_eq!(frequency.turbo_mhz.certainty, Certainty::Published);
        assert!(Price::Slowness.certainty(&file).unwrap() > Certainty::Published);
        assert_eq!(Price::Startup.certainty(&file), None);
        assert_eq!(Price::Work.certainty(&file), None);
    }
}
