//! Time limits of a VM.
use crate::qemu::Engine;
use std::time::Duration;

/// Time between two pings. Pings are rare, as each answer is work in the guest.
const PING: Duration = Duration::from_secs(5);

/// The limits of a VM, on the host's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// From QEMU's start to the command's.
    pub boot: Duration,
    /// Time without a message from the guest after which the machine counts as hung.
    pub silence: Duration,
    /// Time without a message from the guest after which a ping is sent.
    pub ping: Duration,
    /// Limit of the command's time; `None`: no limit.
    pub run: Option<Duration>,
    /// Time for powering off, after which the machine is killed. The command's result is known by then.
    pub power_off: Duration,
}

impl Limits {
    /// Limits for an engine and a number of CPUs. They are about five times what an idle laptop needs: they must detect
    /// a machine that hangs, and not one that is slow because the host is busy.
    pub fn fitting(engine: Engine, cpus: u32) -> Self {
        let (boot, per_cpu, silence) = match engine {
            Engine::Kvm => (30, 1, 30),
            Engine::Emulation => (90, 6, 60),
            // All CPUs share one host thread.
            Engine::Counting => (90, 10, 120),
            // Here, too, and it switches to another CPU every turn.
            Engine::Parallel(_) => (90, 15, 120),
        };
        let seconds = |base: u64, each: u64| Duration::from_secs(base + each * u64::from(cpus));
        let silence = seconds(silence, 1);
        Self {
            boot: seconds(boot, per_cpu),
            silence,
            // Here a run is repeatable to the instruction until a message comes from outside, so the first
            // ping is late.
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
    fn the_parallel_clock_is_pinged_rarely_but_before_it_counts_as_hung() {
        let parallel = Limits::fitting(Engine::Parallel(Parallel::default()), 4);
        assert!(parallel.ping >= Duration::from_secs(60), "{:?}", parallel.ping);
        assert!(parallel.ping < parallel.silence);
        for engine in [Engine::Kvm, Engine::Emulation, Engine::Counting] {
            assert_eq!(Limits::fitting(engine, 4).ping, PING);
        }
    }
}
