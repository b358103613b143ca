//! The parts of a machine's file that say where its CPUs are and how fast.
use super::{Certainty, Source, Sourced};
use crate::speed::{CacheSizes, Domain, FULL_SPEED, Frequency, Governor, LoadTimes};
use crate::{Error, MAX_CPUS, Ns, Place};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    #[allow(dead_code, reason = "must be there, for who reads the file")]
    source: String,
    #[allow(dead_code, reason = "must be there, for who reads the file")]
    certainty: Certainty,
    packages: usize,
    nodes_per_package: usize,
    caches_per_node: usize,
    cores_per_cache: usize,
    threads_per_core: usize,
    numbering: Numbering,
    /// Further cores of one thread at each cache, slower than the others.
    small: Option<Small>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Small {
    cores_per_cache: usize,
    /// Speed against the other cores'.
    percent: Spanned<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Numbering {
    /// The threads of a core are neighbours.
    ThreadsTogether,
    /// First every core's first thread, then every core's second one.
    ThreadsApart,
}

/// What a [`Topology`] comes to.
pub(super) struct Cores {
    pub(super) places: Vec<Place>,
    pub(super) capacity: Vec<u32>,
}

impl Topology {
    pub(super) fn cores(&self, source: &Source<'_>, span: Range<usize>) -> Result<Cores, Error> {
        let small = self.small.as_ref().map_or(0, |small| small.cores_per_cache);
        let factors = [self.packages, self.nodes_per_package, self.caches_per_node];
        let of_cache = self
            .cores_per_cache
            .checked_mul(self.threads_per_core)
            .and_then(|threads| threads.checked_add(small))
            .filter(|_| self.cores_per_cache > 0 && self.threads_per_core > 0);
        let caches = factors.iter().try_fold(1usize, |product, factor| product.checked_mul(*factor));
        let count = caches.zip(of_cache).and_then(|(caches, of_cache)| caches.checked_mul(of_cache));
        if !count.is_some_and(|count| (1..=MAX_CPUS).contains(&count)) {
            let product = [factors.as_slice(), &[self.cores_per_cache, self.threads_per_core]].concat();
            let product: Vec<String> = product.iter().map(ToString::to_string).collect();
            let what = format!("{} CPUs; a machine has 1 to {MAX_CPUS}", product.join(" × "));
            return Err(source.wrong(span, "[topology]", what));
        }
        if small > 0 && self.numbering == Numbering::ThreadsApart {
            let what = "with small cores, numbering must be \"threads-together\"";
            return Err(source.wrong(span, "[topology]", what));
        }
        let slow = match &self.small {
            Some(small) => {
                source.within("[topology] small, percent", &small.percent, 1..=100)? * FULL_SPEED / 100
            }
            None => FULL_SPEED,
        };
        let mut places = Vec::new();
        let mut capacity = Vec::new();
        let (mut core, all_caches) = (0, caches.unwrap_or(0));
        for cache in 0..all_caches {
            let node = cache / self.caches_per_node;
            let package = node / self.nodes_per_package;
            for index in 0..self.cores_per_cache + small {
                let is_small = index >= self.cores_per_cache;
                for _ in 0..if is_small { 1 } else { self.threads_per_core } {
                    places.push(Place { core, cache, node, package });
                    capacity.push(if is_small { slow } else { FULL_SPEED });
                }
                core += 1;
            }
        }
        if self.numbering == Numbering::ThreadsApart {
            let together = places.clone();
            let threads = self.threads_per_core;
            places = (0..together.len()).map(|cpu| together[cpu % core * threads + cpu / core]).collect();
        }
        Ok(Cores { places, capacity })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileFrequency {
    domain: Sourced<FileDomain>,
    governor: Sourced<String>,
    min_mhz: Sourced<u32>,
    /// The highest with 1, 2, … active cores in the package.
    turbo_mhz: Sourced<Vec<u32>>,
    /// What the kernel takes for full speed when it measures.
    scale_mhz: Sourced<u32>,
    interval_us: Sourced<Ns>,
    up_mhz_per_ms: Sourced<u32>,
    down_mhz_per_ms: Sourced<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileDomain {
    Core,
    Cache,
    Package,
}

impl FileFrequency {
    pub(super) fn checked(&self, source: &Source<'_>) -> Result<Frequency, Error> {
        const MAX_MHZ: u32 = 100_000;
        let turbo = &self.turbo_mhz.value;
        let turbo_mhz = turbo.get_ref().clone();
        let falls = turbo_mhz.windows(2).all(|pair| pair[0] >= pair[1]);
        let (Some(&first), Some(&last)) = (turbo_mhz.first(), turbo_mhz.last()) else {
            return Err(source.wrong(turbo.span(), "turbo_mhz", "it is empty"));
        };
        if !falls || last == 0 || first > MAX_MHZ {
            let what = format!("{turbo_mhz:?} are not from 1 to {MAX_MHZ}, none higher than the one before");
            return Err(source.wrong(turbo.span(), "turbo_mhz", what));
        }
        let interval_us = source.within("interval_us", &self.interval_us.value, 10..=1_000_000)?;
        let step = |field: &str, of: &Sourced<u32>| {
            let per_ms = source.within(field, &of.value, 1..=MAX_MHZ)?;
            Ok::<u32, Error>((u64::from(per_ms) * interval_us / 1000).clamp(1, u64::from(MAX_MHZ)) as u32)
        };
        let governor = Governor::parse(self.governor.value.get_ref())
            .map_err(|e| source.wrong(self.governor.value.span(), "governor", e.to_string()))?;
        Ok(Frequency {
            domain: match self.domain.value.get_ref() {
                FileDomain::Core => Domain::Core,
                FileDomain::Cache => Domain::Cache,
                FileDomain::Package => Domain::Package,
            },
            governor,
            min_mhz: source.within("min_mhz", &self.min_mhz.value, 1..=last)?,
            scale_mhz: source.within("scale_mhz", &self.scale_mhz.value, 1..=first)?,
            turbo_mhz,
            interval_ns: interval_us * 1000,
            up_mhz: step("up_mhz_per_ms", &self.up_mhz_per_ms)?,
            down_mhz: step("down_mhz_per_ms", &self.down_mhz_per_ms)?,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileCaches {
    core_kib: Sourced<u64>,
    /// 0: there is none.
    shared_kib: Sourced<u64>,
    load_ns_per_kib: Sourced<FileLoads>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLoads {
    shared: Ns,
    node: Ns,
    remote: Ns,
    memory: Ns,
}

impl FileCaches {
    pub(super) fn checked(&self, source: &Source<'_>) -> Result<CacheSizes, Error> {
        const MAX_KIB: u64 = 1 << 30;
        const MAX_NS: Ns = 1_000_000;
        let FileLoads { shared, node, remote, memory } = *self.load_ns_per_kib.value.get_ref();
        if let Some(ns) = [shared, node, remote, memory].into_iter().find(|&ns| ns > MAX_NS) {
            let what = format!("{ns} is not from 0 to {MAX_NS}");
            return Err(source.wrong(self.load_ns_per_kib.value.span(), "load_ns_per_kib", what));
        }
        Ok(CacheSizes {
            core_bytes: source.within("core_kib", &self.core_kib.value, 1..=MAX_KIB)? << 10,
            shared_bytes: source.within("shared_kib", &self.shared_kib.value, 0..=MAX_KIB)? << 10,
            load_ns_per_kib: LoadTimes { shared, node, remote, memory },
        })
    }
}
