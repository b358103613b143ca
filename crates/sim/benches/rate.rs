//! How many messages a second of a run of hackbench the simulator does: `cargo bench -p flsched-sim`.
use divan::Bencher;
use divan::counter::ItemsCount;
use flsched_machine::Machine;
use flsched_sim::{Setup, Simulation, load};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::sync::Arc;

const GROUPS: u64 = 20;
const LOOPS: u64 = 20;
/// Each of 20 senders of a group sends to each of 20 receivers.
const MESSAGES: u64 = GROUPS * 20 * 20 * LOOPS;

fn main() {
    divan::main();
}

fn simulation(scheduler: &str) -> Simulation {
    let setup = Setup {
        machine: Arc::new(Machine::find("knc-31s1p").unwrap()),
        scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
        workload: load(&Model::read(&format!("hackbench:process-pipe:{GROUPS}:{LOOPS}")).unwrap()).unwrap(),
        seed: 1,
        limit: 1_000_000_000_000,
    };
    Simulation::new(setup).unwrap()
}

#[divan::bench(args = ["flsched", "cfs", "eevdf", "fifo"], sample_count = 10, sample_size = 1)]
fn messages(bencher: Bencher<'_, '_>, scheduler: &str) {
    bencher
        .counter(ItemsCount::new(MESSAGES))
        .with_inputs(|| simulation(scheduler))
        .bench_local_values(|simulation| simulation.run().unwrap());
}
