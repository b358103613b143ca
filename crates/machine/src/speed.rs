//! What makes one CPU faster than another, and one moment than the next.
use crate::source::Source;
use crate::sourced::Sourced;
use crate::topology::{Place, Topology};
use crate::{Error, Ns};
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// What requests a frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum Governor {
    /// Always the highest.
    Performance,
    /// `intel_pstate`'s own, in active mode: by the share of time in which the CPU was not idle.
    Powersave,
    /// By the utilization that the scheduler measures, or by what sched_ext requests.
    Schedutil,
}

impl Governor {
    const NAMES: [(&str, Self); 3] =
        [("performance", Self::Performance), ("powersave", Self::Powersave), ("schedutil", Self::Schedutil)];

    /// As in machine files.
    pub fn parse(name: &str) -> Result<Self, UsageError> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, governor)| *governor).ok_or_else(|| {
            let names = Self::NAMES.map(|(name, _)| name);
            UsageError::unknown("governor", name, &names)
        })
    }
}

impl TryFrom<String> for Governor {
    type Error = UsageError;

    fn try_from(name: String) -> Result<Self, UsageError> {
        Self::parse(&name)
    }
}

/// Which CPUs have one frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// The threads of a core.
    Core,
    /// The cores at a last-level cache.
    Cache,
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

const MAX_MHZ: u32 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frequency {
    /// Which CPUs share one.
    pub domain: Sourced<Domain>,
    /// What requests the frequency.
    pub governor: Sourced<Governor>,
    /// The lowest, in MHz.
    pub min_mhz: Sourced<u32>,
    /// The highest frequency by the number of the package's active cores, from one on; the last
    /// value holds for all larger numbers. In MHz.
    pub turbo_mhz: Sourced<Vec<u32>>,
    /// What the kernel takes for full speed when it measures: `arch_max_freq_ratio`. In MHz.
    pub scale_mhz: Sourced<u32>,
    /// From one decision to the next.
    pub interval_us: Sourced<u64>,
    /// How fast it rises.
    pub up_mhz_per_ms: Sourced<u32>,
    /// How fast it falls.
    pub down_mhz_per_ms: Sourced<u32>,
}

impl Frequency {
    /// False if it does not follow what the CPUs do.
    pub fn varies(&self) -> bool {
        *self.governor != Governor::Performance && *self.min_mhz < self.max_mhz()
    }

    /// The highest of all.
    #[inline]
    pub fn max_mhz(&self) -> u32 {
        self.turbo_mhz[0]
    }

    /// The highest frequency with this number of active cores in the package.
    #[inline]
    pub fn limit_mhz(&self, active: usize) -> u32 {
        let last = self.turbo_mhz.len() - 1;
        self.turbo_mhz[active.saturating_sub(1).min(last)]
    }

    /// From one decision to the next.
    #[inline]
    pub fn interval_ns(&self) -> Ns {
        *self.interval_us * 1000
    }

    /// The most of a rise, in MHz for each decision.
    pub fn up_mhz(&self) -> u32 {
        self.step(*self.up_mhz_per_ms)
    }

    /// The most of a fall, in MHz for each decision.
    pub fn down_mhz(&self) -> u32 {
        self.step(*self.down_mhz_per_ms)
    }

    fn step(&self, mhz_per_ms: u32) -> u32 {
        (u64::from(mhz_per_ms) * *self.interval_us / 1000).clamp(1, u64::from(MAX_MHZ)) as u32
    }

    pub(crate) fn check(&self, source: &Source<'_>) -> Result<(), Error> {
        let turbo = &self.turbo_mhz;
        let falls = turbo.windows(2).all(|pair| pair[0] >= pair[1]);
        let (Some(&first), Some(&last)) = (turbo.first(), turbo.last()) else {
            return Err(source.wrong(turbo.span(), "turbo_mhz", "it is empty"));
        };
        if !falls || last == 0 || first > MAX_MHZ {
            let what = format!("{:?} are not from 1 to {MAX_MHZ}, none higher than the one before", **turbo);
            return Err(source.wrong(turbo.span(), "turbo_mhz", what));
        }
        source.within("interval_us", self.interval_us.spanned(), 10..=1_000_000)?;
        source.within("min_mhz", self.min_mhz.spanned(), 1..=last)?;
        source.within("scale_mhz", self.scale_mhz.spanned(), 1..=first)?;
        source.within("up_mhz_per_ms", self.up_mhz_per_ms.spanned(), 1..=MAX_MHZ)?;
        source.within("down_mhz_per_ms", self.down_mhz_per_ms.spanned(), 1..=MAX_MHZ)
    }
}

/// What the CPUs draw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// A package, whatever its cores do, in mW.
    pub package_mw: Sourced<u32>,
    /// A core that idles, in mW.
    pub idle_core_mw: Sourced<u32>,
    /// A core that does not idle: pairs of a frequency in MHz and the power in mW, rising.
    pub core_mw: Sourced<Vec<[u32; 2]>>,
}

impl Power {
    /// A core that runs at this frequency, in mW: on the line between the two pairs beside it.
    pub fn core_mw_at(&self, mhz: u32) -> f64 {
        let pairs = &self.core_mw;
        let next = pairs.partition_point(|[at, _]| *at < mhz);
        match (next.checked_sub(1).map(|last| pairs[last]), pairs.get(next).copied()) {
            (Some([low, mw]), Some([high, most])) => {
                let share = f64::from(mhz - low) / f64::from(high - low);
                f64::from(mw) + share * (f64::from(most) - f64::from(mw))
            }
            (None, Some([_, mw])) | (Some([_, mw]), None) => f64::from(mw),
            (None, None) => 0.0,
        }
    }

