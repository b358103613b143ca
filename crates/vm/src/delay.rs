//! The length of the kernel's delay loop, as a kernel parameter instead of a measurement at boot.
//!
//! The kernel measures the delay loop on each CPU whose time stamp counter is not declared
//! invariant, and QEMU cannot declare it so. Under emulation the measurement takes a second or more
//! per CPU: most of the boot of a large machine. The loop counts time stamps, and their rate is
//! known here. The kernel uses the value only for busy-waiting for devices.
use crate::qemu::Engine;
use crate::{Arch, Kernel};
use std::fs;
use std::path::Path;

/// On the clocks that count instructions a time stamp is an instruction, and that is a nanosecond.
const COUNTING: u64 = 1_000_000_000;

/// The value of the kernel argument `lpj` (loops per jiffy), if it can be known.
pub(crate) fn loops_per_jiffy(kernel: &Kernel, arch: Arch, engine: Engine) -> Option<u64> {
    // arm64's kernel takes it from the timer's frequency.
    if arch != Arch::X86 {
        return None;
    }
    let frequency = match engine {
        // The host's counter is declared steady there.
        Engine::Kvm => return None,
        Engine::Counting | Engine::Parallel(_) => COUNTING,
        Engine::Emulation => host_frequency()?,
    };
    Some(frequency / ticks_per_second(kernel.config.as_deref()?)?)
}

fn ticks_per_second(config: &Path) -> Option<u64> {
    let text = fs::read_to_string(config).ok()?;
    text.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?.parse().ok().filter(|hz| *hz > 0)
}

/// An emulated counter counts what the host's counts.
#[cfg(target_arch = "x86_64")]
fn host_frequency() -> Option<u64> {
    use std::time::{Duration, Instant};
    /// Long enough to measure it to a thousandth.
    const MEASURE: Duration = Duration::from_millis(10);
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    let count = || unsafe { std::arch::x86_64::_rdtsc() };
    let (begun, from) = (Instant::now(), count());
    std::thread::sleep(MEASURE);
    let (passed, to) = (begun.elapsed(), count());
    let counted = to.checked_sub(from)?;
    u64::try_from(u128::from(counted) * 1_000_000_000 / passed.as_nanos()).ok()
}

/// Unknown elsewhere: the guest measures for itself.
#[cfg(not(target_arch = "x86_64"))]
fn host_frequency() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops_per_jiffy(kernel: &Kernel, engine: Engine) -> Option<u64> {
        super::loops_per_jiffy(kernel, Arch::X86, engine)
    }

    use crate::{BtfHealth, Parallel};

    fn kernel(config: &str) -> (tempfile::NamedTempFile, Kernel) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, config).unwrap();
        let config = Some(file.path().into());
        (file, Kernel { release: "6.18".into(), image: "/x".into(), config, btf: BtfHealth::Good })
    }

    #[test]
    fn it_follows_the_clock_and_the_configuration() {
        let (_file, kernel) = kernel("CONFIG_HZ_250=y\nCONFIG_HZ=250\n");
        assert_eq!(loops_per_jiffy(&kernel, Engine::Counting), Some(4_000_000));
        assert_eq!(loops_per_jiffy(&kernel, Engine::Parallel(Parallel::default())), Some(4_000_000));
        assert_eq!(loops_per_jiffy(&kernel, Engine::Kvm), None);
        assert_eq!(super::loops_per_jiffy(&kernel, Arch::Arm64, Engine::Counting), None);
        if Arch::HOST != Arch::X86 {
            return;
        }
        // From a slow old machine's counter to a fast new one's.
        let measured = loops_per_jiffy(&kernel, Engine::Emulation).unwrap();
        assert!((1_000_000..40_000_000).contains(&measured), "{measured}");
    }

    #[test]
    fn without_a_tick_rate_there_is_no_value() {
        for config in ["", "CONFIG_HZ=0\n", "CONFIG_HZ=many\n"] {
            assert_eq!(loops_per_jiffy(&kernel(config).1, Engine::Counting), None, "{config}");
        }
        let without = Kernel { config: None, ..kernel("").1 };
        assert_eq!(loops_per_jiffy(&without, Engine::Counting), None);
    }
}
