//! Measures cold caches: how much longer it takes to read a KiB that is not in a cache.
//!
//! Lines are read in an order that prefetchers do not predict. No address depends on an earlier read, so the core
//! has as many reads in flight as it can.
use super::Error;
use super::layout::{Layout, pinned};
use super::sample::Sample;
use std::hint::black_box;
use std::time::Instant;

const LINE: usize = 64;
/// Data read in a batch, in KiB: a task's working set.
const KIB: usize = 128;
/// The largest buffer used to evict caches, in KiB. It is assumed to be larger than any cache.
const MOST_KIB: u64 = 512 * 1024;

/// Reads every line once in scattered order. Returns a sum, so that the compiler cannot omit a read.
fn read(bytes: &[u8]) -> u64 {
    let lines = bytes.len() / LINE;
    // The number of lines is a power of two. The stride is odd, so every line is visited.
    let stride = (lines * 5 / 8) | 1;
    (0..lines).map(|index| u64::from(bytes[index * stride % lines * LINE])).sum()
}

/// The time to read a KiB after writes to `others` have evicted it, less the time when it is in the core's cache.
fn penalty(batches: usize, others: &mut [u8]) -> Sample {
    let data = vec![1u8; KIB << 10];
    let timed = |data: &[u8]| {
        let began = Instant::now();
        black_box(read(black_box(data)));
        began.elapsed().as_nanos() as f64 / KIB as f64
    };
    // Hot reads are a sample of their own: a disturbed hot read within a difference would make it too
    // short.
    let mut hot = Vec::new();
    let cold = Sample::take(batches, || {
        for byte in others.iter_mut().step_by(LINE) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&others);
        let cold = timed(&data);
        hot.push((0..3).map(|_| timed(&data)).fold(f64::INFINITY, f64::min));
        cold
    });
    cold.less(Sample::of(hot).ns())
}

/// The penalty of a read from the cache that several cores share. `None`: there is none, or it is too small to
/// hold the evicted data: less than four times a core's cache.
pub fn shared(batches: usize, cpu: usize, layout: &Layout) -> Result<Option<Sample>, Error> {
    let size = 2 * layout.core_kib;
    if layout.shared_kib < 2 * size {
        return Ok(None);
    }
    pinned(cpu, || Ok(Some(penalty(batches, &mut vec![0; (size as usize) << 10]))))
}

/// The penalty of a read from memory.
pub fn memory(batches: usize, cpu: usize, layout: &Layout) -> Result<Sample, Error> {
    let size = (2 * layout.core_kib.max(layout.shared_kib)).min(MOST_KIB);
    // Evicting all caches takes long, so there are only a few batches.
    let batches = batches.min(10);
    pinned(cpu, || Ok(penalty(batches, &mut vec![0; (size as usize) << 10])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_once() {
        for kib in [1, 4, 128] {
            let mut bytes = vec![0u8; kib << 10];
            for index in 0..bytes.len() / LINE {
                bytes[index * LINE] = 1;
            }
            assert_eq!(read(&bytes), (bytes.len() / LINE) as u64);
            let lines = bytes.len() / LINE;
            let stride = (lines * 5 / 8) | 1;
            let seen: std::collections::BTreeSet<usize> = (0..lines).map(|i| i * stride % lines).collect();
            assert_eq!(seen.len(), lines);
        }
    }
}
