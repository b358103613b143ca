//! The tables of `policies/frequency.bpf.h`: how fast CPUs can run, and which of them share a clock.
use crate::MAX_CPUS;
use flsched_spec::{PolicySpec, UsageError};
use std::collections::BTreeSet;

/// The knob that is a frequency; its range depends on the machine.
pub const THRESHOLD: &str = "threshold_mhz";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    pub cpu: usize,
    /// The first of the CPUs that run at its frequency.
    pub domain: usize,
    /// Its least and greatest frequency in MHz; `None`: it does not follow the CPU's load, or is
    /// not known.
    pub range_mhz: Option<(u64, u64)>,
}

/// What cpufreq reports of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaling {
    /// Least frequency, in MHz.
    pub min_mhz: u64,
    /// Greatest frequency, in MHz.
    pub max_mhz: u64,
    /// The governor, which chooses the frequency: `schedutil`, `powersave`, …
    pub governor: String,
    /// The kernel's driver: `intel_pstate`, `acpi-cpufreq`, …
    pub driver: String,
}

impl Scaling {
    /// True if the frequency does not follow what the CPU does. The drivers that leave the choice to
    /// the hardware call that `powersave`, all others mean the least frequency by it.
    pub fn is_pinned(&self) -> bool {
        let by_hardware = matches!(self.driver.as_str(), "intel_pstate" | "amd-pstate-epp");
        self.min_mhz >= self.max_mhz
            || match self.governor.as_str() {
                "performance" | "userspace" => true,
                "powersave" => !by_hardware,
                _ => false,
            }
    }
}

/// The clocks of a machine's CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocks(pub Vec<Clock>);

impl Clocks {
    /// How many CPUs or groups of CPUs have a frequency of their own.
    pub fn count_domains(&self) -> usize {
        self.0.iter().map(|clock| clock.domain).collect::<BTreeSet<_>>().len()
    }

    /// Least and greatest frequency of any CPU whose frequency varies, in MHz.
    pub fn range_mhz(&self) -> Option<(u64, u64)> {
        let ranges = || self.0.iter().filter_map(|clock| clock.range_mhz);
        Some((ranges().map(|range| range.0).min()?, ranges().map(|range| range.1).max()?))
    }

    /// Checks the knob whose range depends on the machine; 0 leaves the choice to the policy.
    pub fn check(&self, spec: &PolicySpec) -> Result<(), UsageError> {
        let set = spec.knobs().get(THRESHOLD).filter(|value| **value > 0);
        let (Some(value), Some((min, max))) = (set, self.range_mhz()) else { return Ok(()) };
        match (min..=max).contains(value) {
            true => Ok(()),
            false => Err(UsageError(format!(
                "{THRESHOLD}: {value} is not from {min} to {max}, the frequencies of the machine's CPUs in MHz"
            ))),
        }
    }

    /// The bytes of a policy's variable of this name; `None`: it is not one of these tables.
    /// Without a choice of frequencies, no CPU has one.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let mut table = vec![0u16; MAX_CPUS];
        let mut set = |cpu: usize, value: u64| {
            if let Some(slot) = table.get_mut(cpu) {
                *slot = u16::try_from(value).unwrap_or(u16::MAX);
            }
        };
        let varying = || self.0.iter().filter_map(|clock| Some((clock.cpu, clock.range_mhz?)));
        match name {
            "min_mhz" | "max_mhz" if self.count_domains() < 2 => {}
            "min_mhz" => varying().for_each(|(cpu, range)| set(cpu, range.0)),
            "max_mhz" => varying().for_each(|(cpu, range)| set(cpu, range.1)),
            "clock_domains" => {
                (0..MAX_CPUS).for_each(|cpu| set(cpu, cpu as u64));
                self.0.iter().for_each(|clock| set(clock.cpu, clock.domain as u64));
            }
            _ => return None,
        }
        Some(table.iter().flat_map(|value| value.to_ne_bytes()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_one_of_the_machines_frequencies() {
        let clocks = Clocks(vec![
            Clock { cpu: 0, domain: 0, range_mhz: Some((1200, 2800)) },
            Clock { cpu: 1, domain: 1, range_mhz: Some((1300, 3000)) },
        ]);
        let check = |mhz: u64| clocks.check(&format!("smove:{THRESHOLD}={mhz}").parse().unwrap());
        assert!(check(0).is_ok() && check(1200).is_ok() && check(3000).is_ok());
        for mhz in [1199, 3001] {
            let error = check(mhz).unwrap_err().to_string();
            assert!(error.contains("from 1200 to 3000"), "{error}");
        }
        let unknown = Clocks(vec![Clock { cpu: 0, domain: 0, range_mhz: None }]);
        assert!(unknown.check(&format!("smove:{THRESHOLD}=5").parse().unwrap()).is_ok());
    }
}
