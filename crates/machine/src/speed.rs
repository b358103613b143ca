//! What makes one CPU faster than another, and one moment than the next.
use crate::{Error, Ns, Place};

/// `SCX_CPUPERF_ONE`, and the kernel's `SCHED_CAPACITY_SCALE`: the machine's fastest core at its
/// highest frequency, with one thread running.
pub const FULL_SPEED: u32 = 1024;

/// Who asks for a frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Governor {
    /// Always the highest.
    Performance,
    /// `intel_pstate`'s own, in active mode: by the share of time in which the CPU was not idle.
    Powersave,
    /// By the utilisation that the scheduler sees, or by what sched_ext asks for.
    Schedutil,
}

impl Governor {
    const NAMES: [(&str, Self); 3] =
        [("performance", Self::Performance), ("powersave", Self::Powersave), ("schedutil", Self::Schedutil)];

    /// As in machine files.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, governor)| *governor).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name);
            Error::unknown("governor", name, &names)
        })
    }
}

/// Which CPUs have one frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// The threads of a core.
    Core,
    /// The cores at a last-level cache.
    Cache,
    /// A socket.
    Package,
}

impl Domain {
    /// The number of the domain in which a CPU is.
    pub fn of(self, place: &Place) -> usize {
        match self {
            Self::Core => place.core,
            Self::Cache => place.cache,
            Self::Package => place.package,
        }
    }
}

/// How frequencies change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frequency {
    /// Which CPUs share one.
    pub domain: Domain,
    /// Who asks.
    pub governor: Governor,
    /// The lowest, in MHz.
    pub min_mhz: u32,
    /// The highest with so many cores of the package active, from one on; the last holds for all
    /// further ones. In MHz.
    pub turbo_mhz: Vec<u32>,
    /// What the kernel takes for full speed when it measures: `arch_max_freq_ratio`. In MHz.
    pub scale_mhz: u32,
    /// From one decision to the next.
    pub interval_ns: Ns,
    /// Of a rise, in MHz for each decision.
    pub up_mhz: u32,
    /// Of a fall, in MHz for each decision.
    pub down_mhz: u32,
}

impl Frequency {
    /// False if it does not follow what the CPUs do.
    pub fn varies(&self) -> bool {
        self.governor != Governor::Performance && self.min_mhz < self.max_mhz()
    }

    /// The highest of all.
    #[inline]
    pub fn max_mhz(&self) -> u32 {
        self.turbo_mhz[0]
    }

    /// The highest with so many active cores in the package.
    #[inline]
    pub fn limit_mhz(&self, active: usize) -> u32 {
        let last = self.turbo_mhz.len() - 1;
        self.turbo_mhz[active.saturating_sub(1).min(last)]
    }
}

/// What a core's and a last-level cache hold, and how long it takes to fill them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSizes {
    /// Of a core alone, in bytes.
    pub core_bytes: u64,
    /// Of all cores that share a last-level cache, in bytes; 0: there is none.
    pub shared_bytes: u64,
    /// To bring a KiB to a core: from where.
    pub load_ns_per_kib: LoadTimes,
}

/// See [`CacheSizes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadTimes {
    /// From the last-level cache of this core.
    pub shared: Ns,
    /// From another cache of this node.
    pub node: Ns,
    /// From a cache of another node.
    pub remote: Ns,
    /// From memory.
    pub memory: Ns,
}

/// All of it; what a machine's file leaves out is the same everywhere and always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Speed {
    /// Of each CPU's core against the fastest one's, from 1 to [`FULL_SPEED`]; by CPU.
    pub capacity: Vec<u32>,
    /// Speed of a thread with so many threads of its core running, from one on; the last holds for
    /// all further ones. Of [`FULL_SPEED`].
    pub smt: Vec<u32>,
    /// `None`: all CPUs are always at their highest.
    pub frequency: Option<Frequency>,
    /// `None`: data are everywhere at once.
    pub caches: Option<CacheSizes>,
}
