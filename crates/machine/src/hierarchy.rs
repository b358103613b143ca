//! What the parallel clock's model of memory needs beside [`CacheSizes`](crate::CacheSizes).
use crate::source::Source;
use crate::sourced::Sourced;
use crate::speed::CacheSizes;
use crate::{Error, Ns};
use serde::{Deserialize, Serialize};

/// Caches as they are built, and what a core does not wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hierarchy {
    /// What goes from cache to cache as a whole, in bytes.
    pub line_bytes: Sourced<u32>,
    /// A core's first cache for data, in KiB.
    pub l1_kib: Sourced<u32>,
    /// Lines of a set.
    pub ways: Sourced<Ways>,
    /// What a load takes longer than one from the first cache.
    pub latency_ns: Sourced<Latencies>,
    /// Stores that wait for their lines while the core goes on; 0: it waits.
    pub store_buffer: Sourced<u32>,
    /// Misses that a core waits for together.
    pub overlap: Sourced<Overlap>,
    /// Rows of lines that a core's prefetcher follows; 0: there is none.
    pub prefetch_streams: Sourced<u32>,
}

/// See [`Hierarchy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ways {
    /// Of a core's first cache.
    pub l1: u32,
    /// Of the cache that `core_kib` is the size of.
    pub core: u32,
    /// Of the one that `shared_kib` is the size of.
    pub shared: u32,
}

/// See [`Hierarchy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// From the core's own second cache.
    pub core: Ns,
    /// From the last-level cache that it shares.
    pub shared: Ns,
    /// From the memory of its node.
    pub memory: Ns,
    /// From the memory of another node.
    pub remote_memory: Ns,
}

/// See [`Hierarchy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlap {
    /// Misses under way at once.
    pub misses: u32,
    /// Instructions from the first of them to the last.
    pub window: u32,
}

impl Hierarchy {
    pub(crate) fn check(&self, source: &Source<'_>, caches: Option<&CacheSizes>) -> Result<(), Error> {
        const MAX_NS: Ns = 100_000;
        let Some(caches) = caches else {
            let what = "it needs [caches], which has the sizes of the other caches";
            return Err(source.wrong(self.line_bytes.span(), "[memory]", what));
        };
        source.within("line_bytes", self.line_bytes.spanned(), 32..=256)?;
        if !self.line_bytes.is_power_of_two() {
            let what = format!("{} is no power of two", *self.line_bytes);
            return Err(source.wrong(self.line_bytes.span(), "line_bytes", what));
        }
        source.within("l1_kib", self.l1_kib.spanned(), 1..=1024)?;
        if u64::from(*self.l1_kib) > *caches.core_kib {
            let what = format!("{} is more than core_kib, {}", *self.l1_kib, *caches.core_kib);
            return Err(source.wrong(self.l1_kib.span(), "l1_kib", what));
        }
        self.check_ways(source, caches)?;
        let Latencies { core, shared, memory, remote_memory } = *self.latency_ns;
        if let Some(ns) = [core, shared, memory, remote_memory].into_iter().find(|&ns| ns > MAX_NS) {
            let what = format!("{ns} is not from 0 to {MAX_NS}");
            return Err(source.wrong(self.latency_ns.span(), "latency_ns", what));
        }
        source.within("store_buffer", self.store_buffer.spanned(), 0..=255)?;
        source.within("prefetch_streams", self.prefetch_streams.spanned(), 0..=32)?;
        let Overlap { misses, window } = *self.overlap;
        if !(1..=64).contains(&misses) || window > 10_000 {
            let what = format!("{misses} misses and {window} instructions are not 1 to 64 and 0 to 10000");
            return Err(source.wrong(self.overlap.span(), "overlap", what));
        }
        Ok(())
    }

    fn check_ways(&self, source: &Source<'_>, caches: &CacheSizes) -> Result<(), Error> {
        const MAX_KIB: u64 = 1 << 20;
        let Ways { l1, core, shared } = *self.ways;
        let sizes = [
            ("l1", l1, u64::from(*self.l1_kib)),
            ("core", core, *caches.core_kib),
            ("shared", shared, *caches.shared_kib),
        ];
        for (name, ways, kib) in sizes {
            let set = u64::from(ways) * u64::from(*self.line_bytes);
            let what = if !(1..=64).contains(&ways) {
                format!("{name}: {ways} is not from 1 to 64")
            } else if kib > MAX_KIB {
                format!("{name}: a cache of {kib} KiB is more than {MAX_KIB} KiB")
            } else if (kib << 10) % set != 0 {
                format!(
                    "{name}: {kib} KiB are no whole number of sets of {ways} lines of {} bytes",
                    *self.line_bytes
                )
            } else {
                continue;
            };
            return Err(source.wrong(self.ways.span(), "ways", what));
        }
        Ok(())
    }
}
