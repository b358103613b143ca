//! What the kernel counts anyway: context switches and migrations, on all CPUs.
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

    /// How many there were since then.
    pub(super) fn since(self) -> Option<u64> {
        Self::now()?.0.checked_sub(self.0)
    }
}

/// Tasks that moved to another CPU. One counter per CPU for whatever task runs there: unlike
/// counters per task, these add nothing to a context switch.
pub(super) struct Migrations(Vec<Counter>);

impl Migrations {
    /// Starts to count; counts nothing if that is not permitted.
    pub(super) fn open() -> Self {
        let open = |cpu: usize| {
            let mut counter = Builder::new(Software::CPU_MIGRATIONS)
                .any_pid()
                .one_cpu(cpu)
                // The kernel counts a migration while in the kernel.
                .include_kernel()
                .include_hv()
                .build()?;
            counter.enable()?;
            Ok(counter)
        };
        let counters: std::io::Result<Vec<_>> = online_cpus().into_iter().map(open).collect();
        Self(counters.unwrap_or_default())
    }

    /// How many there were since it was opened, if they are counted.
    pub(super) fn now(&mut self) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        self.0.iter_mut().map(|counter| counter.read().ok()).sum()
    }
}
