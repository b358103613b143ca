//! What PAUSE costs.
use super::cpu::{beside, others, pauses, tsc};

const CPU: usize = 1;
const TIMES: u64 = 20_000;

pub fn measure(cpus: usize) {
    for busy in [Vec::new(), others(cpus, CPU)] {
        let ns = beside(CPU, &busy, || {
            let begun = tsc();
            pauses(TIMES);
            tsc() - begun
        });
        println!("pauses busy={} each={:.3}", busy.len(), ns as f64 / TIMES as f64);
    }
}
