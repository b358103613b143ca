//! The machine: where its CPUs are and what things cost there, from `machines/NAME.toml`.
use crate::costs::{CallbackCosts, Costs};
use crate::file::MachineFile;
use crate::hierarchy::Hierarchy;
use crate::release::Release;
use crate::setting::Setting;
use crate::sourced::{Certainty, Sourced};
use crate::speed::{Domain, Governor, Speed};
use crate::startup::Startup;
use crate::topology::{Distance, Place};
use crate::{Clock, Clocks, CpuId, CpuLocation, Error, FULL_SPEED, MAX_CPUS, Ns, Places, Price};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct Machine {
    /// As in `machines/NAME.toml`.
    pub name: String,
    pub description: String,
    pub places: Vec<Place>,
    /// Threads of a core, by core.
    pub threads: Vec<Vec<CpuId>>,
    /// Its Linux, where the kernel's age makes a difference.
    pub kernel: Release,
    /// From tick to tick.
    pub tick_ns: Ns,
    /// An idle CPU has no ticks.
    pub tickless_idle: bool,
    /// What makes CPUs unequal.
    pub speed: Speed,
    pub costs: Costs,
    /// For the parallel clock's model of memory; `None`: it has not been described so far.
    pub memory: Option<Hierarchy>,
    /// What starting programs and tasks costs beside; `None`: nothing.
    pub startup: Option<Startup>,
    /// By scheduler; `default` for those that are not named.
    callbacks: BTreeMap<String, CallbackCosts>,
    /// By [`Price`].
    certainties: [Option<Certainty>; Price::COUNT],
}

const KNOWN: &[(&str, &str)] = &[
    ("epyc-2s-768t", include_str!("../../../machines/epyc-2s-768t.toml")),
    ("i7-2670qm", include_str!("../../../machines/i7-2670qm.toml")),
    ("parallel-clock", include_str!("../../../machines/parallel-clock.toml")),
    ("knc-31s1p", include_str!("../../../machines/knc-31s1p.toml")),
    ("ryzen-3400g", include_str!("../../../machines/ryzen-3400g.toml")),
    ("server", include_str!("../../../machines/server.toml")),
    ("xeon-e7-8870v4-4s", include_str!("../../../machines/xeon-e7-8870v4-4s.toml")),
];

impl Machine {
    /// One of this build's machines by its name, one in a file, or that of a recording; behind a colon a governor, or
    /// `even` for [`Self::even`].
    pub fn find(word: &str) -> Result<Self, Error> {
        Self::find_with(word, &[])
    }

    /// The same with other values for some entries of its file.
    pub fn find_with(word: &str, settings: &[Setting]) -> Result<Self, Error> {
        match word.rsplit_once(':') {
            None => Self::read(word, settings),
            Some((name, "even")) => Ok(Self::read(name, settings)?.even()),
            Some((name, governor)) => Self::read(name, settings)?.with_governor(governor),
        }
    }

    /// Puts its CPUs to other places, without a change of what things cost.
    pub(crate) fn set_places(&mut self, places: Vec<Place>) {
        self.threads = threads(&places);
        self.places = places;
    }

