//! The kernel's own schedulers and their settings, as the user writes them: `eevdf:slice_us=20000`.
use crate::{Target, UsageError, number};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The kernel's own schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The fair class since Linux 6.6; `SCHED_OTHER`, the default.
    Eevdf,
    /// `SCHED_BATCH`: the same without wake-up preemption.
    Batch,
    /// The real-time class, `SCHED_FIFO` at priority 1.
    Fifo,
    /// The same, `SCHED_RR`.
    Rr,
    /// The fair class until Linux 6.5, as in 2.6.38 and 3.10. Only the simulator has it.
    Cfs,
}

/// A setting of a scheduler.
struct Setting {
    name: &'static str,
    values: Values,
    /// Real kernels have it, the machine's owner may change it, and `flsched` can.
    on_kernels: bool,
    in_simulator: bool,
}

enum Values {
    /// Whole numbers in this range.
    Numbers(RangeInclusive<u64>),
    /// Values that have names, numbered from 0.
    Names(&'static [&'static str]),
}

const fn everywhere(name: &'static str, range: RangeInclusive<u64>) -> Setting {
    Setting { name, values: Values::Numbers(range), on_kernels: true, in_simulator: true }
}

const fn simulated(name: &'static str, range: RangeInclusive<u64>) -> Setting {
    Setting { name, values: Values::Numbers(range), on_kernels: false, in_simulator: true }
}

/// Microseconds, as the kernel allows them.
const SLICES_US: RangeInclusive<u64> = 100..=100_000;

const EEVDF: &[Setting] = &[
    everywhere("slice_us", SLICES_US),
    // Cache-aware scheduling of 7.2, which keeps the threads of a process in one last-level cache.
    Setting {
        name: "llc_balancing",
        values: Values::Names(&["off", "on"]),
        on_kernels: true,
        in_simulator: false,
    },
];
const FIFO: &[Setting] = &[simulated("push_ipi", 0..=1)];
const RR: &[Setting] = &[simulated("slice_ms", 1..=10_000), simulated("push_ipi", 0..=1)];
const CFS: &[Setting] = &[
    simulated("latency_us", 100..=1_000_000),
    simulated("min_granularity_us", 100..=1_000_000),
    simulated("wakeup_granularity_us", 0..=1_000_000),
    simulated("skip_yielder", 0..=1),
    simulated("compat_yield", 0..=1),
    simulated("free_locks", 0..=1),
];

impl Kernel {
    /// In the order in which help lists them.
    pub const ALL: [Self; 5] = [Self::Eevdf, Self::Batch, Self::Fifo, Self::Rr, Self::Cfs];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eevdf => "eevdf",
            Self::Batch => "batch",
            Self::Fifo => "fifo",
            Self::Rr => "rr",
            Self::Cfs => "cfs",
        }
    }

    /// The scheduler of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Whether tasks have a real-time priority, which needs a privilege.
    pub fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr)
    }

    /// Whether it exists on this target.
    pub fn is_at(self, target: Target) -> bool {
        self != Self::Cfs || target == Target::Sim
    }

    fn settings(self) -> &'static [Setting] {
        match self {
            Self::Eevdf | Self::Batch => EEVDF,
            Self::Fifo => FIFO,
            Self::Rr => RR,
            Self::Cfs => CFS,
        }
    }

    fn setting(self, name: &str) -> Result<&'static Setting, UsageError> {
        let names: Vec<&str> = self.settings().iter().map(|setting| setting.name).collect();
        let found = self.settings().iter().find(|setting| setting.name == name);
        found.ok_or_else(|| UsageError::unknown(&format!("setting of {}", self.name()), name, &names))
    }
}

impl Setting {
    fn parse(&self, of: Kernel, text: &str) -> Result<u64, UsageError> {
        let what = format!("{}:{}", of.name(), self.name);
        match &self.values {
            Values::Numbers(range) => number(&what, text, range.clone()),
            Values::Names(names) => match names.iter().position(|name| *name == text) {
                Some(index) => Ok(index as u64),
                None => Err(UsageError::unknown(&what, text, names)),
            },
        }
    }

    fn show(&self, value: u64) -> String {
        match &self.values {
            Values::Numbers(_) => value.to_string(),
            Values::Names(names) => names[value as usize].to_owned(),
        }
    }
}

/// One of the kernel's own schedulers, and its settings that differ from the defaults. Each has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSpec {
    /// Which of the kernel's own schedulers.
    pub kernel: Kernel,
    settings: BTreeMap<&'static str, u64>,
}

