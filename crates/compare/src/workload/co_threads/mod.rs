//! Processes whose threads work on data that they share: the test program of Milić and Jelenković,
//! "Improving thread scheduling by thread grouping in heavily loaded many-core processor systems",
//! MIPRO 2012, section IV.
//!
//! So many processes have so many threads each. All begin together, each works on its process's data for
//! so many seconds, and what counts is how many operations they have done by then. An operation is a
//! change of one cache line; the threads of a process go round the same lines. Where they ran is counted
//! too: see [`sharing`].
mod process;
mod sharing;

use super::parameters::Parameters;
use flsched_spec::UsageError;
use process::Member;
use serde::{Deserialize, Serialize};
use sharing::Shares;
use std::fmt;
use std::io;
use std::time::Duration;

pub(super) use process::run as run_process;

/// How it is named.
pub const FORM: &str = "co-threads:PROCESSES:THREADS:BYTES:SECONDS";
/// The paper's five tests at once.
pub const TABLE_FORM: &str = "co-threads:table1:SECONDS";
/// What its time is.
pub(super) const TIME_IS: &str = "time of a million operations";
/// How a process of it is called on the command line of [`super::workload_main`].
pub(super) const PROCESS: &str = "co-threads-process";

/// Half of the first-level data cache of the paper's i7-2670QM (32 KiB), which two threads share.
const SMALL: u64 = 16 * 1024;
/// Half of its second-level cache (256 KiB), which the same two share.
const MEDIUM: u64 = 128 * 1024;
/// More than its second-level cache; nine of these fit into the third (6 MiB), which all share.
const LARGER: u64 = 512 * 1024;
/// The paper's.
const SECONDS: u64 = 10;

/// Table I: processes, threads each, bytes, and the gain of SCHED_RR2 over SCHED_RR in percent. The paper
/// calls the sizes small, medium and larger, and does not say how many bytes they have.
const TABLE: [(u64, u64, u64, f64); 5] = [
    (7, 1, SMALL, 0.37),
    (11, 5, SMALL, 16.02),
    (9, 3, SMALL, 14.29),
    (9, 3, MEDIUM, 12.15),
    (9, 3, LARGER, 9.93),
];

/// `co-threads:PROCESSES:THREADS:BYTES:SECONDS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoThreads {
    /// Processes.
    pub processes: u64,
    /// Threads of each.
    pub threads: u64,
    /// Data that the threads of a process share.
    pub bytes: u64,
    /// How long they work, on the clock of the machine they run on.
    pub seconds: u64,
}

/// A figure that others have published for the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Whose, and of what over what.
    pub what: String,
    /// So much more work in the same time, in percent.
    pub gain_percent: f64,
}

impl CoThreads {
    /// Reads what stands after `co-threads:`; what is left out is the paper's third test.
    pub(super) fn parse(parameters: &str) -> Result<Self, UsageError> {
        let mut parameters = Parameters::new(FORM, parameters);
        let it = Self {
            processes: parameters.number("PROCESSES", 9, 1..=1024)?,
            threads: parameters.number("THREADS", 3, 1..=1024)?,
            bytes: parameters.number("BYTES", SMALL, 64..=1 << 30)?,
            seconds: parameters.number("SECONDS", SECONDS, 1..=86_400)?,
        };
        parameters.end()?;
        Ok(it)
    }

    /// The five tests of Table I, from what stands after `co-threads:`; `None`: they are not asked for.
    pub(super) fn parse_table(parameters: &str) -> Option<Result<Vec<Self>, UsageError>> {
        let rest = parameters.strip_prefix("table1")?;
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
        let mut parameters = Parameters::new(TABLE_FORM, rest);
        let seconds = parameters.number("SECONDS", SECONDS, 1..=86_400);
        let test = |seconds| {
            TABLE.map(|(processes, threads, bytes, _)| Self { processes, threads, bytes, seconds }).to_vec()
        };
        Some(seconds.and_then(|seconds| parameters.end().map(|()| test(seconds))))
    }

    /// What the paper has for this, however long it ran there.
    pub(super) fn published(&self) -> Option<Published> {
        let is_this =
            |row: &(u64, u64, u64, f64)| (row.0, row.1, row.2) == (self.processes, self.threads, self.bytes);
        let place = TABLE.iter().position(is_this)?;
        Some(Published {
            what: format!("SCHED_RR2 over SCHED_RR, Milić and Jelenković 2012, Table I, test {}", place + 1),
            gain_percent: TABLE[place].3,
        })
    }

    /// Arguments for [`super::workload_main`].
    pub(super) fn arguments(&self) -> Vec<String> {
        let numbers = [self.processes, self.threads, self.bytes, self.seconds];
        std::iter::once("co-threads".into()).chain(numbers.map(|number| number.to_string())).collect()
    }

    /// Runs it here and prints its figures; the result is an exit code.
    pub(super) fn run(&self) -> i32 {
        match self.measure() {
            Ok((operations, shares)) => {
                let seconds = Duration::from_secs(self.seconds).as_secs_f64();
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
    fn measure(&self) -> io::Result<(u64, Shares)> {
        let mut start = process::Start::new()?;
        let mut members = Vec::new();
        // One after the other, so that each process makes its threads on a machine with idle CPUs and all
        // schedulers begin alike: with threads that are spread.
        for _ in 0..self.processes {
            let mut member = Member::spawn(&start, self)?;
            member.until_ready()?;
            members.push(member);
        }
        start.go(Duration::from_secs(self.seconds))?;
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
}

impl fmt::Display for CoThreads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "co-threads:{}:{}:{}:{}", self.processes, self.threads, self.bytes, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        let name = |text| CoThreads::parse(text).map(|it| it.to_string());
        assert_eq!(name("").unwrap(), "co-threads:9:3:16384:10");
        assert_eq!(name("2:4:128:1").unwrap(), "co-threads:2:4:128:1");
        assert!(name("0").unwrap_err().to_string().contains("PROCESSES: `0`"));
        assert!(name("1:1:63").unwrap_err().to_string().contains("BYTES"));
        assert!(name("1:1:64:0").unwrap_err().to_string().contains("SECONDS"));
        assert!(name("1:1:64:1:1").unwrap_err().to_string().contains("too many"));
    }

    #[test]
    fn the_table_is_five_tests() {
        let tests = CoThreads::parse_table("table1:2").unwrap().unwrap();
        assert_eq!(tests.len(), 5);
        assert_eq!(tests[1].to_string(), "co-threads:11:5:16384:2");
        assert_eq!(tests[1].published().unwrap().gain_percent, 16.02);
        assert_eq!(CoThreads::parse_table("table1").unwrap().unwrap()[0].seconds, 10);
        assert!(CoThreads::parse_table("table1:0").unwrap().is_err());
        assert!(CoThreads::parse_table("table1:1:1").unwrap().is_err());
        assert!(CoThreads::parse_table("table12").is_none() && CoThreads::parse_table("9:3").is_none());
        assert_eq!(CoThreads::parse("2:2").unwrap().published(), None);
    }
}
