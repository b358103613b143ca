//! How many interrupts of its timer a busy CPU gets.
use super::cpu::{beside, others, spin, tsc};

const CPU: usize = 1;
/// How long, in ns: alone, and beside busy CPUs.
const ALONE: u64 = 1_000_000_000;
const BESIDE: u64 = 250_000_000;

pub fn measure(cpus: usize) {
    for (busy, ns) in [(Vec::new(), ALONE), (others(cpus, CPU), BESIDE)] {
        let ticks = beside(CPU, &busy, || {
            let before = interrupts();
            let begun = tsc();
            while tsc() - begun < ns {
                spin(1000);
            }
            interrupts() - before
        });
        println!("ticks busy={} ns={ns} ticks={ticks}", busy.len());
    }
}

/// So far, of that CPU.
fn interrupts() -> u64 {
    let table = std::fs::read_to_string("/proc/interrupts").expect("there is one");
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix("LOC:")).expect("a line");
    line.split_whitespace().nth(CPU).and_then(|count| count.parse().ok()).expect("a column for each CPU")
}
