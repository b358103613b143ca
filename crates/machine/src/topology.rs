//! Where a machine's CPUs are.
use crate::source::Source;
use crate::sourced::Certainty;
use crate::{Error, FULL_SPEED, MAX_CPUS};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use toml::Spanned;

/// Where a CPU is; all numbers count through the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Physical core.
    pub core: usize,
    /// Last-level cache.
    pub cache: usize,
    /// Memory node.
    pub node: usize,
    /// Socket.
    pub package: usize,
}

/// How far apart two CPUs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// Threads of one core.
    Core,
    /// Cores that share a last-level cache.
    Cache,
    /// Caches of one node.
    Node,
    /// Different nodes.
    Remote,
}

/// The section `[topology]`: a machine in which all packages are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Where these numbers are from.
    pub source: String,
    /// How sure they are.
    pub certainty: Certainty,
    /// Sockets.
    pub packages: usize,
    /// Memory nodes of each.
    pub nodes_per_package: usize,
    /// Last-level caches of each node.
    pub caches_per_node: usize,
    /// Cores at each cache, without small ones.
    pub cores_per_cache: usize,
    /// Threads of each of these.
    pub threads_per_core: usize,
    /// Which CPUs are a core's.
    pub numbering: Numbering,
    /// Further cores of one thread at each cache, slower than the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small: Option<Small>,
}

/// See [`Topology::small`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Small {
    /// At each cache.
    pub cores_per_cache: usize,
    /// Speed against the other cores'.
    pub percent: Spanned<u32>,
}

/// Which CPU numbers the threads of a core have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// The threads of a core are neighbours.
    ThreadsTogether,
    /// First every core's first thread, then every core's second one.
    ThreadsApart,
}

impl Topology {
    pub(crate) fn check(&self, source: &Source<'_>, span: Range<usize>) -> Result<(), Error> {
        let small = self.small_per_cache();
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
        match &self.small {
            Some(small) => source.within("[topology] small, percent", &small.percent, 1..=100),
            None => Ok(()),
        }
    }

    fn small_per_cache(&self) -> usize {
        self.small.as_ref().map_or(0, |small| small.cores_per_cache)
    }

    /// Of each CPU its place, and its core's speed of [`FULL_SPEED`]. The numbers have been checked.
    pub(crate) fn cores(&self) -> (Vec<Place>, Vec<u32>) {
        let slow = self.small.as_ref().map_or(FULL_SPEED, |small| small.percent.get_ref() * FULL_SPEED / 100);
        let mut places = Vec::new();
        let mut capacity = Vec::new();
        let mut core = 0;
        for cache in 0..self.packages * self.nodes_per_package * self.caches_per_node {
            let node = cache / self.caches_per_node;
            let package = node / self.nodes_per_package;
            for index in 0..self.cores_per_cache + self.small_per_cache() {
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
        (places, capacity)
    }
}
