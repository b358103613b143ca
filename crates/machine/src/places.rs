//! The tables of `policies/topology.bpf.h`: which CPUs are near each other.
use std::collections::{BTreeMap, BTreeSet};

/// As in `policies/topology.bpf.h`.
pub const MAX_CPUS: usize = 4096;
/// As in `policies/topology.bpf.h`.
pub const MAX_GROUPS: usize = 1024;
const GROUP_CPUS: usize = 64;
const MAX_NEAR: usize = 14;
const MAX_RUNS: usize = 8;
const RINGS: usize = 4;
/// Bits of a word for all groups.
const SUMMARY: usize = 64;
/// Bits of a word of the kernel's CPU masks.
const MASK_WORD: usize = 64;
/// The group of a CPU that is offline or does not exist: none that there is, unless there are as many as
/// there can be.
const NOWHERE: Place = Place { group: MAX_GROUPS as u16 - 1, bit: 0 };
/// Threads of a core that the policies distinguish.
const MAX_THREADS: usize = 8;
/// A cache that fewer CPUs share, or only threads of one core, makes no group of its own: no other
/// core would be near.
const MIN_SHARED: usize = 4;

/// `struct place`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    group: u16,
    bit: u16,
}

/// `struct run`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Run {
    cpu: u16,
    bit: u8,
    nr: u8,
    step: u8,
    padding: u8,
}

/// `struct group`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    missing: u64,
    rings: [u64; RINGS],
    cores: u16,
    threads: u16,
    nr_cpus: u16,
    nr_near: u16,
    near: [u16; MAX_NEAR],
    cpus: [u16; GROUP_CPUS],
    nr_runs: u16,
    runs: [Run; MAX_RUNS],
    padding: [u16; 1],
}

/// Where a CPU is, as the machine reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLocation {
    pub cpu: usize,
    /// Its core's, on the whole machine.
    pub core: usize,
    /// Its last-level cache's, on the whole machine.
    pub llc: usize,
    pub node: usize,
}

/// A group, as the policies see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOfCpus {
    /// Of each core the CPUs that are its threads.
    pub cores: Vec<Vec<usize>>,
    /// The other groups in the order in which a search visits them; the nearest 14 at most.
    pub near: Vec<usize>,
    /// All groups by their distance, the nearest first. With more than 64 groups, those that share a bit are as near as the
    /// nearest of them.
    pub rings: Vec<Vec<usize>>,
}

/// The tables, and what was wrong with the machine's own.
pub struct Places {
    places: Vec<Place>,
    groups: Vec<Group>,
    /// For the user to read.
    pub warning: Option<String>,
}

impl Places {
    /// As if all CPUs shared one cache.
    pub fn flat(online: &BTreeSet<usize>, reason: &str) -> Self {
        let locations: Vec<_> =
            online.iter().map(|&cpu| CpuLocation { cpu, core: cpu, llc: 0, node: 0 }).collect();
        let warning =
            format!("this machine's topology is not consistent ({reason}); all CPUs count as equally near");
        Self { warning: Some(warning), ..Self::of(&locations, |_, _| 0) }
    }

