//! `flsched status`: which scheduler runs this machine.
use crate::args;
use anyhow::Result;
use flsched_host::status::{Status, status};
use std::io::{self, Write};

pub fn run(args: &args::Status) -> Result<u8> {
    let status = status();
    if args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&status)?)?;
    } else {
        print(&status, io::stdout().lock())?;
    }
    Ok(0)
}

fn print(status: &Status, mut out: impl Write) -> io::Result<()> {
    let Some(state) = &status.state else {
        writeln!(out, "scheduler   default (this kernel, {}, has no sched_ext)", status.kernel)?;
        return Ok(());
    };
    match (&status.policy, &status.version) {
        (Some(policy), Some(version)) => {
            writeln!(out, "scheduler   {policy} {version}  ({})", status.scheduler)?
        }
        _ => writeln!(out, "scheduler   {}", status.scheduler)?,
    }
    writeln!(out, "state       {state}")?;
    if let Some(scope) = status.scope {
        writeln!(out, "tasks       {} under it ({scope})", status.tasks)?;
    }
    writeln!(out, "enabled     {} times since boot", status.enabled_since_boot)?;
    match status.ejections_since_boot {
        Some(count) if status.log_is_partial => {
            writeln!(out, "ejections   {count} in the kernel's log, which no longer reaches back to boot")?;
        }
        Some(count) => writeln!(out, "ejections   {count} since boot")?,
        None => writeln!(out, "ejections   unknown: reading the kernel's log needs root")?,
    }
    if let Some(waiter) = &status.last_waiter {
        writeln!(out, "waited      {waiter}: the reason of the last ejection in that log")?;
    }
    writeln!(out, "kernel      {}", status.kernel)?;
    Ok(())
}
