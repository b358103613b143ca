//! How long the simulator takes for a run of hackbench, as messages a second: `cargo bench -p flsched-sim`.
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flsched_machine::Machine;
use flsched_sim::{Setup, Simulation, load};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::sync::Arc;

const GROUPS: u64 = 20;
const LOOPS: u64 = 20;
/// Each of 20 senders of a group sends to each of 20 receivers.
const MESSAGES: u64 = GROUPS * 20 * 20 * LOOPS;

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

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("messages");
    group.throughput(Throughput::Elements(MESSAGES)).sample_size(10);
    for scheduler in ["flsched", "cfs", "eevdf", "fifo"] {
        group.bench_function(scheduler, |bencher| {
            bencher.iter_batched(
                || simulation(scheduler),
                |simulation| simulation.run().unwrap(),
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, messages);
criterion_main!(benches);