    fn read(name: &str, settings: &[Setting]) -> Result<Self, Error> {
        if let Some((name, text)) = KNOWN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, &format!("machines/{name}.toml"), settings);
        }
        if !name.contains(['/', '.']) {
            let names: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).collect();
            return Err(Error::unknown("machine", name, &names));
        }
        if Self::is_of_recording(name) {
            return Self::of_recording(name, settings);
        }
        let text =
            std::fs::read_to_string(name).map_err(|cause| Error::File { path: name.to_owned(), cause })?;
        Self::parse(&text, name, settings)
    }

    fn parse(text: &str, path: &str, settings: &[Setting]) -> Result<Self, Error> {
        let mut machine = Self::from(MachineFile::parse_with(text, path, settings)?);
        let words: String = settings.iter().map(|setting| format!(":{setting}")).collect();
        machine.name += &words;
        Ok(machine)
    }

    /// The same kind of machine with another number of CPUs: whole cores of its last ones are left
    /// out, or further caches like its own added.
    pub fn with_cpus(mut self, count: usize) -> Result<Self, Error> {
        if count == 0 || count > MAX_CPUS {
            return Err(Error::usage(format!("{count} CPUs: a machine has 1 to {MAX_CPUS}")));
        }
        self.speed.capacity = vec![FULL_SPEED; count];
        let per_core = self.threads.iter().map(Vec::len).max().unwrap_or(1);
        let cores_of_cache = self.places.iter().filter(|place| place.cache == 0).count().div_ceil(per_core);
        let caches_of_node =
            self.places.iter().filter(|p| p.node == 0).map(|p| p.cache).max().unwrap_or(0) + 1;
        self.places = (0..count)
            .map(|cpu| {
                let core = cpu / per_core;
                let cache = core / cores_of_cache.max(1);
                let node = cache / caches_of_node;
                Place { core, cache, node, package: node }
            })
            .collect();
        self.threads = threads(&self.places);
        self.name = format!("{}/{count}", self.name);
        Ok(self)
    }

    /// The same machine under another governor; one whose frequencies do not change is refused.
    pub fn with_governor(mut self, name: &str) -> Result<Self, Error> {
        let governor = Governor::parse(name)?;
        match &mut self.speed.frequency {
            Some(frequency) => {
                frequency.governor = Sourced::new(governor, "asked for", Certainty::Estimated);
            }
            None => {
                let what = format!("governor {name}: the frequencies of {} do not change", self.name);
                return Err(Error::usage(what));
            }
        }
        self.name = format!("{}:{name}", self.name);
        Ok(self)
    }

    /// The same machine with all CPUs equally fast, always, and with data everywhere at once: to
    /// see what SMT, frequencies and caches do to a result.
    pub fn even(mut self) -> Self {
        self.speed = Speed { capacity: vec![FULL_SPEED; self.nr_cpus()], ..Speed::default() };
        self.name += ":even";
        self
    }

    /// Speed of a thread while this number of its core's threads run, of [`FULL_SPEED`].
    #[inline]
    pub fn smt_speed(&self, running: u32) -> u32 {
        let last = self.speed.smt.len().wrapping_sub(1);
        let index = (running as usize).saturating_sub(1).min(last);
        self.speed.smt.get(index).copied().unwrap_or(FULL_SPEED)
    }

    /// What the functions of the scheduler `name` cost.
    pub fn callbacks(&self, name: &str) -> CallbackCosts {
        self.callbacks.get(name).copied().unwrap_or(self.callbacks["default"])
    }

    /// How sure this price is; `None`: it is none of the machine's.
    pub fn certainty(&self, price: Price) -> Option<Certainty> {
        self.certainties[price as usize]
    }

    /// How many CPUs there are.
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.places.len()
    }

    /// How many packages there are.
    pub fn nr_packages(&self) -> usize {
        self.places.iter().map(|place| place.package + 1).max().unwrap_or(0)
    }

    /// Between two CPUs.
    #[inline]
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        let (one, other) = (&self.places[a], &self.places[b]);
        if a == b {
            Distance::Same
        } else if one.core == other.core {
            Distance::Core
        } else if one.cache == other.cache {
            Distance::Cache
        } else if one.node == other.node {
            Distance::Node
        } else {
            Distance::Remote
        }
    }

    /// The policies' tables of its CPUs that are online, in the order of their numbers.
    pub fn tables(&self, online: impl Iterator<Item = CpuId>) -> Places {
        let location = |cpu| {
            let place: &Place = &self.places[cpu];
            CpuLocation { cpu, core: place.core, llc: place.cache, node: place.node }
        };
        let locations: Vec<CpuLocation> = online.map(location).collect();
        Places::of(&locations, usize::abs_diff)
    }

    /// The clocks of its CPUs that are online, for the policies' tables. A frequency that does not
    /// follow what the CPU does gives nothing to choose by.
    pub fn clocks(&self, online: impl Iterator<Item = CpuId>) -> Clocks {
        let domain = self.speed.frequency.as_ref().map_or(Domain::Core, |frequency| *frequency.domain);
        let varying = self.speed.frequency.as_ref().filter(|frequency| frequency.varies());
        let range_mhz =
            varying.map(|frequency| (u64::from(*frequency.min_mhz), u64::from(frequency.max_mhz())));
        let mut first: BTreeMap<usize, CpuId> = BTreeMap::new();
        let clock = |cpu| {
            let domain = *first.entry(domain.of(&self.places[cpu])).or_insert(cpu);
            Clock { cpu, domain, range_mhz }
        };
        Clocks(online.map(clock).collect())
    }

    /// Why no policy can choose a CPU by its frequency; `None`: a policy can.
    pub fn why_no_choice(&self) -> Option<String> {
        let Some(frequency) = &self.speed.frequency else {
            return Some(format!("the frequencies of {} do not change", self.name));
        };
        if !frequency.varies() {
            return Some("governor performance pins the frequencies".to_owned());
        }
        let first = frequency.domain.of(&self.places[0]);
        let is_one = self.places.iter().all(|place| frequency.domain.of(place) == first);
        is_one.then(|| "all CPUs run at one frequency".to_owned())
    }
}