impl KernelSpec {
    /// Settings that were set, by name. A value that has a name is given by its number.
    pub fn settings(&self) -> &BTreeMap<&'static str, u64> {
        &self.settings
    }

    /// The value of a setting that was set.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.settings.get(name).copied()
    }

    /// Whether it can be used on this target.
    pub(crate) fn check(&self, target: Target) -> Result<(), UsageError> {
        let name = self.kernel.name();
        if !self.kernel.is_at(target) {
            return Err(UsageError(format!(
                "`{self}`: kernels have no {name} since Linux 6.6; the simulator models it (--on sim)"
            )));
        }
        let is_there = |setting: &Setting| match target {
            Target::Sim => setting.in_simulator,
            Target::Host | Target::Vm => setting.on_kernels,
        };
        let of = |setting: &&Setting| self.settings.contains_key(setting.name);
        match self.kernel.settings().iter().filter(of).find(|setting| !is_there(setting)) {
            Some(Setting { name: setting, in_simulator: true, .. }) => Err(UsageError(format!(
                "`{self}`: {setting} can be set in the simulator only (--on sim); here {name} is as the kernel has it"
            ))),
            Some(Setting { name: setting, .. }) => Err(UsageError(format!(
                "`{self}`: {setting} can be set on a kernel only: the simulator has no model of it"
            ))),
            None => Ok(()),
        }
    }
}

impl From<Kernel> for KernelSpec {
    /// With all settings at their defaults.
    fn from(kernel: Kernel) -> Self {
        Self { kernel, settings: BTreeMap::new() }
    }
}

impl FromStr for KernelSpec {
    type Err = UsageError;

    /// `NAME[:SETTING=VALUE[,SETTING=VALUE…]]`.
    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let names = Kernel::ALL.map(Kernel::name);
        let kernel = Kernel::find(name).ok_or_else(|| UsageError::unknown("scheduler", name, &names))?;
        let mut settings = BTreeMap::new();
        for assignment in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((setting, value)) = assignment.split_once('=') else {
                return Err(UsageError(format!("`{text}`: {assignment} is not SETTING=VALUE")));
            };
            let setting = kernel.setting(&setting.trim().replace('-', "_"))?;
            settings.insert(setting.name, setting.parse(kernel, value.trim())?);
        }
        Ok(Self { kernel, settings })
    }
}

impl fmt::Display for KernelSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.kernel.name())?;
        for (index, (name, value)) in self.settings.iter().enumerate() {
            let value = self.kernel.setting(name).map_or_else(|_| value.to_string(), |it| it.show(*value));
            write!(out, "{}{name}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<KernelSpec, String> {
        text.parse().map_err(|error: UsageError| error.to_string())
    }

    #[test]
    fn reads_what_it_prints() {
        for text in [
            "fifo",
            "fifo:push_ipi=0",
            "rr:push_ipi=0,slice_ms=20",
            "eevdf:llc_balancing=on",
            "batch:slice_us=20000",
            "cfs:latency_us=6000,skip_yielder=1",
            "cfs:compat_yield=1,free_locks=1",
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("eevdf:slice-us=200").unwrap().get("slice_us"), Some(200));
    }

    #[test]
    fn says_what_is_wrong() {
        for (bad, why) in [
            ("fifo:x", "x is not SETTING=VALUE"),
            ("fifo:slice_ms=3", "unknown setting of fifo `slice_ms`"),
            ("eevdf:slice_us=99", "`99` is not a whole number from 100 to 100000"),
            ("eevdf:slice_us=-1", "from 100 to 100000"),
            ("eevdf:slice_ms=3", "did you mean `slice_us`? (valid: slice_us, llc_balancing)"),
            ("eevdf:llc_balancing=1", "unknown eevdf:llc_balancing `1` (valid: off, on)"),
            ("rr:push_ipi=2", "from 0 to 1"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn some_settings_are_for_one_target_only() {
        let check = |text: &str, target| read(text).unwrap().check(target).map_err(|error| error.to_string());
        assert!(
            check("rr:slice_ms=5", Target::Host)
                .unwrap_err()
                .contains("slice_ms can be set in the simulator only")
        );
        assert!(
            check("eevdf:llc_balancing=on", Target::Sim)
                .unwrap_err()
                .contains("llc_balancing can be set on a kernel only")
        );
        for target in [Target::Host, Target::Vm, Target::Sim] {
            assert_eq!(check("batch:slice_us=5000", target), Ok(()));
        }
    }
}
