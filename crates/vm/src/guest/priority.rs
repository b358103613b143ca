//! Real-time priority for process 1, and for nothing it starts.
use nix::errno::Errno;
use std::io;

/// Above every ordinary task, below the kernel's own stop tasks.
const PRIORITY: i32 = 50;

/// Puts the calling thread into SCHED_FIFO. Its children fall back to SCHED_OTHER by themselves.
pub fn real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is valid during the call; nix has no wrapper for this call.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &parameters) })?;
    Ok(())
}

/// A thread of process 1 with that priority, which threads do not inherit either.
pub fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Without it, process 1 is scheduled like any other task.
        if let Err(error) = real_time() {
            eprintln!("flsched: no real-time priority: {error}");
        }
        work();
    });
    started.expect("process 1 can start a thread");
}
