//! How closely together the threads of a process ran: the share of time on a common CPU or cache.
//!
//! The share is a probability: take two threads of a process, and for each a random moment at which it ran. How likely
//! were both on the same CPU? It is 1 where all threads of a process stay on one CPU, and 1 divided by the number of
//! CPUs where each thread runs anywhere.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How often a thread was sampled on each CPU.
pub(super) type Sightings = BTreeMap<usize, u64>;

/// Sums over pairs of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Shares {
    pub(super) pairs: f64,
    pub(super) same_cpu: f64,
    pub(super) same_cache: f64,
}

impl Shares {
    /// Sums over the threads of one process. `cache_of`: the number of a CPU's last-level cache.
    pub(super) fn of(threads: &[Sightings], cache_of: impl Fn(usize) -> usize) -> Self {
        let by_cache = |thread: &Sightings| {
            thread.iter().fold(Sightings::new(), |mut caches, (cpu, seen)| {
                *caches.entry(cache_of(*cpu)).or_default() += seen;
                caches
            })
        };
        let mut shares = Self::default();
        for (number, one) in threads.iter().enumerate() {
            for other in &threads[..number] {
                shares.pairs += 1.0;
                shares.same_cpu += together(one, other);
                shares.same_cache += together(&by_cache(one), &by_cache(other));
            }
        }
        shares
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.same_cpu += other.same_cpu;
        self.same_cache += other.same_cache;
    }

    /// The shares by name, in percent; empty if there are no pairs of threads.
    pub(super) fn percents(&self) -> Vec<(&'static str, f64)> {
        let percent = |sum: f64| 100.0 * sum / self.pairs;
        match self.pairs > 0.0 {
            true => {
                vec![
                    ("same_cpu_percent", percent(self.same_cpu)),
                    ("same_llc_percent", percent(self.same_cache)),
                ]
            }
            false => Vec::new(),
        }
    }
}

/// The probability that both were in the same place.
fn together(one: &Sightings, other: &Sightings) -> f64 {
    let all = |thread: &Sightings| thread.values().sum::<u64>() as f64;
    let both = one.iter().map(|(place, seen)| *seen as f64 * other.get(place).copied().unwrap_or(0) as f64);
    match all(one) * all(other) {
        0.0 => 0.0,
        pairs => both.sum::<f64>() / pairs,
    }
}

/// The number of a CPU's last-level cache: the first CPU that shares it. If the machine does not report caches, all
/// CPUs count as sharing one.
pub(super) fn cache_of(cpu: usize) -> usize {
    last_level(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/cache"))).unwrap_or(0)
}

fn last_level(folder: &Path) -> Option<usize> {
    let caches = fs::read_dir(folder).ok()?.flatten().filter_map(|cache| {
        let level: u32 = fs::read_to_string(cache.path().join("level")).ok()?.trim().parse().ok()?;
        let shared = fs::read_to_string(cache.path().join("shared_cpu_list")).ok()?;
        let first = shared.trim().split(['-', ',']).next()?.parse().ok()?;
        Some((level, first))
    });
    caches.max().map(|(_, first)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(places: &[(usize, u64)]) -> Sightings {
        places.iter().copied().collect()
    }

    #[test]
    fn together_or_apart() {
        let threads = [seen(&[(0, 10)]), seen(&[(0, 5)]), seen(&[(1, 7)])];
        let shares = Shares::of(&threads, |cpu| cpu / 2);
        assert_eq!(shares, Shares { pairs: 3.0, same_cpu: 1.0, same_cache: 3.0 });
        let halves = [seen(&[(0, 1), (1, 1)]), seen(&[(0, 1), (1, 1)])];
        assert_eq!(Shares::of(&halves, |_| 0).same_cpu, 0.5);
        assert_eq!(Shares::of(&[seen(&[(0, 1)]), seen(&[])], |_| 0).same_cpu, 0.0);
    }

    #[test]
    fn a_lone_thread_has_no_shares() {
        assert!(Shares::of(&[seen(&[(0, 1)])], |_| 0).percents().is_empty());
        let mut sum = Shares::default();
        sum.add(&Shares::of(&[seen(&[(0, 1)]), seen(&[(0, 2)])], |_| 0));
        assert_eq!(sum.percents()[0], ("same_cpu_percent", 100.0));
    }

    #[test]
    fn the_cache_of_the_highest_level_counts() {
        let folder = tempfile::tempdir().unwrap();
        for (index, level, shared) in [(0, "1", "6-7"), (1, "2", "6-7"), (2, "3", "4-7,12")] {
            let cache = folder.path().join(format!("index{index}"));
            fs::create_dir(&cache).unwrap();
            fs::write(cache.join("level"), format!("{level}\n")).unwrap();
            fs::write(cache.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
        }
        assert_eq!(last_level(folder.path()), Some(4));
        assert_eq!(last_level(Path::new("/no/such/folder")), None);
    }
}