    /// Of these CPUs; `distance` is between nodes.
    pub fn of(locations: &[CpuLocation], distance: impl Fn(usize, usize) -> usize) -> Self {
        let mut caches: BTreeMap<(usize, usize), BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for location in locations.iter().filter(|location| location.cpu < MAX_CPUS) {
            caches
                .entry((location.node, location.llc))
                .or_default()
                .entry(location.core)
                .or_default()
                .push(location.cpu);
        }
        let mut nodes: BTreeMap<(usize, usize), BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for ((node, llc), cores) in caches {
            let shared = cores.len() > 1 && cores.values().map(Vec::len).sum::<usize>() >= MIN_SHARED;
            nodes.entry((node, if shared { llc } else { usize::MAX })).or_default().extend(cores);
        }
        let mut homes = Vec::new(); // node and LLC of each group
        let mut groups = Vec::new();
        let mut places = vec![NOWHERE; MAX_CPUS];
        for (home, cores) in nodes {
            let cores: Vec<Vec<usize>> =
                cores.into_values().flat_map(|cpus| split(&cpus, MAX_THREADS)).collect();
            let threads = cores.iter().map(Vec::len).max().unwrap_or(1);
            for chunk in split(&cores, GROUP_CPUS / threads) {
                let group = Group::of(&chunk, threads);
                for (bit, cpu) in group.bits() {
                    places[cpu] = Place { group: groups.len() as u16, bit: bit as u16 };
                }
                groups.push(group);
                homes.push(home);
            }
        }
        let shift = summary_shift(groups.len());
        for (index, group) in groups.iter_mut().enumerate() {
            group.set_near(&nearest(&homes, index, &distance));
            group.rings = rings(&homes, index, shift, &distance);
        }
        Self { places, groups, warning: None }
    }

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The groups, in the order of their numbers.
    pub fn groups(&self) -> Vec<GroupOfCpus> {
        let shift = summary_shift(self.groups.len());
        let in_ring = |bits: &u64| -> Vec<usize> {
            (0..self.groups.len()).filter(|group| bits >> (group >> shift) & 1 == 1).collect()
        };
        let of = |group: &Group| {
            let mut cores = vec![Vec::new(); usize::from(group.cores)];
            for (bit, cpu) in group.bits() {
                cores[bit % usize::from(group.cores)].push(cpu);
            }
            let near = group.near[..usize::from(group.nr_near)].iter().map(|&near| usize::from(near));
            let rings = group.rings.iter().filter(|&&bits| bits != 0).map(in_ring);
            GroupOfCpus { cores, near: near.collect(), rings: rings.collect() }
        };
        self.groups.iter().map(of).collect()
    }

    /// The CPUs that have a place.
    pub fn cpus(&self) -> BTreeSet<usize> {
        self.groups.iter().flat_map(|group| group.bits().map(|(_, cpu)| cpu)).collect()
    }

    /// For the variable of a policy that has this name; `None`: it is another variable.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        match name {
            "places" => Some(self.places.iter().flat_map(Place::bytes).collect()),
            "groups" => {
                let mut bytes: Vec<u8> = self.groups.iter().flat_map(Group::bytes).collect();
                bytes.resize(MAX_GROUPS * size_of::<Group>(), 0);
                Some(bytes)
            }
            "nr_groups" => Some((self.groups.len() as u64).to_ne_bytes().to_vec()),
            "summary_shift" => Some(u64::from(summary_shift(self.groups.len())).to_ne_bytes().to_vec()),
            _ => None,
        }
    }
}

impl Place {
    fn bytes(&self) -> Vec<u8> {
        [self.group, self.bit].iter().flat_map(|field| field.to_ne_bytes()).collect()
    }
}

impl Run {
    fn bytes(&self) -> [u8; 6] {
        let [low, high] = self.cpu.to_ne_bytes();
        [low, high, self.bit, self.nr, self.step, self.padding]
    }

    /// With one more CPU at the next bit, if that is the same distance away, and in the same word.
    fn extended(&self, bit: usize, cpu: usize) -> Option<Self> {
        let first = usize::from(self.cpu);
        let step = if self.nr == 1 { cpu.checked_sub(first)? } else { usize::from(self.step) };
        let fits = (1..=2).contains(&step)
            && bit == usize::from(self.bit + self.nr)
            && cpu == first + usize::from(self.nr) * step
            && cpu / MASK_WORD == first / MASK_WORD;
        fits.then_some(Self { nr: self.nr + 1, step: step as u8, ..*self })
    }
}

impl Group {
    /// Bits go by threads: the first thread of each core, then the second of each.
    fn of(cores: &[Vec<usize>], threads: usize) -> Self {
        let mut group = Self {
            missing: 0,
            cores: cores.len() as u16,
            threads: threads as u16,
            nr_cpus: cores.iter().map(Vec::len).sum::<usize>() as u16,
            nr_near: 0,
            near: [0; MAX_NEAR],
            cpus: [0; GROUP_CPUS],
            rings: [0; RINGS],
            nr_runs: 0,
            runs: [Run::default(); MAX_RUNS],
            padding: [0; 1],
        };
        for (core, cpus) in cores.iter().enumerate() {
            for thread in 0..threads {
                let bit = thread * cores.len() + core;
                match cpus.get(thread) {
                    Some(&cpu) => group.cpus[bit] = cpu as u16,
                    None => group.missing |= 1 << bit,
                }
            }
        }
        let runs = group.find_runs();
        if runs.len() <= MAX_RUNS {
            group.nr_runs = runs.len() as u16;
            group.runs[..runs.len()].copy_from_slice(&runs);
        }
        group
    }

