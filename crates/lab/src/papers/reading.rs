//! Which part of a result a row takes, in words:
//!
//! | words | from | the figure |
//! |---|---|---|
//! | `time of S on W` | a comparison | the median of the times, in s |
//! | `switches of S on W` | a comparison | the median; so for `migrations`, `yields` and each further figure by its name |
//! | `time of S over T on W` | a comparison | the first divided by the second: how many times faster T is |
//! | `time of S on W over V` | a comparison | the first divided by the second, of two workloads |
//! | `gain of S over T on W` | a comparison | how many percent more work S does in the same time |
//! | `calls of F under S` | costs, a simulation | so for `mean_ns`, `total_ms` and `share_percent` of the run; and `… under S over T`, the first divided by the second |
//! | `locks of S` | locks | places in the policy that take a lock of its own |
//! | `spin_percent of S` | locks | share of the CPUs' time spent spinning |
//! | `spin_percent of S on W` | `compare --why` | the same of one run |
//! | `places of P` | `locks --source` | places that take a lock in this part of the kernel's scheduler |
//!
//! `W` may have `*` where the largest, or a share, of several is taken.
use std::fmt;

/// A figure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfRun {
    Time,
    /// How much more work than another scheduler's it does in the same time, in percent.
    Gain,
    Switches,
    Migrations,
    /// Calls of `sched_yield`.
    Yields,
    /// The share of the CPUs' time that they spin for locks, of the run of `compare --why`.
    SpinPercent,
    /// A further figure, by its name in the report.
    Own(String),
}

/// A figure of a scheduler's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfFunction {
    /// How often it was called.
    Calls,
    /// How long a call took.
    MeanNs,
    /// How long all calls took.
    TotalMs,
    /// Of the run's time.
    SharePercent,
}

/// A figure of the locks that were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfLocks {
    /// Places in the policy that take a lock of its own.
    Locks,
    /// The share of the CPUs' time that they spin.
    SpinPercent,
}

impl OfRun {
    fn of(word: &str) -> Self {
        match word {
            "time" => Self::Time,
            "gain" => Self::Gain,
            "switches" => Self::Switches,
            "migrations" => Self::Migrations,
            "yields" => Self::Yields,
            "spin_percent" => Self::SpinPercent,
            name => Self::Own(name.into()),
        }
    }
}

impl OfFunction {
    fn of(word: &str) -> Option<Self> {
        [Self::Calls, Self::MeanNs, Self::TotalMs, Self::SharePercent]
            .into_iter()
            .find(|it| it.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::MeanNs => "mean_ns",
            Self::TotalMs => "total_ms",
            Self::SharePercent => "share_percent",
        }
    }
}

impl OfLocks {
    fn of(word: &str) -> Option<Self> {
        [Self::Locks, Self::SpinPercent].into_iter().find(|it| it.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::SpinPercent => "spin_percent",
        }
    }
}

impl fmt::Display for OfRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Time => "time",
            Self::Gain => "gain",
            Self::Switches => "switches",
            Self::Migrations => "migrations",
            Self::Yields => "yields",
            Self::SpinPercent => "spin_percent",
            Self::Own(name) => name,
        })
    }
}

impl fmt::Display for OfFunction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl fmt::Display for OfLocks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// A figure of one result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Of a workload in a comparison.
    Run {
        quantity: OfRun,
        scheduler: String,
        /// Divided by this one's.
        over: Option<String>,
        /// A pattern with `*`.
        workload: String,
        /// Divided by the figure of this workload.
        base: Option<String>,
    },
    /// Of a scheduler's function.
    Function {
        quantity: OfFunction,
        /// Its name in the result.
        function: String,
        scheduler: String,
        /// Divided by this one's.
        over: Option<String>,
    },
    /// Of the locks that were counted.
    Locks { quantity: OfLocks, scheduler: String },
    /// Of the places in the kernel's source that take a lock.
    Places {
        /// `core`, `fair`, …
        part: String,
    },
}

