//! How long things may take.
use crate::qemu::Engine;
use std::time::Duration;

/// How often the guest is asked for a sign of life; rarely, as its answer is work in the guest.
const PING: Duration = Duration::from_secs(5);

/// All limits are on the host's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// From QEMU's start to the command's.
    pub boot: Duration,
    /// Without an answer, before the machine counts as hung.
    pub silence: Duration,
    /// Without a sign of life, before the guest is asked for one.
    pub ping: Duration,
    /// For the command.
    pub run: Option<Duration>,
    /// For switching the machine off, before it is killed; its result is known by then.
    pub power_off: Duration,
}

impl Limits {
    /// Some five times what an idle laptop needs: a limit must catch what never ends, not what is
    /// slow because the machine has other work.
    pub fn fitting(engine: Engine, cpus: u32) -> Self {
        let (boot, per_cpu, silence) = match engine {
            Engine::Kvm => (30, 1, 30),
            Engine::Emulation => (90, 6, 60),
            // All CPUs share one host thread.
            Engine::Counting => (90, 10, 120),
            // So do these, and they switch to another CPU every turn.
            Engine::Parallel(_) => (90, 15, 120),
        };
        let seconds = |base: u64, each: u64| Duration::from_secs(base + each * u64::from(cpus));
        let silence = seconds(silence, 1);
        Self {
            boot: seconds(boot, per_cpu),
            silence,
            // Where a run can be repeated to the instruction, a message from outside would prevent
            // that.
            ping: if let Engine::Parallel(_) = engine { silence / 2 } else { PING },
            run: None,
            power_off: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parallel;

    #[test]
    fn the_parallel_clock_is_asked_rarely_but_before_it_counts_as_hung() {
        let parallel = Limits::fitting(Engine::Parallel(Parallel::default()), 4);
        assert!(parallel.ping >= Duration::from_secs(60), "{:?}", parallel.ping);
        assert!(parallel.ping < parallel.silence);
        for engine in [Engine::Kvm, Engine::Emulation, Engine::Counting] {
            assert_eq!(Limits::fitting(engine, 4).ping, PING);
        }
    }
}
