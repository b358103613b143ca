//! How threads and processes of parallel runtimes wait for each other: settings in their environment.
use flsched_spec::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

/// A way to wait that can be requested of runtimes. There are no others: GCC's OpenMP never yields, and with
/// more threads than CPUs it does not spin for long, whatever its environment sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waits {
    /// Asleep: a waiter leaves its CPU to others at once.
    Sleep,
}

/// A variable of a runtime.
struct Setting {
    name: &'static str,
    value: &'static str,
    /// Another name for the same, which LLVM's runtime does not accept beside this one: it warns and uses one of them.
    rival: Option<&'static str>,
}

const fn setting(name: &'static str, value: &'static str) -> Setting {
    Setting { name, value, rival: None }
}

/// MPICH is not here: it polls whatever its environment is, unless it has threads of its own.
const SLEEP: [Setting; 6] = [
    // All OpenMP runtimes. LLVM's then also sleeps while other threads of the team have tasks.
    Setting { name: "OMP_WAIT_POLICY", value: "passive", rival: Some("KMP_LIBRARY") },
    // LLVM's and Intel's: milliseconds until a waiter sleeps.
    setting("KMP_BLOCKTIME", "0"),
    // GCC's: rounds until a waiter sleeps.
    setting("GOMP_SPINCOUNT", "0"),
    // OpenBLAS: the power of two of the cycles for which a thread yields before it sleeps; the least that it takes.
    setting("OPENBLAS_THREAD_TIMEOUT", "4"),
    // Open MPI: a process that polls for messages gives its CPU away after each poll …
    setting("OMPI_MCA_mpi_yield_when_idle", "1"),
    // … by sched_yield(), or since version 5 by a sleep. Older versions ignore this.
    setting("OMPI_MCA_threads_pthreads_yield_strategy", "nanosleep"),
];

impl Waits {
    pub const ALL: [Self; 1] = [Self::Sleep];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
        }
    }

    fn settings(self) -> &'static [Setting] {
        match self {
            Self::Sleep => &SLEEP,
        }
    }

    /// What to set beside what `is_set` already, which stays.
    pub fn choose(self, is_set: impl Fn(&str) -> bool) -> Choice {
        let mut choice = Choice { set: Vec::new(), left: Vec::new() };
        for Setting { name, value, rival } in self.settings() {
            match [Some(*name), *rival].into_iter().flatten().find(|name| is_set(name)) {
                Some(users) => choice.left.push(users),
                None => choice.set.push((name, value)),
            }
        }
        choice
    }

    /// The same beside this process's own environment, which children inherit.
    pub fn choose_here(self) -> Choice {
        self.choose(|name| std::env::var_os(name).is_some())
    }
}

impl FromStr for Waits {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        let names: Vec<String> = Self::ALL.iter().map(Self::to_string).collect();
        let found = Self::ALL.into_iter().find(|waits| waits.name() == text);
        found.ok_or_else(|| UsageError::unknown("way to wait", text, &names))
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// The variables to set for a program, and those that stay as the user has set them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    set: Vec<(&'static str, &'static str)>,
    left: Vec<&'static str>,
}

impl Choice {
    /// The variables to add to a program's environment.
    pub fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.set.iter().map(|(name, value)| (name.into(), value.into()))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("set")?;
        if self.set.is_empty() {
            out.write_str(" nothing")?;
        }
        self.set.iter().try_for_each(|(name, value)| write!(out, " {name}={value}"))?;
        if !self.left.is_empty() {
            write!(out, "; left as you have set it: {}", self.left.join(" "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_all_where_nothing_is_set() {
        let choice = Waits::Sleep.choose(|_| false);
        let variables: Vec<_> = choice.environment().map(|(name, _)| name).collect();
        assert_eq!(variables.len(), SLEEP.len());
        assert!(variables.contains(&"KMP_BLOCKTIME".into()) && variables.contains(&"GOMP_SPINCOUNT".into()));
        let line = choice.to_string();
        assert!(line.starts_with("set OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 "), "{line}");
        assert!(!line.contains("left"), "{line}");
    }

    #[test]
    fn leaves_what_the_user_has_set() {
        let choice = Waits::Sleep.choose(|name| name == "KMP_BLOCKTIME");
        assert!(choice.environment().all(|(name, _)| name != "KMP_BLOCKTIME"));
        assert!(choice.to_string().ends_with("; left as you have set it: KMP_BLOCKTIME"), "{choice}");
        assert_eq!(choice.environment().count(), SLEEP.len() - 1);
        let all = Waits::Sleep.choose(|_| true);
        assert!(all.to_string().starts_with("set nothing; left"), "{all}");
    }

    #[test]
    fn leaves_what_would_contradict_the_user() {
        let choice = Waits::Sleep.choose(|name| name == "KMP_LIBRARY");
        assert!(choice.environment().all(|(name, _)| name != "OMP_WAIT_POLICY"));
        assert!(choice.to_string().ends_with("set it: KMP_LIBRARY"), "{choice}");
    }

    #[test]
    fn unknown_ways_are_named() {
        assert_eq!("sleep".parse(), Ok(Waits::Sleep));
        let error = "spin".parse::<Waits>().unwrap_err().to_string();
        assert_eq!(error, "unknown way to wait `spin` (valid: sleep)");
    }
}
