//! What the kernel can report about a command that takes too long: its tasks, CPUs and run queues.
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The trace event that carries the lines of a dump of sched_ext.
const DUMP: &str = "sched_ext_dump";

/// Writes all tasks with their stacks, the CPUs' state, blocked tasks and sched_ext's run queues to the kernel's log.
/// The thread that waits for the command forwards them with the rest of the log.
pub fn show_tasks() {
    // The serial console must not print them as well: there each byte costs an exit.
    let _ = fs::write("/proc/sys/kernel/printk", "1");
    for key in ["t", "l", "w"] {
        // A kernel without SysRq shows nothing.
        let _ = press(key);
    }
    if let Err(error) = show_run_queues() {
        eprintln!("flsched: no run queues of sched_ext: {error}");
    }
}

fn press(key: &str) -> io::Result<()> {
    fs::write("/proc/sysrq-trigger", key)
}

/// The kernel dumps sched_ext's run queues to the trace only, so its lines are copied.
fn show_run_queues() -> io::Result<()> {
    let tracing = Path::new("/sys/kernel/tracing");
    fs::write(tracing.join("events/sched_ext").join(DUMP).join("enable"), "1")?;
    press("D")?;
    let trace = fs::read_to_string(tracing.join("trace"))?;
    // Unless it is on, the kernel drops most of what a program writes to its log in quick succession.
    fs::write("/proc/sys/kernel/printk_devkmsg", "on\n")?;
    let mut log = File::options().write(true).open("/dev/kmsg")?;
    let event = format!("{DUMP}: ");
    let lines = trace.lines().filter_map(|line| line.split_once(&event)).map(|(_, line)| line);
    for line in lines.filter(|line| !line.is_empty()) {
        // One call is one record of the log.
        log.write_all(format!("{DUMP}: {line}\n").as_bytes())?;
    }
    Ok(())
}
