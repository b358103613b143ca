//! How long a simulated message takes, measured in something that every machine has: the CPU time of a plain heap of
//! events. Other load on the machine lengthens both.
use flsched_machine::Machine;
use flsched_sim::{Setup, Simulation, load};
use flsched_spec::workload::Model;
use flsched_spec::{Scheduler, Target};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::sync::Arc;

const GROUPS: u64 = 20;
const LOOPS: u64 = 20;
/// Each of 20 senders of a group sends to each of 20 receivers; a write and a read.
const MESSAGES: u64 = GROUPS * 20 * 20 * LOOPS * 2;
/// CPUs of `knc-31s1p`, each with one future event.
const EVENTS: u64 = 228;
/// The least of so many tries counts.
const TRIES: u32 = 5;
/// It was 4.4 to 6.5 when this test was written.
const MOST: f64 = 13.0;

/// CPU time of this thread, in ns.
fn cpu_time_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid during the call; std has no clock of a thread's CPU time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn taken_ns(work: impl FnOnce()) -> u64 {
    let began = cpu_time_ns();
    work();
    cpu_time_ns() - began
}

/// As many events as messages, in a heap.
fn heap_ns() -> u64 {
    taken_ns(|| {
        let mut heap: BinaryHeap<Reverse<(u64, u64)>> = (0..EVENTS).map(|at| Reverse((at, at))).collect();
        for seq in 0..MESSAGES {
            let Some(Reverse((at, _))) = heap.pop() else { break };
            heap.push(Reverse((at + 1 + (seq * 7919) % 10_007, seq)));
        }
        black_box(heap.len());
    })
}

fn simulation_ns(scheduler: &str) -> u64 {
    let setup = Setup {
        machine: Arc::new(Machine::find("knc-31s1p").unwrap()),
        scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
        workload: load(&Model::read(&format!("hackbench:process-pipe:{GROUPS}:{LOOPS}")).unwrap()).unwrap(),
        seed: 1,
        limit: 1_000_000_000_000,
    };
    let simulation = Simulation::new(setup).unwrap();
    taken_ns(|| drop(black_box(simulation.run().unwrap())))
}

#[test]
fn a_message_takes_as_long_as_a_few_events_of_a_heap() {
    if cfg!(debug_assertions) {
        return;
    }
    for scheduler in ["flsched", "cfs", "eevdf", "fifo"] {
        let tries: Vec<(u64, u64)> = (0..TRIES).map(|_| (simulation_ns(scheduler), heap_ns())).collect();
        let simulation = tries.iter().map(|(ns, _)| *ns).min().unwrap();
        let heap = tries.iter().map(|(_, ns)| *ns).min().unwrap();
        let ratio = simulation as f64 / heap as f64;
        let of_one = |ns: u64| ns as f64 / MESSAGES as f64;
        println!(
            "{scheduler}: {:.0} ns a message, {:.0} ns an event, ratio {ratio:.2}",
            of_one(simulation),
            of_one(heap)
        );
        assert!(
            ratio < MOST,
            "{scheduler}: a message takes as long as {ratio:.1} events of a heap, not {MOST}"
        );
    }
}
