//! What is in the caches, and how long it takes to bring a task's data there.
//!
//! A cache is modelled by how much it has loaded: what a task or a process used is still there as
//! long as not more than the cache's size has been loaded since; what was loaded beyond that has
//! pushed it out, as the least recently used is. Data are not divided further.
use crate::engine::Ns;
use flsched_machine::{CacheSizes, Machine, Place};
use std::collections::HashMap;

/// What a task works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// The task's own data, in bytes.
    pub own_bytes: u64,
    /// Data that all threads of its process share, in bytes.
    pub shared_bytes: u64,
    /// Cache lines of the shared data that it writes in each µs of its work. Each is one that any of the process's
    /// threads that run at that time has written last.
    pub lines_per_us: u64,
    /// What it reads from memory and writes there in a second of its work, in MB: data that no cache holds.
    pub memory_mb_per_s: u64,
}

impl Footprint {
    /// Without data that would have to be fetched.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What data belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Task(usize),
    Process(usize),
}

#[derive(Debug, Default)]
struct Cache {
    /// Bytes loaded since the beginning.
    loaded: u64,
    /// That number when these data were last used. Only for lookups: its order does not matter.
    used_at: HashMap<Owner, u64>,
}

impl Cache {
    /// How many of these bytes are not in the cache.
    fn missing(&self, of: Owner, bytes: u64, size: u64) -> u64 {
        match self.used_at.get(&of) {
            Some(used_at) => (self.loaded - used_at + bytes).saturating_sub(size).min(bytes),
            None => bytes,
        }
    }

    /// They are used here, after `loaded` bytes of them have been loaded.
    fn put(&mut self, of: Owner, loaded: u64) {
        self.loaded += loaded;
        self.used_at.insert(of, self.loaded);
    }
}

/// All caches of a machine.
#[derive(Debug, Default)]
pub struct Caches {
    cores: Vec<Cache>,
    /// By last-level cache; without one, the caches of the cores at that place together.
    shared: Vec<Cache>,
    /// The last-level cache and the node where data were last used.
    home: HashMap<Owner, (usize, usize)>,
}

impl Caches {
    pub(super) fn new(machine: &Machine) -> Self {
        if machine.speed.caches.is_none() {
            return Self::default();
        }
        let count = |of: fn(&Place) -> usize| machine.places.iter().map(of).max().unwrap_or(0) + 1;
        let many = |count: usize| (0..count).map(|_| Cache::default()).collect();
        Self {
            cores: many(count(|place| place.core)),
            shared: many(count(|place| place.cache)),
            home: HashMap::new(),
        }
    }

    /// A task begins to use its data at `place`. Returns how long it takes to load them, and how many bytes of them come
    /// from memory.
    pub(super) fn load(
        &mut self,
        sizes: &CacheSizes,
        place: &Place,
        footprint: Footprint,
        task: usize,
        process: usize,
    ) -> (Ns, u64) {
        let both =
            [(Owner::Task(task), footprint.own_bytes), (Owner::Process(process), footprint.shared_bytes)];
        both.into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(of, bytes)| self.bring(sizes, place, of, bytes))
            .fold((0, 0), |(ns, bytes), more| (ns + more.0, bytes + more.1))
    }

    fn bring(&mut self, sizes: &CacheSizes, place: &Place, of: Owner, bytes: u64) -> (Ns, u64) {
        let times = &sizes.load_ns_per_kib;
        let shared_size = if *sizes.shared_kib > 0 { sizes.shared_bytes() } else { sizes.core_bytes() };
        let to_core = self.cores[place.core].missing(of, bytes, sizes.core_bytes());
        let to_shared = self.shared[place.cache].missing(of, bytes, shared_size).min(to_core);
        let elsewhere = match self.home.get(&of) {
            Some(&(cache, node)) if cache != place.cache => {
                let there = bytes - self.shared[cache].missing(of, bytes, shared_size);
                Some((there.min(to_shared), if node == place.node { times.node } else { times.remote }))
            }
            _ => None,
        };
        let (from_elsewhere, its_time) = elsewhere.unwrap_or((0, 0));
        let ns = (to_core - to_shared) * times.shared
            + from_elsewhere * its_time
            + (to_shared - from_elsewhere) * times.memory;
        self.cores[place.core].put(of, to_core);
        self.shared[place.cache].put(of, to_shared);
        self.home.insert(of, (place.cache, place.node));
        (ns / 1024, to_shared - from_elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_machine::{Certainty, LoadTimes, Sourced};

    fn sizes() -> CacheSizes {
        fn made_up<T>(value: T) -> Sourced<T> {
            Sourced::new(value, "made up", Certainty::Estimated)
        }
        CacheSizes {
            core_kib: made_up(64),
            shared_kib: made_up(1024),
            load_ns_per_kib: made_up(LoadTimes { shared: 10, node: 100, remote: 1000, memory: 300 }),
            memory_gb_per_s: None,
        }
    }

    /// Two nodes with two caches of two cores each.
    fn caches() -> Caches {
        let many = |count: usize| (0..count).map(|_| Cache::default()).collect();
        Caches { cores: many(8), shared: many(4), home: HashMap::new() }
    }

    fn at(core: usize) -> Place {
        Place { core, cache: core / 2, node: core / 4, package: core / 4 }
    }

    fn own(kib: u64) -> Footprint {
        Footprint { own_bytes: kib << 10, ..Footprint::default() }
    }

    #[test]
    fn what_is_there_costs_nothing() {
        let mut caches = caches();
        assert_eq!(caches.load(&sizes(), &at(0), own(32), 1, 1).0, 32 * 300);
        assert_eq!(caches.load(&sizes(), &at(0), own(32), 1, 1).0, 0);
    }

    #[test]
    fn the_nearer_the_cheaper() {
        for (core, per_kib) in [(0, 0), (1, 10), (2, 100), (4, 1000)] {
            let mut caches = caches();
            caches.load(&sizes(), &at(0), own(32), 1, 1);
            assert_eq!(caches.load(&sizes(), &at(core), own(32), 1, 1).0, 32 * per_kib, "core {core}");
        }
    }

    #[test]
    fn others_push_it_out_of_the_small_cache_first() {
        let mut caches = caches();
        caches.load(&sizes(), &at(0), own(32), 1, 1);
        caches.load(&sizes(), &at(0), own(48), 2, 2);
        // 16 KiB displaced the other's 48; part of what was loaded is still there.
        assert_eq!(caches.load(&sizes(), &at(0), own(32), 1, 1).0, 16 * 10);
        for other in 3..40 {
            caches.load(&sizes(), &at(0), own(48), other, other);
        }
        assert_eq!(caches.load(&sizes(), &at(0), own(32), 1, 1).0, 32 * 300);
    }

    #[test]
    fn threads_of_a_process_share() {
        let mut caches = caches();
        let both = Footprint { own_bytes: 8 << 10, shared_bytes: 16 << 10, ..Footprint::default() };
        assert_eq!(caches.load(&sizes(), &at(0), both, 1, 1).0, 24 * 300);
        assert_eq!(caches.load(&sizes(), &at(0), both, 2, 1).0, 8 * 300);
        assert_eq!(caches.load(&sizes(), &at(0), both, 3, 3).0, 24 * 300);
    }

    #[test]
    fn more_than_a_cache_never_fits() {
        let mut caches = caches();
        caches.load(&sizes(), &at(0), own(128), 1, 1);
        assert_eq!(caches.load(&sizes(), &at(0), own(128), 1, 1).0, 64 * 10);
    }
}