impl From<MachineFile> for Machine {
    fn from(file: MachineFile) -> Self {
        let (places, capacity) = file.topology.get_ref().cores();
        let certainties = Price::ALL.map(|price| price.certainty(&file));
        let callbacks = file.prices();
        let smt = file.smt.iter().flat_map(|percent| percent.iter());
        Self {
            threads: threads(&places),
            places,
            kernel: file.kernel.map(|kernel| Release::clone(&kernel)).unwrap_or_default(),
            tick_ns: 1_000_000_000 / *file.tick_hz,
            tickless_idle: *file.tickless_idle,
            speed: Speed {
                capacity,
                smt: smt.map(|percent| percent * FULL_SPEED / 100).collect(),
                frequency: file.frequency,
                power: file.power,
                caches: file.caches,
            },
            costs: file.costs,
            memory: file.memory,
            startup: file.startup,
            callbacks: callbacks.iter().map(|(name, of)| (name.clone(), of.into())).collect(),
            certainties,
            name: file.name,
            description: file.description,
        }
    }
}

fn threads(places: &[Place]) -> Vec<Vec<CpuId>> {
    let mut cores: BTreeMap<usize, Vec<CpuId>> = BTreeMap::new();
    for (cpu, place) in places.iter().enumerate() {
        cores.entry(place.core).or_default().push(cpu);
    }
    cores.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_known_machines_are_sound() {
        for (name, _) in KNOWN {
            let machine = Machine::find(name).unwrap();
            assert_eq!(machine.name, *name);
            assert_eq!(machine.threads.iter().map(Vec::len).sum::<usize>(), machine.nr_cpus());
        }
        assert_eq!(Machine::find("knc-31s1p").unwrap().nr_cpus(), 228);
    }

    #[test]
    fn other_sizes_keep_the_kind() {
        let small = Machine::find("knc-31s1p").unwrap().with_cpus(16).unwrap();
        assert_eq!((small.nr_cpus(), small.threads.len()), (16, 4));
        assert!(Machine::find("knc-31s1p").unwrap().with_cpus(0).is_err());
        // As in the virtual machines that it stands for, all CPUs share a cache.
        for cpus in [1, 2, 4, 16, 64] {
            let machine = Machine::find("parallel-clock").unwrap().with_cpus(cpus).unwrap();
            assert!(machine.places.iter().all(|place| place.cache == 0 && place.package == 0), "{cpus}");
        }
    }

    #[test]
    fn names_the_nearest_machine() {
        let error = Machine::find("knc-31sp").unwrap_err();
        assert!(error.to_string().contains("did you mean `knc-31s1p`"), "{error}");
    }
}
