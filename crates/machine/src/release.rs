//! A release of Linux, and what kernels of its age do differently.
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The numbers of a release, such as 2, 6 and 38.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release(Vec<u32>);

impl Release {
    /// A write to a pipe wakes all tasks that sleep there, and so does a read that frees a buffer: they wait in one
    /// queue, none exclusively (`pipe_wait()`). Since 5.5 only the first message and the first room wake, and since
    /// 5.6 they wake one task.
    pub fn wakes_all_at_a_pipe(&self) -> bool {
        self.0[..] < [5, 5][..]
    }

    /// A CPU that runs out of real-time tasks requests by interrupt that others push (`RT_PUSH_IPI`), instead of taking
    /// their run-queue locks to pull.
    pub fn has_rt_push_ipi(&self) -> bool {
        self.0[..] >= [4, 1][..]
    }

    /// A task that is woken for a CPU beyond the waker's last-level cache is enqueued by that CPU, which an interrupt
    /// asks for it (`TTWU_QUEUE`). 3.0 to 3.2 do so within a cache, too; that is not modelled.
    pub fn queues_far_wake_ups(&self) -> bool {
        self.0[..] >= [3, 0][..]
    }

    /// So is one that is woken for an idle CPU.
    pub fn queues_wake_ups_to_idle(&self) -> bool {
        self.0[..] >= [6, 0][..]
    }

    /// Of CPUs that suit a real-time task equally each one takes the next after its last choice
    /// (`cpumask_any_and_distribute()`).
    pub fn distributes_rt(&self) -> bool {
        self.0[..] >= [5, 11][..]
    }
}

/// What the simulator models unless a machine's file names another one.
impl Default for Release {
    fn default() -> Self {
        Self(vec![6, 18])
    }
}

impl FromStr for Release {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers {
            Some(numbers) if (2..=3).contains(&numbers.len()) => Ok(Self(numbers)),
            _ => Err(UsageError(format!("`{text}` is not a release of Linux, such as 5.4 or 2.6.38"))),
        }
    }
}

impl TryFrom<String> for Release {
    type Error = UsageError;

    fn try_from(text: String) -> Result<Self, UsageError> {
        text.parse()
    }
}

impl From<Release> for String {
    fn from(release: Release) -> Self {
        release.to_string()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        out.write_str(&numbers.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_not_letters() {
        let of = |text: &str| text.parse::<Release>().unwrap();
        assert!(of("2.6.38") < of("4.1") && of("4.9") < of("4.14") && of("5.4.302") < of("5.5"));
        let does =
            |text| (of(text).wakes_all_at_a_pipe(), of(text).has_rt_push_ipi(), of(text).distributes_rt());
        assert_eq!(does("2.6.38"), (true, false, false));
        assert_eq!(does("4.0.9"), (true, false, false));
        assert_eq!(does("5.4"), (true, true, false));
        assert_eq!(does("5.10"), (false, true, false));
        assert_eq!(does("5.11"), (false, true, true));
        let queues = |text| (of(text).queues_far_wake_ups(), of(text).queues_wake_ups_to_idle());
        assert_eq!(queues("2.6.38"), (false, false));
        assert_eq!(queues("5.19"), (true, false));
        assert_eq!(queues("6.0"), (true, true));
        assert_eq!(of("2.6.38").to_string(), "2.6.38");
    }

    #[test]
    fn says_what_a_release_is() {
        for bad in ["", "6", "six", "6.18-rc1", "6..1", "1.2.3.4"] {
            let error = bad.parse::<Release>().unwrap_err().to_string();
            assert!(error.contains("such as 5.4 or 2.6.38"), "{error}");
        }
    }
}