impl Reading {
    /// Reads the words; or what is wrong with them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let owned = |word: &str| word.to_string();
        let wrong = || {
            format!(
                "`{text}` is not like `time of S on W`, `time of S over T on W`, `gain of S over T on W`, \
                 `calls of F under S`, `calls of F under S over T`, `locks of S` or `places of P`"
            )
        };
        match words[..] {
            // A gain is over another scheduler.
            ["gain", "of", _, "on", ..] => Err(wrong()),
            [quantity, "of", scheduler, "on", workload] => Ok(Self::Run {
                quantity: OfRun::of(quantity),
                scheduler: owned(scheduler),
                over: None,
                workload: owned(workload),
                base: None,
            }),
            [quantity, "of", scheduler, "on", workload, "over", base] => Ok(Self::Run {
                quantity: OfRun::of(quantity),
                scheduler: owned(scheduler),
                over: None,
                workload: owned(workload),
                base: Some(owned(base)),
            }),
            [quantity, "of", scheduler, "over", other, "on", workload] => Ok(Self::Run {
                quantity: OfRun::of(quantity),
                scheduler: owned(scheduler),
                over: Some(owned(other)),
                workload: owned(workload),
                base: None,
            }),
            [quantity, "of", function, "under", scheduler, ref over @ ..]
                if matches!(over, [] | ["over", _]) =>
            {
                Ok(Self::Function {
                    quantity: OfFunction::of(quantity).ok_or_else(wrong)?,
                    function: owned(function),
                    scheduler: owned(scheduler),
                    over: over.get(1).map(|other| owned(other)),
                })
            }
            ["places", "of", part] => Ok(Self::Places { part: owned(part) }),
            [quantity, "of", scheduler] => Ok(Self::Locks {
                quantity: OfLocks::of(quantity).ok_or_else(wrong)?,
                scheduler: owned(scheduler),
            }),
            _ => Err(wrong()),
        }
    }

    pub fn with_schedulers(&self, replaced: &dyn Fn(&str) -> String) -> Self {
        let mut reading = self.clone();
        let (scheduler, over) = match &mut reading {
            Self::Run { scheduler, over, .. } | Self::Function { scheduler, over, .. } => {
                (scheduler, Some(over))
            }
            Self::Locks { scheduler, .. } => (scheduler, None),
            Self::Places { .. } => return reading,
        };
        *scheduler = replaced(scheduler);
        if let Some(Some(over)) = over {
            *over = replaced(over);
        }
        reading
    }

    /// Whether it is about this scheduler.
    pub fn names(&self, name: &str) -> bool {
        let (scheduler, over) = match self {
            Self::Run { scheduler, over, .. } | Self::Function { scheduler, over, .. } => {
                (scheduler, over.as_ref())
            }
            Self::Locks { scheduler, .. } => (scheduler, None),
            Self::Places { .. } => return false,
        };
        scheduler == name || over.is_some_and(|over| over == name)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = |over: &Option<String>| over.as_ref().map(|it| format!(" over {it}")).unwrap_or_default();
        match self {
            Self::Run { quantity, scheduler, over: other, workload, base } => {
                write!(out, "{quantity} of {scheduler}{} on {workload}{}", over(other), over(base))
            }
            Self::Function { quantity, function, scheduler, over: other } => {
                write!(out, "{quantity} of {function} under {scheduler}{}", over(other))
            }
            Self::Locks { quantity, scheduler } => write!(out, "{quantity} of {scheduler}"),
            Self::Places { part } => write!(out, "places of {part}"),
        }
    }
}

/// One figure made of readings.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// Of one workload or function.
    One(Reading),
    /// The largest of all workloads that match.
    Largest(Reading),
    Smallest(Reading),
    /// How many of them are above this.
    CountAbove(f64, Reading),
    /// How many percent of them are above this.
    ShareAbove(f64, Reading),
    /// How many percent of them are below this.
    ShareBelow(f64, Reading),
}

impl Taken {
    /// What it is made of.
    pub fn reading(&self) -> &Reading {
        match self {
            Self::One(it) | Self::Largest(it) | Self::Smallest(it) => it,
            Self::CountAbove(_, it) | Self::ShareAbove(_, it) | Self::ShareBelow(_, it) => it,
        }
    }

    /// The same with another reading.
    pub fn with(&self, reading: Reading) -> Self {
        match self {
            Self::One(_) => Self::One(reading),
            Self::Largest(_) => Self::Largest(reading),
            Self::Smallest(_) => Self::Smallest(reading),
            Self::CountAbove(limit, _) => Self::CountAbove(*limit, reading),
            Self::ShareAbove(limit, _) => Self::ShareAbove(*limit, reading),
            Self::ShareBelow(limit, _) => Self::ShareBelow(*limit, reading),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in [
            "time of cfs on hackbench:process-pipe:200:100",
            "lock_wait_percent of flsched_paper on npb:cg:*",
            "time of cfs over flsched on npb:*",
            "time of cfs on hackbench:process-pipe:200:* over hackbench:process-pipe:50:*",
            "gain of rr2 over rr2:grouping=off on co-threads:9:3:16384:2",
            "mean_ns of enqueue under cfs",
            "calls of enqueue under cfs over flsched",
            "locks of flsched",
            "spin_percent of flsched on libomp:sparse:112:1",
            "places of core",
        ] {
            assert_eq!(Reading::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn says_what_it_could_be() {
        for text in ["", "time", "time on W", "gain of S on W", "ns of f under S", "locks of a b"] {
            let error = Reading::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("`{text}` is not like `time of S on W`")), "{error}");
        }
    }

    #[test]
    fn places_are_of_no_scheduler() {
        let reading = Reading::parse("places of core").unwrap();
        assert!(!reading.names("core"));
        assert_eq!(reading.with_schedulers(&|_| "flsched".into()), reading);
    }

    #[test]
    fn schedulers_are_replaced_wherever_they_stand() {
        let reading = Reading::parse("time of cfs over flsched on W").unwrap();
        let replaced = reading.with_schedulers(&|name| name.replace("flsched", "flsched_paper"));
        assert_eq!(replaced.to_string(), "time of cfs over flsched_paper on W");
        assert!(replaced.names("flsched_paper") && replaced.names("cfs") && !replaced.names("W"));
    }
}
