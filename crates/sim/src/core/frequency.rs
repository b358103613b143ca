//! Frequencies: what each domain runs at, and what its governor makes of how busy it is.
//!
//! A domain decides once an interval, as long as it is busy or above what it requests; a decision
//! moves the frequency by at most the machine's step. Sources: `drivers/cpufreq/intel_pstate.c`,
//! `get_target_pstate()`; `kernel/sched/cpufreq_schedutil.c`, `get_next_freq()`;
//! `kernel/sched/pelt.c`.
use super::{Core, CpuId, Meter};
use crate::engine::{Event, Ns};
use flsched_machine::{FULL_SPEED, Frequency, Governor, Machine};

/// The time in which utilisation loses half of its weight: `LOAD_AVG_PERIOD`, 32 ms.
const HALF_LIFE_NS: f64 = 32e6;

/// CPUs that share a frequency.
#[derive(Debug)]
struct Domain {
    cpus: Vec<CpuId>,
    mhz: u32,
    /// Its CPUs that are not idle.
    busy: u32,
    busy_since: Ns,
    /// Busy time in the present interval.
    busy_ns: Ns,
    decided_at: Ns,
    /// The share of the time in which it was busy, from 0 to 1: what is left of real-time tasks and of sched_ext's.
    utilisation: f64,
    is_planned: bool,
}

/// All domains of a machine; empty if its frequencies do not change.
#[derive(Debug, Default)]
pub struct Frequencies {
    domains: Vec<Domain>,
    domain_of: Vec<usize>,
    /// Cores of each package that are not idle.
    active: Vec<usize>,
    /// By CPU, and by core.
    meters: Vec<Meter>,
    of_cores: Vec<Meter>,
}

impl Frequencies {
    pub(super) fn new(machine: &Machine) -> Self {
        let Some(frequency) = &machine.speed.frequency else { return Self::default() };
        let mhz = match *frequency.governor {
            Governor::Performance => frequency.max_mhz(),
            Governor::Powersave | Governor::Schedutil => *frequency.min_mhz,
        };
        let domain_of: Vec<usize> = machine.places.iter().map(|place| frequency.domain.of(place)).collect();
        let count = domain_of.iter().max().map_or(0, |last| last + 1);
        let domains = (0..count).map(|index| Domain {
            cpus: (0..domain_of.len()).filter(|&cpu| domain_of[cpu] == index).collect(),
            mhz,
            busy: 0,
            busy_since: 0,
            busy_ns: 0,
            decided_at: 0,
            utilisation: 0.0,
            is_planned: false,
        });
        let meters = vec![Meter::default(); domain_of.len()];
        let of_cores = vec![Meter::default(); machine.threads.len()];
        Self {
            domains: domains.collect(),
            domain_of,
            active: vec![0; machine.nr_packages()],
            meters,
            of_cores,
        }
    }

    /// The CPUs of a domain.
    pub(crate) fn cpus(&self, domain: usize) -> &[CpuId] {
        &self.domains[domain].cpus
    }

    /// The frequency of `cpu`, in MHz.
    pub(super) fn of_cpu(&self, cpu: CpuId) -> u32 {
        self.domains[self.domain_of[cpu]].mhz
    }

    /// A CPU has become busy or idle; `threads` of its core's threads are busy now.
    pub(super) fn count(&mut self, machine: &Machine, now: Ns, cpu: CpuId, is_busy: bool, threads: u32) {
        if self.domains.is_empty() {
            return;
        }
        let place = &machine.places[cpu];
        let active = &mut self.active[place.package];
        match (is_busy, threads) {
            (true, 1) => *active += 1,
            (false, 0) => *active -= 1,
            _ => {}
        }
        let domain = &mut self.domains[self.domain_of[cpu]];
        self.of_cores[place.core].set_busy(now, threads > 0, domain.mhz);
        self.meters[cpu].set_busy(now, is_busy, domain.mhz);
        if is_busy {
            if domain.busy == 0 {
                domain.busy_since = now;
            }
            domain.busy += 1;
        } else {
            domain.busy -= 1;
            if domain.busy == 0 {
                domain.busy_ns += now - domain.busy_since;
            }
        }
    }

    /// The CPU's mean frequency since the last call, in MHz; `None`: it was idle.
    pub(super) fn at_tick(&mut self, now: Ns, cpu: CpuId) -> Option<u64> {
        let mhz = self.of_cpu(cpu);
        self.meters[cpu].tick(now, mhz)
    }

    /// For how long each CPU was busy at each frequency, until now; empty if frequencies do not change.
    pub fn meters(&self, now: Ns) -> Vec<Meter> {
        let mut meters = self.meters.clone();
        for (cpu, meter) in meters.iter_mut().enumerate() {
            meter.count(now, self.of_cpu(cpu));
        }
        meters
    }

