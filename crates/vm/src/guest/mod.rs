//! Process 1 inside the VM: prepares the machine, runs one command, reports, powers off.
//!
//! It is the same executable as on the host, so no second program has to be built and found.
//!
//! All its threads run in the real-time class, which no sched_ext scheduler affects. However badly
//! the scheduler under test behaves, process 1 still answers, so the host can distinguish a
//! scheduler that starves the command from a machine that hangs.
mod bridge;
mod command;
mod kernel_log;
mod ports;
mod priority;
mod stall;
mod system;

use crate::protocol::{self, ASSIGNMENT_PATH, Assignment, GuestMessage, HostMessage, Outcome};
use bridge::Bridges;
use kernel_log::KernelLog;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};

/// Whether this process is process 1 of a VM of this program. `main` must call this first.
pub fn is_guest_init() -> bool {
    getpid().as_raw() == 1 && Path::new(ASSIGNMENT_PATH).exists()
}

/// Does the work of process 1, then powers the machine off.
pub fn main() -> ! {
    if let Err(error) = serve() {
        // The error can only be reported on the console.
        eprintln!("flsched: process 1 failed: {error}");
    }
    let error = reboot(RebootMode::RB_POWER_OFF);
    // The kernel panics when process 1 ends, which the host detects as well.
    panic!("cannot power off: {error:?}");
}

fn serve() -> io::Result<()> {
    system::prepare()?;
    let control = Arc::new(ports::open_control()?);
    let result = work(&control);
    if let Err(error) = &result {
        protocol::send(&*control, &GuestMessage::Fault { reason: error.to_string() })?;
    }
    result
}

fn work(control: &Arc<File>) -> io::Result<()> {
    let assignment: Assignment = serde_json::from_slice(&std::fs::read(ASSIGNMENT_PATH)?)?;
    system::set_hostname(&assignment.hostname)?;
    priority::real_time()?;
    // The signal is blocked before any thread exists, so that it goes to the descriptor and to no thread.
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    let children = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut log = KernelLog::open()?;
    // Later records are then from the command's time.
    log.forward(control)?;

    let ready = GuestMessage::Ready { release: system::release()?, cpus: system::cpus_online()? };
    protocol::send(&**control, &ready)?;
    let group = Arc::new(AtomicI32::new(0));
    let bridges = Bridges::open()?;
    let power_off = listen(control.clone(), group.clone(), &bridges);

    let (outcome, bridges) = match command::spawn(&assignment) {
        None => (Outcome::Code(0), bridges.unused()),
        Some(Err(outcome)) => (outcome, bridges.unused()),
        Some(Ok(child)) => {
            let pid = Pid::from_raw(child.id() as i32);
            group.store(pid.as_raw(), Ordering::SeqCst);
            protocol::send(&**control, &GuestMessage::Started { pid: pid.as_raw() })?;
            let bridges = bridges.connect(child);
            let outcome = attend(control, &children, &mut log, pid)?;
            (outcome, bridges)
        }
    };
    // Processes that the command left running would keep its output open, so all are killed. The kernel
    // spares process 1 and kernel threads.
    group.store(0, Ordering::SeqCst);
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    bridges.drain();
    log.forward(control)?;
    let (stdout, stderr) = bridges.written();
    protocol::send(&**control, &GuestMessage::Exit { outcome, stdout, stderr })?;
    // The host requests power-off when it has received the last byte: powering off earlier could lose
    // output.
    let _ = power_off.recv();
    Ok(())
}

/// Waits for the command. Meanwhile reaps orphans and forwards the kernel's log.
fn attend(
    control: &Arc<File>,
    children: &SignalFd,
    log: &mut KernelLog,
    command: Pid,
) -> io::Result<Outcome> {
    loop {
        if let Some(outcome) = reap(command)? {
            return Ok(outcome);
        }
        log.forward(control)?;
        let mut events =
            [PollFd::new(children.as_fd(), PollFlags::POLLIN), PollFd::new(log.as_fd(), PollFlags::POLLIN)];
        match poll(&mut events, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // One signal can be for several children, so it only causes a check.
        while children.read_signal()?.is_some() {}
    }
}

/// Reaps all processes that have ended; returns how `command` ended if it is among them.
fn reap(command: Pid) -> io::Result<Option<Outcome>> {
    let mut outcome = None;
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == command => outcome = Some(Outcome::Code(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                outcome = Some(Outcome::Signal(signal as i32));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(outcome),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Starts a thread that executes the host's messages until the connection closes. The returned channel closes when
/// the machine is to power off.
fn listen(control: Arc<File>, group: Arc<AtomicI32>, bridges: &Bridges) -> mpsc::Receiver<()> {
    let (power_off, ended) = mpsc::channel::<()>();
    let (stdout, stderr) = bridges.abandoned();
    priority::thread("control", move || {
        let mut lines = BufReader::new(&*control);
        while let Ok(Some(message)) = protocol::receive(&mut lines) {
            match message {
                HostMessage::Ping => {
                    if protocol::send(&*control, &GuestMessage::Pong).is_err() {
                        break;
                    }
                }
                HostMessage::Signal { number } => {
                    let group = group.load(Ordering::SeqCst);
                    if let (true, Ok(signal)) = (group != 0, Signal::try_from(number)) {
                        // The group may just have ended.
                        let _ = killpg(Pid::from_raw(group), signal);
                    }
                }
                HostMessage::ShowTasks => stall::show_tasks(),
                HostMessage::StdoutClosed => stdout.store(true, Ordering::SeqCst),
                HostMessage::StderrClosed => stderr.store(true, Ordering::SeqCst),
                HostMessage::PowerOff => break,
            }
        }
        drop(power_off);
    });
    ended
}
