//! Inside the machine: carries out what is asked for, one line a reading.
mod cpu;
mod memory;
mod pauses;
mod repeat;
mod spins;
mod stamps;
mod ticks;
mod timers;
mod wakes;

use std::process::ExitCode;

/// Called with the machine's number of CPUs.
type Measurement = fn(usize);

/// What can be measured, by name.
const MEASUREMENTS: &[(&str, Measurement)] = &[
    ("spins", spins::measure),
    ("stamps", stamps::measure),
    ("timers", timers::measure),
    ("ticks", ticks::measure),
    ("pauses", pauses::measure),
    ("wakes", wakes::measure),
    ("repeat", repeat::measure),
    ("memory", memory::measure),
];

pub fn measure(names: &[&str]) -> ExitCode {
    let cpus = std::thread::available_parallelism().expect("it has CPUs").get();
    for wanted in names {
        let Some((_, measure)) = MEASUREMENTS.iter().find(|(name, _)| name == wanted) else {
            eprintln!("no measurement `{wanted}`");
            return ExitCode::from(2);
        };
        measure(cpus);
    }
    ExitCode::SUCCESS
}
