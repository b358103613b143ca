//! What all measurements need of a CPU.
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::arch::asm;
use std::arch::x86_64::_rdtsc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

/// The calling thread runs there and nowhere else.
pub fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).expect("a CPU number");
    sched_setaffinity(Pid::from_raw(0), &set).expect("the CPU is online");
}

/// Puts the calling thread above the kernel's own threads, which on a machine of 64 CPUs have milliseconds of
/// work after the boot.
pub fn round_robin() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is valid during the call.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &parameters) };
    assert_eq!(outcome, 0, "root may");
}

/// This CPU's time stamp counter.
pub fn tsc() -> u64 {
    // SAFETY: reads a register that every x86_64 processor has and that the kernel lets programs read.
    unsafe { _rdtsc() }
}

/// Executes this number of instructions, and a handful more.
#[inline(never)]
pub fn spin(instructions: u64) {
    let turns = (instructions / 2).max(1);
    // SAFETY: counts a register down to 0.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) turns => _, options(nomem, nostack)) }
}

/// Executes PAUSE this number of times, each with two more instructions.
#[inline(never)]
pub fn pauses(times: u64) {
    // SAFETY: counts a register down to 0.
    unsafe { asm!("2: pause", "dec {0}", "jnz 2b", inout(reg) times => _, options(nomem, nostack)) }
}

/// Does that on one CPU, while each of those executes instructions all the time.
pub fn beside<T: Send>(cpu: usize, busy: &[usize], act: impl FnOnce() -> T + Send) -> T {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    scope(|threads| {
        for &other in busy {
            threads.spawn(move || {
                pin(other);
                while !stop.load(Ordering::Relaxed) {
                    spin(100);
                }
            });
        }
        let result = threads
            .spawn(move || {
                pin(cpu);
                // The others are there by then.
                std::thread::sleep(std::time::Duration::from_millis(5));
                act()
            })
            .join();
        stop.store(true, Ordering::Relaxed);
        result.expect("it does not panic")
    })
}

/// All CPUs but this one.
pub fn others(cpus: usize, cpu: usize) -> Vec<usize> {
    (0..cpus).filter(|other| *other != cpu).collect()
}

/// `min=… median=… p99=… max=…`, in the numbers' own unit.
pub fn spread(mut figures: Vec<i64>) -> String {
    figures.sort_unstable();
    let at = |part: usize| figures[(figures.len() - 1) * part / 100];
    format!("min={} median={} p99={} max={}", at(0), at(50), at(99), at(100))
}