    /// The fewest there are if each is as long as can be.
    fn find_runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (bit, cpu) in self.bits() {
            match runs.last_mut().and_then(|run| Some((run.extended(bit, cpu)?, run))) {
                Some((longer, run)) => *run = longer,
                None => runs.push(Run { cpu: cpu as u16, bit: bit as u8, nr: 1, step: 1, padding: 0 }),
            }
        }
        runs
    }

    fn bits(&self) -> impl Iterator<Item = (usize, usize)> {
        let bits = usize::from(self.cores * self.threads);
        (0..bits).filter(|bit| self.missing >> bit & 1 == 0).map(|bit| (bit, usize::from(self.cpus[bit])))
    }

    fn set_near(&mut self, near: &[usize]) {
        let near = &near[..near.len().min(MAX_NEAR)];
        self.nr_near = near.len() as u16;
        for (slot, group) in self.near.iter_mut().zip(near) {
            *slot = *group as u16;
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let fields = [self.cores, self.threads, self.nr_cpus, self.nr_near];
        let words = [self.missing].into_iter().chain(self.rings);
        let shorts = fields.iter().chain(&self.near).chain(&self.cpus).chain([&self.nr_runs]);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        bytes.extend(shorts.flat_map(|field| field.to_ne_bytes()));
        bytes.extend(self.runs.iter().flat_map(Run::bytes));
        bytes.extend(self.padding.iter().flat_map(|field| field.to_ne_bytes()));
        bytes
    }
}

/// So many groups share a bit of a word for all groups, as a power of two.
fn summary_shift(groups: usize) -> u32 {
    groups.div_ceil(SUMMARY).next_power_of_two().trailing_zeros()
}

/// How far a group is from another one, the smallest first.
fn remoteness(
    homes: &[(usize, usize)],
    own: usize,
    other: usize,
    distance: impl Fn(usize, usize) -> usize,
) -> (bool, bool, usize) {
    let ((node, _), (other_node, _)) = (homes[own], homes[other]);
    (homes[own] != homes[other], node != other_node, distance(node, other_node))
}

/// The bits of all groups by their distance; a bit that several share is as near as the nearest of them.
fn rings(
    homes: &[(usize, usize)],
    own: usize,
    shift: u32,
    distance: impl Fn(usize, usize) -> usize,
) -> [u64; RINGS] {
    let mut nearest = BTreeMap::new(); // by bit
    for other in 0..homes.len() {
        let (_, is_elsewhere, nodes) = remoteness(homes, own, other, &distance);
        let away = nearest.entry(other >> shift).or_insert((is_elsewhere, nodes));
        *away = (*away).min((is_elsewhere, nodes));
    }
    let distances: BTreeSet<_> = nearest.values().copied().collect();
    let mut rings = [0; RINGS];
    for (ring, away) in distances.into_iter().enumerate() {
        let bits = nearest.iter().filter(|&(_, &other)| other == away).map(|(&bit, _)| 1u64 << bit);
        rings[ring.min(RINGS - 1)] |= bits.sum::<u64>();
    }
    rings
}

/// The other groups, nearest first. Groups at equal distance come in a different order for each
/// group, so that they do not all search the same one first.
fn nearest(homes: &[(usize, usize)], own: usize, distance: impl Fn(usize, usize) -> usize) -> Vec<usize> {
    let mut others: Vec<usize> = (1..homes.len()).map(|step| (own + step) % homes.len()).collect();
    others.sort_by_key(|&other| remoteness(homes, own, other, &distance));
    others
}

