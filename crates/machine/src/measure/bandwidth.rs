//! Measures the bandwidth of memory: how much all CPUs of a node read together.
use super::Error;
use super::layout::{Layout, pin};
use std::hint::black_box;
use std::sync::Barrier;
use std::thread::scope;
use std::time::{Duration, Instant};

/// What each CPU reads again and again, with those of the others far more than caches hold.
const LEAST_BYTES: usize = 32 << 20;
/// All CPUs together use no more memory than this.
const MOST_BYTES: usize = 2 << 30;
/// How long they read.
const TIME: Duration = Duration::from_millis(200);
/// How often the clock is read.
const BLOCK_WORDS: usize = 1 << 16;

/// Of the node of the first CPU, in GB/s (bytes in a ns): the most of some runs, because whatever disturbs a run makes it
/// slower.
pub fn read_gb_per_s(runs: usize, layout: &Layout) -> Result<f64, Error> {
    let cpus = layout.cpus_of_first_node();
    let shared = layout.shared_kib.saturating_mul(4 << 10) as usize;
    let bytes = LEAST_BYTES.max(shared / cpus.len()).min(MOST_BYTES / cpus.len());
    let mut most = 0.0f64;
    for _ in 0..runs.clamp(1, 3) {
        most = most.max(read_by(&cpus, bytes)?);
    }
    Ok(most)
}

fn read_by(cpus: &[usize], bytes: usize) -> Result<f64, Error> {
    let together = Barrier::new(cpus.len());
    scope(|threads| {
        let readers: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                let together = &together;
                threads.spawn(move || {
                    let is_pinned = pin(cpu);
                    let words = vec![1u64; bytes / size_of::<u64>()];
                    // A thread that cannot be pinned comes here, too, because the others wait for it.
                    together.wait();
                    is_pinned.map(|()| read(&words))
                })
            })
            .collect();
        let rates: Result<Vec<f64>, Error> =
            readers.into_iter().map(|reader| reader.join().expect("it does not panic")).collect();
        Ok(rates?.iter().sum())
    })
}

/// One CPU's reads, in bytes in a ns.
fn read(words: &[u64]) -> f64 {
    let began = Instant::now();
    let mut read = 0;
    for block in words.chunks(BLOCK_WORDS).cycle() {
        black_box(block.iter().fold(0, |sum, word| sum ^ word));
        read += size_of_val(block);
        if began.elapsed() >= TIME {
            break;
        }
    }
    read as f64 / began.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_adds_what_it_reads() {
        let cpus = Layout::read().unwrap().cpus_of_first_node();
        let rate = read_by(&cpus[..1], 1 << 20).unwrap();
        assert!(rate > 0.01, "{rate} GB/s");
        assert!(read_by(&[cpus[0], 1023], 1 << 20).is_err(), "there is no such CPU");
    }
}