    /// The same of each core: it is busy while any of its threads is.
    pub fn of_cores(&self, machine: &Machine, now: Ns) -> Vec<Meter> {
        let mut meters = self.of_cores.clone();
        for (meter, threads) in meters.iter_mut().zip(&machine.threads) {
            meter.count(now, self.of_cpu(threads[0]));
        }
        meters
    }
}

impl Core {
    /// The load of the CPU's domain may have changed: its governor decides within an interval.
    pub(super) fn watch_frequency(&mut self, cpu: CpuId) {
        let Some(frequency) = &self.machine.speed.frequency else { return };
        let index = self.frequencies.domain_of[cpu];
        let domain = &mut self.frequencies.domains[index];
        if !domain.is_planned {
            domain.is_planned = true;
            let idle_for = self.now - domain.decided_at;
            // No frequency was chosen while the domain was idle, but utilisation decayed.
            domain.utilisation *= decay(idle_for.saturating_sub(frequency.interval_ns()));
            domain.decided_at = domain.decided_at.max(self.now.saturating_sub(frequency.interval_ns()));
            self.queue.push(self.now + frequency.interval_ns(), Event::Frequency { domain: index });
        }
    }

    /// The domain's governor chooses a frequency. `utilisation`: the greatest that a scheduling class asks for one of its
    /// CPUs, of [`FULL_SPEED`], as in `sugov_next_freq_shared()`.
    pub(crate) fn decide_frequency(&mut self, index: usize, utilisation: Option<u32>) {
        let machine = std::sync::Arc::clone(&self.machine);
        let Some(frequency) = &machine.speed.frequency else { return };
        let now = self.now;
        let domain = &mut self.frequencies.domains[index];
        if domain.busy > 0 {
            domain.busy_ns += now - domain.busy_since;
            domain.busy_since = now;
        }
        let passed = (now - domain.decided_at).max(1);
        let busy = (domain.busy_ns as f64 / passed as f64).min(1.0);
        domain.busy_ns = 0;
        domain.decided_at = now;
        let invariant = busy * f64::from(domain.mhz) / f64::from(frequency.max_mhz());
        let kept = decay(passed);
        domain.utilisation = domain.utilisation * kept + invariant * (1.0 - kept);
        let package = machine.places[domain.cpus[0]].package;
        let limit = frequency.limit_mhz(self.frequencies.active[package]);
        let asked = domain.cpus.iter().filter_map(|&cpu| self.cpus[cpu].perf_target).max();
        let asked = asked.filter(|_| domain.busy > 0).max(utilisation);
        let target = target_mhz(frequency, domain, busy, asked).clamp(*frequency.min_mhz, limit);
        let before = domain.mhz;
        domain.mhz = target
            .clamp(before.saturating_sub(frequency.down_mhz()), before.saturating_add(frequency.up_mhz()));
        domain.mhz = domain.mhz.min(limit);
        let goes_on = domain.busy > 0 || domain.mhz != target || domain.mhz > resting_mhz(frequency);
        domain.is_planned = goes_on;
        let mhz = domain.mhz;
        if goes_on {
            self.queue.push(now + frequency.interval_ns(), Event::Frequency { domain: index });
        }
        if mhz != before {
            for position in 0..self.frequencies.domains[index].cpus.len() {
                let cpu = self.frequencies.domains[index].cpus[position];
                self.frequencies.meters[cpu].count(now, before);
                self.frequencies.of_cores[machine.places[cpu].core].count(now, before);
                self.timeline.iter_mut().for_each(|timeline| timeline.tuned(cpu, mhz, now));
                self.renew_pace(cpu);
            }
        }
    }
}

/// The factor by which utilisation decays in this time.
fn decay(ns: Ns) -> f64 {
    (-(ns as f64) / HALF_LIFE_NS).exp2()
}

/// The frequency of an idle domain.
fn resting_mhz(frequency: &Frequency) -> u32 {
    match *frequency.governor {
        Governor::Performance => frequency.max_mhz(),
        Governor::Powersave | Governor::Schedutil => *frequency.min_mhz,
    }
}

/// `asked`: the schedulers' request, of [`FULL_SPEED`]; `None`: all CPUs idle, and no scheduler knows what they did.
fn target_mhz(frequency: &Frequency, domain: &Domain, busy: f64, asked: Option<u32>) -> u32 {
    /// What both governors add to the utilisation that they measure.
    const HEADROOM: f64 = 1.25;
    let max = f64::from(frequency.max_mhz());
    match *frequency.governor {
        Governor::Performance => frequency.max_mhz(),
        Governor::Powersave => {
            let target = (max * HEADROOM * busy) as u32;
            // Each decision goes down by half of the difference.
            target + domain.mhz.saturating_sub(target) / 2
        }
        Governor::Schedutil => {
            let asked = asked.map(|perf| f64::from(perf) / f64::from(FULL_SPEED));
            (max * HEADROOM * asked.unwrap_or(domain.utilisation)) as u32
        }
    }
}
