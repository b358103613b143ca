//! Processes whose threads work on data that they share: the test program of Milić and Jelenković,
//! "Improving thread scheduling by thread grouping in heavily loaded many-core processor systems",
//! MIPRO 2012, section IV, and their published results.
use super::parameters::{Parameters, Sizes};
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How it is named.
pub(super) const FORM: &str = "co-threads:PROCESSES:THREADS:BYTES:SECONDS";
/// The paper's five tests at once.
pub(super) const TABLE_FORM: &str = "co-threads:table1:SECONDS";
/// How the model is named.
pub(super) const MODEL_FORM: &str = "co-threads:PROCESSES:THREADS:BYTES:SECONDS:OPERATION_US:LINES_PER_US";
/// Half of the first-level data cache of the paper's i7-2670QM (32 KiB), which two threads share.
const SMALL: u64 = 16 * 1024;
/// Half of its second-level cache (256 KiB), which the same two share.
const MEDIUM: u64 = 128 * 1024;
/// More than its second-level cache; nine of these fit into the third (6 MiB), which all share.
const LARGER: u64 = 512 * 1024;
/// The duration in the paper.
const SECONDS: u64 = 10;
/// The exact value does not matter as long as many operations pass between two switches.
const OPERATION_US: u64 = 100;

/// Table I: processes, threads each, bytes, and the gain of SCHED_RR2 over SCHED_RR in percent. The paper
/// calls the sizes small, medium and larger, and does not say how many bytes they have.
const TABLE: [(u64, u64, u64, f64); 5] = [
    (7, 1, SMALL, 0.37),
    (11, 5, SMALL, 16.02),
    (9, 3, SMALL, 14.29),
    (9, 3, MEDIUM, 12.15),
    (9, 3, LARGER, 9.93),
];

/// `co-threads:PROCESSES:THREADS:BYTES:SECONDS`, of a model `:OPERATION_US:LINES_PER_US`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoThreads {
    /// How many processes there are.
    pub processes: u64,
    /// Threads of each.
    pub threads: u64,
    /// Data that the threads of a process share.
    pub bytes: u64,
    /// How long they work, on the clock of the machine they run on.
    pub seconds: u64,
    /// How long a model's operation takes with the data in the cache, in µs.
    #[serde(default = "usual_operation_us", skip_serializing_if = "is_usual")]
    pub operation_us: u64,
    /// How many cache lines of the shared data a model's thread writes in each µs of its work, as far as that costs
    /// anything.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lines_per_us: u64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn usual_operation_us() -> u64 {
    OPERATION_US
}

fn is_usual(operation_us: &u64) -> bool {
    *operation_us == OPERATION_US
}

/// A figure that others have published for the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The source, and which schedulers it compares.
    pub what: String,
    /// How much more work is done in the same time, in percent.
    pub gain_percent: f64,
}

impl CoThreads {
    /// What its time is.
    pub const TIME_IS: &str = "time of a million operations";

