//! The kernel's own counts of context switches and migrations on all CPUs.
use crate::environment::online_cpus;
use perf_event::events::Software;
use perf_event::{Builder, Counter};

/// Context switches since boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContextSwitches(u64);

impl ContextSwitches {
    pub(super) fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("ctxt "))?;
        line.trim().parse().ok().map(Self)
    }

    /// The number of switches since then.
    pub(super) fn since(self) -> Option<u64> {
        Self::now()?.0.checked_sub(self.0)
    }
}

/// Counts moves of tasks to other CPUs. Each CPU has one counter for all tasks: unlike counters per task, it adds
/// nothing to a context switch.
pub(super) struct Migrations(Vec<Counter>);

impl Migrations {
    /// Starts to count. If that is not permitted, there are no counts.
    pub(super) fn open() -> Self {
        let open = |cpu: usize| {
            let mut counter = Builder::new(Software::CPU_MIGRATIONS)
                .any_pid()
                .one_cpu(cpu)
                // Migrations happen in kernel mode.
                .include_kernel()
                .include_hv()
                .build()?;
            counter.enable()?;
            Ok(counter)
        };
        let counters: std::io::Result<Vec<_>> = online_cpus().into_iter().map(open).collect();
        Self(counters.unwrap_or_default())
    }

    /// The number of moves since [`Migrations::open`], if they are counted.
    pub(super) fn now(&mut self) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        self.0.iter_mut().map(|counter| counter.read().ok()).sum()
    }
}
