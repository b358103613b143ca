//! Processes whose threads work on data that they share: the test program of Milić and Jelenković,
//! "Improving thread scheduling by thread grouping in heavily loaded many-core processor systems",
//! MIPRO 2012, section IV.
//!
//! There are PROCESSES processes with THREADS threads each. All begin together, and each works on its
//! process's data for the given number of seconds. The result is how many operations they have done by
//! then. An operation is a change of one cache line; the threads of a process visit the same lines in a
//! cycle. Where they ran is counted too: see [`sharing`].
mod process;
mod sharing;

use super::{Measured, Runnable, built_in, figures};
use flsched_spec::workload::CoThreads;
use process::Member;
use sharing::Shares;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

pub(super) use process::run as run_process;

/// The name of one of its processes on the command line of [`super::workload_main`].
pub(super) const PROCESS: &str = "co-threads-process";

impl Runnable for CoThreads {
    fn argv(&self, helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        built_in(helper, self)
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured { figures: figures(output), ..Measured::printed(output)? })
    }
}

/// Runs the workload in this process and prints its figures. Returns the exit code.
pub(super) fn run(of: CoThreads) -> i32 {
    match measure(of) {
        Ok((operations, shares)) => {
            let seconds = Duration::from_secs(of.seconds).as_secs_f64();
            println!("Time: {:.9}", seconds / (operations as f64 / 1e6));
            println!("Figure: operations_per_s {:.0}", operations as f64 / seconds);
            for (name, value) in shares.percents() {
                println!("Figure: {name} {value:.2}");
            }
            0
        }
        Err(error) => {
            eprintln!("co-threads: {error}");
            1
        }
    }
}

/// The number of operations of all processes, and where their threads ran.
fn measure(of: CoThreads) -> io::Result<(u64, Shares)> {
    let mut start = process::Start::new()?;
    let mut members = Vec::new();
    // Processes are started one after the other: each creates its threads while CPUs are idle, so under every
    // scheduler the threads are spread over CPUs at first.
    for _ in 0..of.processes {
        let mut member = Member::spawn(&start, of)?;
        member.until_ready()?;
        members.push(member);
    }
    start.go(Duration::from_secs(of.seconds))?;
    let (mut operations, mut shares) = (0, Shares::default());
    for member in members {
        let (done, of_process) = member.finish()?;
        operations += done;
        shares.add(&of_process);
    }
    match operations {
        0 => Err(io::Error::other("no operation was done in that time")),
        _ => Ok((operations, shares)),
    }
}
