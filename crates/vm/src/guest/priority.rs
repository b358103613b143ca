//! Real-time priority for process 1, but not for the processes that it starts.
use nix::errno::Errno;
use std::io;

/// A priority above every normal task and below the kernel's stop tasks.
const PRIORITY: i32 = 50;

/// Moves the calling thread to SCHED_FIFO. Its children start in SCHED_OTHER.
pub fn real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is valid during the call; nix has no wrapper for this call.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &parameters) })?;
    Ok(())
}

/// Starts a thread of process 1 with that priority, which threads do not inherit.
pub fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Without the priority, the thread is scheduled like any other task.
        if let Err(error) = real_time() {
            eprintln!("flsched: no real-time priority: {error}");
        }
        work();
    });
    started.expect("process 1 can start a thread");
}
