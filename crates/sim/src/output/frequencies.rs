//! How long CPUs were busy at each frequency.
use crate::core::{Core, CpuId, Meter};
use flsched_machine::{Certainty, Machine, Power};
use serde::Serialize;
use std::collections::BTreeMap;

/// The frequencies of a run, on a machine whose frequencies change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrequencyReport {
    /// Mean frequency of all CPUs while they were busy, in MHz.
    pub busy_mhz: f64,
    /// Busy time of all CPUs by frequency, in steps of 100 MHz. The key is the lowest frequency of a step.
    pub busy_s_by_mhz: BTreeMap<u32, f64>,
    /// The same for each CPU that was ever busy.
    pub cpus: BTreeMap<CpuId, CpuFrequencies>,
    /// `None`: what the machine draws is not known.
    pub energy: Option<Energy>,
}

/// What the whole run took, in J.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Energy {
    /// All packages and their cores.
    pub energy_j: f64,
    /// The cores alone.
    pub core_energy_j: f64,
    /// How sure the machine's numbers are, of which it is made.
    pub certainty: Certainty,
}

impl Energy {
    fn of(core: &Core, power: &Power) -> Self {
        let machine: &Machine = &core.machine;
        let run_s = core.now as f64 / 1e9;
        let of_core = |meter: &Meter| {
            let busy_mj: f64 = meter.busy_at().map(|(mhz, ns)| power.core_mw_at(mhz) * ns as f64 / 1e9).sum();
            busy_mj + f64::from(*power.idle_core_mw) * (run_s - meter.busy_ns() as f64 / 1e9)
        };
        let cores_mj: f64 = core.frequencies.of_cores(machine, core.now).iter().map(of_core).sum();
        let packages_mj = f64::from(*power.package_mw) * run_s * machine.nr_packages() as f64;
        Self {
            energy_j: (packages_mj + cores_mj) / 1e3,
            core_energy_j: cores_mj / 1e3,
            certainty: power.certainty(),
        }
    }
}

/// The frequencies of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuFrequencies {
    /// Mean frequency while it was busy, in MHz.
    pub busy_mhz: f64,
    /// See [`FrequencyReport`].
    pub busy_s_by_mhz: BTreeMap<u32, f64>,
}

impl FrequencyReport {
    /// `None`: frequencies do not change, or no CPU was ever busy.
    pub(super) fn of(core: &Core) -> Option<Self> {
        core.machine.speed.frequency.as_ref()?;
        let mut cpus = BTreeMap::new();
        let mut all: BTreeMap<u32, f64> = BTreeMap::new();
        let (mut cycles, mut busy_ns) = (0.0, 0.0);
        for (cpu, meter) in core.frequencies.meters(core.now).iter().enumerate() {
            let Some(busy_mhz) = meter.mean_mhz() else { continue };
            let by_mhz: BTreeMap<u32, f64> =
                meter.busy_at().map(|(mhz, ns)| (mhz, ns as f64 / 1e9)).collect();
            by_mhz.iter().for_each(|(mhz, s)| *all.entry(*mhz).or_default() += s);
            cycles += busy_mhz * meter.busy_ns() as f64;
            busy_ns += meter.busy_ns() as f64;
            cpus.insert(cpu, CpuFrequencies { busy_mhz, busy_s_by_mhz: by_mhz });
        }
        let energy = core.machine.speed.power.as_ref().map(|power| Energy::of(core, power));
        (busy_ns > 0.0).then(|| Self { busy_mhz: cycles / busy_ns, busy_s_by_mhz: all, cpus, energy })
    }

    /// Share of the busy time at each step.
    pub fn shares(&self) -> impl Iterator<Item = (u32, f64)> {
        let all: f64 = self.busy_s_by_mhz.values().sum();
        self.busy_s_by_mhz.iter().map(move |(mhz, s)| (*mhz, s / all))
    }
}
