//! Data that are not in a cache: how much longer it takes to read a KiB of them than when they are.
//!
//! Lines are read in an order that no prefetcher guesses, each address independent of the last, so
//! that as many are on their way at a time as the core can have.
use super::Error;
use super::layout::{Layout, pinned};
use super::sample::Sample;
use std::hint::black_box;
use std::time::Instant;

const LINE: usize = 64;
/// Read in a batch, in KiB: a task's working set.
const KIB: usize = 128;
/// With which a memory's size is taken for larger than any cache, in KiB.
const MOST_KIB: u64 = 512 * 1024;

/// Reads the lines in an order of its own; their sum, so that none is left out.
fn read(bytes: &[u8]) -> u64 {
    let lines = bytes.len() / LINE;
    // A stride that has no factor in common with the number of lines, which is a power of two.
    let stride = (lines * 5 / 8) | 1;
    (0..lines).map(|index| u64::from(bytes[index * stride % lines * LINE])).sum()
}

/// The time for a KiB after everything else has been pushed out by `others`, less that when it is hot.
fn penalty(batches: usize, others: &mut [u8]) -> Sample {
    let data = vec![1u8; KIB << 10];
    let timed = |data: &[u8]| {
        let began = Instant::now();
        black_box(read(black_box(data)));
        began.elapsed().as_nanos() as f64 / KIB as f64
    };
    // Each for itself: of a difference, a disturbed half could make it shorter.
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

/// From the cache that cores share; `None`: there is none, or it is not twice a core's.
pub fn shared(batches: usize, cpu: usize, layout: &Layout) -> Result<Option<Sample>, Error> {
    let size = 2 * layout.core_kib;
    if layout.shared_kib < 2 * size {
        return Ok(None);
    }
    pinned(cpu, || Ok(Some(penalty(batches, &mut vec![0; (size as usize) << 10]))))
}

/// From memory.
pub fn memory(batches: usize, cpu: usize, layout: &Layout) -> Result<Sample, Error> {
    let size = (2 * layout.core_kib.max(layout.shared_kib)).min(MOST_KIB);
    // What pushes out everything takes long, and a few batches of it will do.
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
