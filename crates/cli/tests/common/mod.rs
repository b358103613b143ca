//! What the tests that play on real kernels share.
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::{fs, io};

/// A setting of the tests, from the environment.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(format!("FLSCHED_TEST_{name}")).ok()
}

pub fn allow(pid: i32, cpus: impl IntoIterator<Item = usize>) {
    let mut set = CpuSet::new();
    cpus.into_iter().for_each(|cpu| set.set(cpu).expect("a CPU number"));
    // It may have ended.
    let _ = sched_setaffinity(Pid::from_raw(pid), &set);
}

/// Puts the calling thread into a scheduling class of the kernel.
pub fn enter_class(class: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the pointer is valid during the call; nix has no wrapper for this call.
    let outcome = unsafe { libc::sched_setscheduler(0, class, &parameters) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub fn set_online(cpu: usize, online: bool) {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&file, if online { "1" } else { "0" }).unwrap_or_else(|e| panic!("{file}: {e}"));
}