    pub(crate) fn check(&self, source: &Source<'_>, frequency: Option<&Frequency>) -> Result<(), Error> {
        const MAX_MW: u32 = 10_000_000;
        let pairs = &self.core_mw;
        let wrong = |what: String| Err(source.wrong(pairs.span(), "core_mw", what));
        if frequency.is_none() {
            return wrong("[power] needs [frequency]".into());
        }
        let rises = pairs.windows(2).all(|two| two[0][0] < two[1][0] && two[0][1] <= two[1][1]);
        let is_in_range = |&[mhz, mw]: &[u32; 2]| (1..=MAX_MHZ).contains(&mhz) && mw <= MAX_MW;
        if pairs.is_empty() || !rises || !pairs.iter().all(is_in_range) {
            return wrong(format!(
                "{:?} are not pairs of MHz, from 1 to {MAX_MHZ}, and mW, from 0 to {MAX_MW}, each above the one before",
                **pairs
            ));
        }
        source.within("package_mw", self.package_mw.spanned(), 0..=MAX_MW)?;
        source.within("idle_core_mw", self.idle_core_mw.spanned(), 0..=MAX_MW)
    }
}

/// What a core's and a last-level cache hold, and how long it takes to fill them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSizes {
    /// Of a core alone, in KiB.
    pub core_kib: Sourced<u64>,
    /// Of all cores that share a last-level cache, in KiB; 0: there is none.
    pub shared_kib: Sourced<u64>,
    /// To bring a KiB to a core: from where.
    pub load_ns_per_kib: Sourced<LoadTimes>,
    /// What a node's memory delivers to all its cores together, in GB/s; without it, as much as they ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb_per_s: Option<Sourced<u64>>,
}

/// See [`CacheSizes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl CacheSizes {
    /// Of a core alone, in bytes.
    pub fn core_bytes(&self) -> u64 {
        *self.core_kib << 10
    }

    /// Of all cores that share a last-level cache, in bytes; 0: there is none.
    pub fn shared_bytes(&self) -> u64 {
        *self.shared_kib << 10
    }

    /// What a node's memory delivers to all its cores together, in GB/s; `None`: as much as they ask for.
    pub fn memory_gb_per_s(&self) -> Option<u64> {
        self.memory_gb_per_s.as_deref().copied()
    }

    pub(crate) fn check(&self, source: &Source<'_>) -> Result<(), Error> {
        const MAX_GB_PER_S: u64 = 100_000;
        const MAX_KIB: u64 = 1 << 30;
        const MAX_NS: Ns = 1_000_000;
        let LoadTimes { shared, node, remote, memory } = *self.load_ns_per_kib;
        if let Some(ns) = [shared, node, remote, memory].into_iter().find(|&ns| ns > MAX_NS) {
            let what = format!("{ns} is not from 0 to {MAX_NS}");
            return Err(source.wrong(self.load_ns_per_kib.span(), "load_ns_per_kib", what));
        }
        if let Some(memory) = &self.memory_gb_per_s {
            source.within("memory_gb_per_s", memory.spanned(), 1..=MAX_GB_PER_S)?;
        }
        source.within("core_kib", self.core_kib.spanned(), 1..=MAX_KIB)?;
        source.within("shared_kib", self.shared_kib.spanned(), 0..=MAX_KIB)
    }
}

/// Checks `[smt]`: with several threads in a core, their speeds must be given.
pub(crate) fn check_smt(
    source: &Source<'_>,
    shares: Option<&Sourced<Vec<u32>>>,
    topology: &Spanned<Topology>,
) -> Result<(), Error> {
    let threads = topology.get_ref().threads_per_core;
    let Some(percent) = shares else {
        return match threads {
            1 => Ok(()),
            _ => Err(source.wrong(
                topology.span(),
                "[topology]",
                format!("cores have {threads} threads: [smt] must have a speed for each of 1 to {threads} running threads"),
            )),
        };
    };
    let falls = percent.windows(2).all(|pair| pair[0] >= pair[1]);
    if percent.len() != threads || percent[0] != 100 || !falls || percent.contains(&0) {
        let what = format!(
            "{:?} are not {threads} percentages, 100 first, none greater than the one before",
            **percent
        );
        return Err(source.wrong(percent.span(), "[smt]", what));
    }
    Ok(())
}

/// All of it; what a machine's file leaves out is the same everywhere and always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Speed {
    /// Of each CPU's core against the fastest one's, from 1 to [`FULL_SPEED`](crate::FULL_SPEED); by CPU.
    pub capacity: Vec<u32>,
    /// Speed of a thread by the number of its core's running threads, from one on; the last value
    /// holds for all larger numbers. Of [`FULL_SPEED`](crate::FULL_SPEED).
    pub smt: Vec<u32>,
    /// `None`: all CPUs are always at their highest.
    pub frequency: Option<Frequency>,
    /// `None`: not known.
    pub power: Option<Power>,
    /// `None`: data are everywhere at once.
    pub caches: Option<CacheSizes>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certainty;

    #[test]
    fn power_lies_on_the_line_between_two_frequencies() {
        let estimated = |mw| Sourced::new(mw, "a guess", Certainty::Estimated);
        let power = Power {
            package_mw: estimated(1000),
            idle_core_mw: estimated(100),
            core_mw: Sourced::new(
                vec![[1200, 2000], [2200, 5000], [3000, 9000]],
                "a guess",
                Certainty::Estimated,
            ),
        };
        let of = |mhz| power.core_mw_at(mhz);
        assert_eq!([1000, 1200, 1700, 2200, 2600, 3000, 3500].map(of), [2e3, 2e3, 3.5e3, 5e3, 7e3, 9e3, 9e3]);
    }
}
