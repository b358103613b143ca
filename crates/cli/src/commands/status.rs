//! `flsched status`: which scheduler runs this machine.
use crate::args;
use anyhow::Result;
use flsched_host::status::{Status, status};

pub fn run(args: &args::Status) -> Result<u8> {
    let status = status();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print(&status);
    }
    Ok(0)
}

fn print(status: &Status) {
    let Some(state) = &status.state else {
        println!("scheduler   default (this kernel, {}, has no sched_ext)", status.kernel);
        return;
    };
    match (&status.policy, &status.version) {
        (Some(policy), Some(version)) => println!("scheduler   {policy} {version}  ({})", status.scheduler),
        _ => println!("scheduler   {}", status.scheduler),
    }
    println!("state       {state}");
    if let Some(scope) = status.scope {
        println!("tasks       {} under it ({scope})", status.tasks);
    }
    println!("enabled     {} times since boot", status.enabled_since_boot);
    match status.ejections_since_boot {
        Some(count) if status.log_is_partial => {
            println!("ejections   {count} in the kernel's log, which no longer reaches back to boot");
        }
        Some(count) => println!("ejections   {count} since boot"),
        None => println!("ejections   unknown: reading the kernel's log needs root"),
    }
    println!("kernel      {}", status.kernel);
}
