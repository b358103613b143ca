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

/// How a process of it is called on the command line of [`super::workload_main`].
pub(super) const PROCESS: &str = "co-threads-process";

impl Runnable for CoThreads {
    fn argv(&self, helper: &[OsString], _scratch: &Path) -> Vec<OsString> {
        built_in(helper, self)
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured { figures: figures(output), ..Measured::printed(output)? })
    }
}

/// Runs it here and prints its figures; the result is an exit code.
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

/// How much they did, and where.
fn measure(of: CoThreads) -> io::Result<(u64, Shares)> {
    let mut start = process::Start::new()?;
    let mut members = Vec::new();
    // One after the other, so that each process makes its threads on a machine with idle CPUs and all
    // schedulers begin alike: with threads that are spread.
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
