//! What PAUSE costs.
use super::cpu::{beside, others, pauses, tsc};

const CPU: usize = 1;
const TIMES: u64 = 200;
const BATCHES: usize = 101;

pub fn measure(cpus: usize) {
    for busy in [Vec::new(), others(cpus, CPU)] {
        let mut batches = beside(CPU, &busy, || [(); BATCHES].map(|()| batch()));
        batches.sort_unstable();
        // A few of them have an interrupt in between.
        let each = batches[BATCHES / 2] as f64 / TIMES as f64;
        println!("pauses busy={} each={each:.3}", busy.len());
    }
}

/// In ns.
fn batch() -> u64 {
    let begun = tsc();
    pauses(TIMES);
    tsc() - begun
}