    /// Parameters that are left out are those of the paper's third test.
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            processes: words.number("PROCESSES", 9, 1..=1024)?,
            threads: words.number("THREADS", 3, 1..=1024)?,
            bytes: words.number("BYTES", SMALL, 64..=1 << 30)?,
            seconds: words.number("SECONDS", SECONDS, 1..=86_400)?,
            operation_us: OPERATION_US,
            lines_per_us: 0,
        })
    }

    /// The same for a model, which has other limits.
    pub(super) fn read_model(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            processes: words.number("PROCESSES", 9, 1..=10_000)?,
            threads: words.number("THREADS", 3, 1..=10_000)?,
            bytes: words.number("BYTES", SMALL, 0..=1 << 30)?,
            seconds: words.number("SECONDS", SECONDS, 1..=1000)?,
            operation_us: words.number("OPERATION_US", OPERATION_US, 1..=1_000_000)?,
            lines_per_us: words.number("LINES_PER_US", 0, 0..=1000)?,
        })
    }

    /// Without what only a model has.
    fn is_plain(&self) -> bool {
        is_usual(&self.operation_us) && self.lines_per_us == 0
    }

    /// The five tests of Table I; `None`: `text` does not name them.
    pub(super) fn table(text: &str) -> Option<Result<Vec<Self>, UsageError>> {
        let rest = text.strip_prefix("co-threads:table1")?;
        let rest = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
        let mut words = Parameters::new(TABLE_FORM, rest, Sizes::Model);
        let seconds = words.number("SECONDS", SECONDS, 1..=86_400);
        let test = |seconds| {
            let test = |(processes, threads, bytes, _)| Self {
                processes,
                threads,
                bytes,
                seconds,
                operation_us: OPERATION_US,
                lines_per_us: 0,
            };
            TABLE.map(test).to_vec()
        };
        Some(seconds.and_then(|seconds| words.end().map(|()| test(seconds))))
    }

    /// The paper's result for this workload, whatever its duration. One whose sharing somebody has chosen has none: it
    /// could be chosen so that the result follows.
    pub(super) fn published(&self) -> Option<Published> {
        let is_this =
            |row: &(u64, u64, u64, f64)| (row.0, row.1, row.2) == (self.processes, self.threads, self.bytes);
        let place = TABLE.iter().position(is_this).filter(|_| self.is_plain())?;
        Some(Published {
            what: format!("SCHED_RR2 over SCHED_RR, Milić and Jelenković 2012, Table I, test {}", place + 1),
            gain_percent: TABLE[place].3,
        })
    }
}

impl fmt::Display for CoThreads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, threads, bytes, seconds, operation_us, lines_per_us } = self;
        write!(out, "co-threads:{processes}:{threads}:{bytes}:{seconds}")?;
        match lines_per_us {
            _ if self.is_plain() => Ok(()),
            0 => write!(out, ":{operation_us}"),
            _ => write!(out, ":{operation_us}:{lines_per_us}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Model, Program, Workload};
    use super::*;
    use crate::Target;

    #[test]
    fn parameters() {
        let name = |text| Program::sized(text, 4).map(|it| it.to_string());
        assert_eq!(name("co-threads").unwrap(), "co-threads:9:3:16384:10");
        assert_eq!(name("co-threads:2:4:128:1").unwrap(), "co-threads:2:4:128:1");
        assert!(name("co-threads:1:1:63").unwrap_err().to_string().contains("BYTES"));
        assert!(name("co-threads:1:1:64:0").unwrap_err().to_string().contains("SECONDS"));
        assert!(name("co-threads:1:1:64:1:1").unwrap_err().to_string().contains("too many"));
        assert_eq!(Model::read("co-threads:1:1:64:1:1").unwrap().to_string(), "co-threads:1:1:64:1:1");
        assert_eq!(Model::read("co-threads:1:1:64:1:100").unwrap().to_string(), "co-threads:1:1:64:1");
        let shares = "co-threads:11:5:16384:10:100:2";
        assert_eq!(Model::read(shares).unwrap().to_string(), shares);
        assert_eq!(Workload::read(shares, Target::Sim).unwrap().published(), None);
    }

    #[test]
    fn the_table_is_five_tests() {
        let table = |text| CoThreads::table(text);
        let tests = table("co-threads:table1:2").unwrap().unwrap();
        assert_eq!(tests.len(), 5);
        assert_eq!(tests[1].to_string(), "co-threads:11:5:16384:2");
        assert_eq!(tests[1].published().unwrap().gain_percent, 16.02);
        assert_eq!(table("co-threads:table1").unwrap().unwrap()[0].seconds, 10);
        assert!(table("co-threads:table1:0").unwrap().is_err());
        assert!(table("co-threads:table1:1:1").unwrap().is_err());
        assert!(table("co-threads:table12").is_none() && table("co-threads:9:3").is_none());
    }

    #[test]
    fn the_table_is_published_for_the_model_too() {
        for target in Target::ALL {
            let tests = Workload::read_all("co-threads:table1:1", target, 4).unwrap();
            assert_eq!(tests.len(), 5);
            assert_eq!(tests[4].published().unwrap().gain_percent, 9.93);
            assert_eq!(Workload::read("co-threads:2:2", target).unwrap().published(), None);
        }
        let slower = Workload::read("co-threads:9:3:16384:1:50", Target::Sim).unwrap();
        assert_eq!(slower.published(), None);
    }
}
