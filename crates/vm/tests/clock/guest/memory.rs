//! How long loads and atomic operations take: from each cache and from memory, of lines that another CPU has, and of a line
//! that several CPUs want.
use super::cpu::{pin, round_robin, tsc};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

const LINE: usize = 64;
/// Two to a cache, and one beyond all of them.
const CHASES_KIB: [usize; 5] = [8, 16, 128, 4 << 10, 64 << 10];
const BATCHES: usize = 5;
/// In the caches of the core that wrote them.
const HANDED_KIB: usize = 64;
const ADDITIONS: u64 = 2000;
/// Long enough for all threads to move to their CPUs.
const LEAD: Duration = Duration::from_millis(20);
/// By the time stamp counter: when all of them are awake.
const START_NS: u64 = 40_000_000;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([usize; LINE / size_of::<usize>()]);

pub fn measure(cpus: usize) {
    for kib in CHASES_KIB {
        let lines = row(kib);
        let each = on(0, || {
            let mut at = &raw const lines[0];
            chase(&mut at, lines.len());
            let loads = lines.len().clamp(20_000, 200_000) / BATCHES;
            let mut batches = [(); BATCHES].map(|()| chase(&mut at, loads));
            // One may have an interrupt in between.
            batches.sort_unstable_by(f64::total_cmp);
            batches[BATCHES / 2]
        });
        println!("chases kib={kib} each={each:.3}");
    }
    for reader in [1, cpus / 2] {
        let mut lines = row(HANDED_KIB);
        on(0, || {
            for line in &mut lines {
                line.0[1] += 1;
            }
        });
        let each = on(reader, || chase(&mut &raw const lines[0], lines.len()));
        println!("handovers from=0 to={reader} each={each:.3}");
    }
    let mut threads = 1;
    while threads <= cpus {
        println!("additions threads={threads} each={:.3}", add(threads));
        threads *= 2;
    }
}

fn on<T: Send>(cpu: usize, act: impl FnOnce() -> T + Send) -> T {
    let acts = move || {
        pin(cpu);
        round_robin();
        act()
    };
    scope(|threads| threads.spawn(acts).join().expect("it does not panic"))
}

/// Lines of which each has the address of the next, in an order that no prefetcher guesses.
fn row(kib: usize) -> Vec<Line> {
    let mut lines = vec![Line([0; 8]); (kib << 10) / LINE];
    let mut order: Vec<usize> = (0..lines.len()).collect();
    let mut random = 88_172_645_463_325_252_u64;
    for last in (1..order.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(last, (random % (last as u64 + 1)) as usize);
    }
    for pair in 0..order.len() {
        let next = &raw const lines[order[(pair + 1) % order.len()]];
        lines[order[pair]].0[0] = next as usize;
    }
    lines
}

/// Nanoseconds from a line to the next, from this one of a row on.
fn chase(at: &mut *const Line, loads: usize) -> f64 {
    let begun = tsc();
    for _ in 0..loads {
        // SAFETY: each line has the address of another one of the row.
        *at = unsafe { at.cast::<usize>().read_volatile() } as *const Line;
    }
    (tsc() - begun) as f64 / loads as f64
}

/// Nanoseconds from one addition of any thread to the next.
fn add(threads: usize) -> f64 {
    let lines = [const { AtomicU64::new(0) }; 24];
    // In a line of its own.
    let word = &lines[12];
    let start = tsc() + START_NS;
    let spans: Vec<(u64, u64)> = scope(|scope| {
        let adders: Vec<_> = (0..threads)
            .map(|cpu| {
                scope.spawn(move || {
                    pin(cpu);
                    round_robin();
                    sleep(LEAD);
                    // Sleepers wake up microseconds apart, in which one of them alone would do a thousand.
                    while tsc() < start {}
                    let begun = tsc();
                    for _ in 0..ADDITIONS {
                        word.fetch_add(1, Ordering::SeqCst);
                    }
                    (begun, tsc())
                })
            })
            .collect();
        adders.into_iter().map(|adder| adder.join().expect("it does not panic")).collect()
    });
    assert_eq!(word.load(Ordering::SeqCst), ADDITIONS * threads as u64);
    let first = spans.iter().map(|(begun, _)| *begun).min().unwrap_or(0);
    let last = spans.iter().map(|(_, ended)| *ended).max().unwrap_or(0);
    (last - first) as f64 / (ADDITIONS * threads as u64) as f64
}