/// In parts as equal as can be, none larger than `most`.
fn split<T: Clone>(all: &[T], most: usize) -> Vec<Vec<T>> {
    let parts = all.len().div_ceil(most).max(1);
    all.chunks(all.len().div_ceil(parts).max(1)).map(<[T]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat_distance(a: usize, b: usize) -> usize {
        a.abs_diff(b)
    }

    /// `nodes` nodes of `llcs` caches each, `cores` cores a cache, `threads` threads a core; siblings
    /// have numbers far apart, as on most machines.
    fn machine(nodes: usize, llcs: usize, cores: usize, threads: usize) -> Vec<CpuLocation> {
        let all_cores = nodes * llcs * cores;
        (0..all_cores * threads)
            .map(|cpu| {
                let core = cpu % all_cores;
                CpuLocation { cpu, core, llc: core / cores, node: core / cores / llcs }
            })
            .collect()
    }

    /// Every CPU has one place, and is listed there by its group.
    fn check(places: &Places, locations: &[CpuLocation]) {
        assert_eq!(places.warning, None);
        let mut seen = 0;
        for (index, group) in places.groups.iter().enumerate() {
            assert!(usize::from(group.cores * group.threads) <= GROUP_CPUS);
            for (bit, cpu) in group.bits() {
                assert_eq!(places.places[cpu], Place { group: index as u16, bit: bit as u16 });
                seen += 1;
            }
        }
        assert_eq!(seen, locations.len());
    }

    #[test]
    fn a_cpu_that_is_offline_shares_no_bit_with_one_that_is_online() {
        let mut locations = machine(1, 1, 4, 1);
        locations.retain(|location| location.cpu != 1);
        let places = Places::of(&locations, flat_distance);
        assert_eq!((places.places[1], places.places[4]), (NOWHERE, NOWHERE));
        assert!(usize::from(NOWHERE.group) >= places.group_count());
    }

    #[test]
    fn layout_is_that_of_the_c_structs() {
        assert_eq!(size_of::<Place>(), 4);
        assert_eq!(size_of::<Run>(), 6);
        let shorts = 4 + MAX_NEAR + GROUP_CPUS + 1 + 1;
        assert_eq!(size_of::<Group>(), (1 + RINGS) * 8 + shorts * 2 + MAX_RUNS * 6);
        let places = Places::of(&machine(1, 1, 4, 2), flat_distance);
        assert_eq!(places.bytes("groups").unwrap().len(), MAX_GROUPS * size_of::<Group>());
        assert_eq!(places.bytes("places").unwrap().len(), MAX_CPUS * 4);
        assert_eq!(places.bytes("nr_groups").unwrap(), 1u64.to_ne_bytes());
        assert!(places.bytes("slice_us").is_none());
    }

    #[test]
    fn siblings_are_a_shift_apart() {
        let locations = machine(1, 1, 4, 2);
        let places = Places::of(&locations, flat_distance);
        check(&places, &locations);
        let group = &places.groups[0];
        assert_eq!((group.cores, group.threads, group.missing), (4, 2, 0));
        assert_eq!(group.cpus[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(places.places[4], Place { group: 0, bit: 4 });
    }

    #[test]
    fn hybrid_cores_miss_their_second_thread() {
        // Two cores with two threads, two with one.
        let core_of = [0, 0, 1, 1, 2, 3];
        let locations: Vec<_> = core_of
            .iter()
            .enumerate()
            .map(|(cpu, &core)| CpuLocation { cpu, core, llc: 0, node: 0 })
            .collect();
        let places = Places::of(&locations, flat_distance);
        check(&places, &locations);
        assert_eq!(places.groups[0].missing, 0b1100_0000);
        assert_eq!(places.groups[0].nr_cpus, 6);
    }

    #[test]
    fn large_machines() {
        for (nodes, llcs, cores, threads) in [(2, 12, 8, 4), (64, 1, 8, 2), (1, 1, 512, 2), (8, 16, 4, 2)] {
            let locations = machine(nodes, llcs, cores, threads);
            let places = Places::of(&locations, flat_distance);
            check(&places, &locations);
            for group in &places.groups {
                assert_eq!(usize::from(group.nr_near), (places.groups.len() - 1).min(MAX_NEAR));
            }
        }
    }

    #[test]
    fn nearest_is_the_same_node_then_the_next() {
        let places = Places::of(&machine(4, 2, 8, 1), flat_distance);
        assert_eq!(places.groups.len(), 8);
        assert_eq!(places.groups[2].near[..3], [3, 4, 5], "its node's other cache, then node 2 or 0");
        let node = |group: u16| group / 2;
        assert_eq!(node(places.groups[7].near[0]), 3);
        assert_eq!(node(places.groups[7].near[1]), 2);
    }

    #[test]
    fn all_groups_are_in_rings_by_distance() {
        // 128 caches: eight nodes of sixteen, in two packages.
        for cores in [2, 8, 32] {
            let locations = machine(8, 16, cores, 2);
            let package = |node: usize| node / 4;
            let places = Places::of(&locations, |a, b| {
                if a == b { 10 } else { 12 + 20 * usize::from(package(a) != package(b)) }
            });
            assert_eq!(places.groups.len(), 128);
            let node_bits = |nodes: std::ops::Range<usize>| -> u64 {
                nodes.flat_map(|node| node * 8..node * 8 + 8).map(|bit| 1u64 << bit).sum()
            };
            let group = &places.groups[3 * 16 + 5];
            assert_eq!(group.rings[0], node_bits(3..4));
            assert_eq!(group.rings[1], node_bits(0..3));
            assert_eq!(group.rings[2], node_bits(4..8));
            assert_eq!(group.rings[3], 0);
            for group in &places.groups {
                assert_eq!(group.rings.iter().sum::<u64>(), u64::MAX, "each bit in one ring");
            }
        }
        let small = Places::of(&machine(2, 3, 8, 1), flat_distance);
        assert_eq!(small.bytes("summary_shift").unwrap(), 0u64.to_ne_bytes());
        assert_eq!(small.groups[1].rings, [0b000_111, 0b111_000, 0, 0]);
    }

    #[test]
    fn runs_hold_all_cpus_of_regular_groups() {
        let listed = |group: &Group| -> Vec<(usize, usize)> {
            let runs = &group.runs[..usize::from(group.nr_runs)];
            let cpus = runs.iter().flat_map(|run| {
                (0..usize::from(run.nr)).map(|index| {
                    (usize::from(run.bit) + index, usize::from(run.cpu) + index * usize::from(run.step))
                })
            });
            cpus.collect()
        };
        let adjacent: Vec<_> =
            (0..128).map(|cpu| CpuLocation { cpu, core: cpu / 2, llc: cpu / 64, node: 0 }).collect();
        for locations in [machine(1, 1, 4, 2), machine(2, 12, 8, 4), machine(1, 1, 57, 4), adjacent] {
            for group in &Places::of(&locations, flat_distance).groups {
                assert!(group.nr_runs > 0, "{group:?}");
                assert_eq!(listed(group), group.bits().collect::<Vec<_>>());
                let runs = &group.runs[..usize::from(group.nr_runs)];
                assert!(runs.iter().all(|run| {
                    let last = run.cpu + u16::from(run.nr - 1) * u16::from(run.step);
                    run.cpu / 64 == last / 64
                }));
            }
        }
        let irregular: Vec<_> =
            (0..40).map(|cpu| CpuLocation { cpu: cpu * 3, core: cpu, llc: 0, node: 0 }).collect();
        let places = Places::of(&irregular, flat_distance);
        assert_eq!(places.groups[0].nr_runs, 0);
    }

    #[test]
    fn caches_of_one_core_join_their_node() {
        // As the firmware of the Xeon Phi reports it: no cache but each core's own.
        for (threads, groups) in [(2, 2), (4, 4)] {
            let locations: Vec<_> = machine(1, 57, 1, threads);
            let places = Places::of(&locations, flat_distance);
            check(&places, &locations);
            assert_eq!(places.groups.len(), groups, "64 CPUs to a group at most");
        }
    }

    #[test]
    fn odd_numbers() {
        // Gaps between CPU numbers, nodes without CPUs between nodes with some.
        let locations: Vec<_> = [3, 5, 9, 1000, 1001, 4095]
            .iter()
            .map(|&cpu| CpuLocation { cpu, core: cpu, llc: cpu / 1000, node: 7 * (cpu / 1000) })
            .collect();
        check(&Places::of(&locations, flat_distance), &locations);
        let beyond = Places::of(
            &[
                CpuLocation { cpu: 0, core: 0, llc: 0, node: 0 },
                CpuLocation { cpu: 5000, core: 1, llc: 0, node: 0 },
            ],
            flat_distance,
        );
        assert_eq!(beyond.groups.len(), 1);
    }
}
