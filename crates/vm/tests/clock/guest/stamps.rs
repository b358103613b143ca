//! How far apart the CPUs' time stamp counters are, as programs see it.
use super::cpu::{pauses, pin, spin, tsc};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::scope;

const ROUNDS: u64 = 3000;
const MOVES: usize = 200;

/// Each in a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Slot(AtomicU64);

struct Seen {
    /// The lowest difference between a thread's own reading and an earlier one by another CPU.
    lowest: i64,
    /// The lowest difference between an own reading and the own one before it.
    step: i64,
}

pub fn measure(cpus: usize) {
    // With many CPUs each reads many others.
    let rounds = (ROUNDS * 4 / cpus as u64).max(200);
    for patient in [false, true] {
        let seen = pass(cpus, rounds, patient);
        let lowest = seen.iter().map(|seen| seen.lowest).min().unwrap_or(0);
        let step = seen.iter().map(|seen| seen.step).min().unwrap_or(0);
        println!("stamps cpus={cpus} pauses={} lowest={lowest} step={step}", u8::from(patient));
    }
    println!("moves lowest={}", travel(cpus));
}

/// All CPUs write their own readings and read those of all others.
fn pass(cpus: usize, rounds: u64, patient: bool) -> Vec<Seen> {
    let slots: &Vec<Slot> = &(0..cpus).map(|_| Slot::default()).collect();
    let start = &Barrier::new(cpus);
    scope(|threads| {
        let all: Vec<_> = (0..cpus)
            .map(|cpu| {
                threads.spawn(move || {
                    pin(cpu);
                    start.wait();
                    watch(cpu, slots, rounds, patient)
                })
            })
            .collect();
        all.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

fn watch(cpu: usize, slots: &[Slot], rounds: u64, patient: bool) -> Seen {
    let mut seen = Seen { lowest: i64::MAX, step: i64::MAX };
    let mut last = tsc();
    for round in 0..rounds {
        for (other, slot) in slots.iter().enumerate() {
            let received = slot.0.load(Ordering::SeqCst);
            let own = tsc();
            seen.step = seen.step.min(own.wrapping_sub(last) as i64);
            last = own;
            if other != cpu && received != 0 {
                seen.lowest = seen.lowest.min(own.wrapping_sub(received) as i64);
            }
            slots[cpu].0.store(tsc(), Ordering::SeqCst);
        }
        // No two CPUs are always at the same point of a round.
        spin(2 + (round * 37 + cpu as u64 * 101) % 300);
        if patient && (round + cpu as u64).is_multiple_of(3) {
            pauses(1);
        }
    }
    seen
}

/// The lowest step of the counter for a thread that goes from CPU to CPU.
fn travel(cpus: usize) -> i64 {
    let mut lowest = i64::MAX;
    pin(0);
    for number in 0..MOVES {
        let before = tsc();
        pin((number + 1) % cpus);
        lowest = lowest.min(tsc().wrapping_sub(before) as i64);
    }
    lowest
}
