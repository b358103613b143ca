//! One run, printed: `cargo run --release -p flsched-sim --example one -- MACHINE SCHEDULER WORKLOAD [CPUS]`.
use flsched_machine::Machine;
use flsched_sim::workload::load;
use flsched_sim::{Error, Setup, Simulation};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut machine = Machine::find(&words[0])?;
    if let Some(cpus) = words.get(3).and_then(|word| word.parse().ok()) {
        machine = machine.with_cpus(cpus)?;
    }
    let setup = Setup {
        machine: Arc::new(machine),
        scheduler: Scheduler::read(&words[1], Target::Sim)?,
        workload: load(&Model::read(&words[2])?)?,
        seed: 1,
        limit: 3_600_000_000_000,
    };
    let began = Instant::now();
    let outcome = Simulation::new(setup)?.run()?;
    let real = began.elapsed().as_secs_f64();
    println!("{outcome:#?}\n{real:.3} s, {:.2} M events/s", outcome.events as f64 / real / 1e6);
    Ok(())
}
