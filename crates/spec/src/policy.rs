//! The policies of this build.
use crate::{Knob, Malformed, PidList, Statistic, UsageError, describe};
use std::sync::LazyLock;

/// A scheduler for sched_ext, and what it says of itself in its source.
#[derive(Debug)]
pub struct Policy {
    /// As in `policies/NAME.bpf.c`.
    pub name: &'static str,
    /// What may be set, in the order of the source.
    pub knobs: Vec<Knob>,
    /// Lists of processes that may be given.
    pub lists: Vec<PidList>,
    /// The events that the policy counts, in the order of its map.
    pub statistics: Vec<Statistic>,
    /// Compiled for BPF.
    pub object: &'static [u8],
}

/// Name and object of each.
static OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let read = |(name, object): &(&'static str, &'static [u8])| {
        Policy::read(name, object).unwrap_or_else(|error| panic!("{name} of this build: {error}"))
    };
    OBJECTS.iter().map(read).collect()
});

impl Policy {
    /// All policies of this build, by name.
    pub fn all() -> &'static [Policy] {
        &POLICIES
    }

    /// The policy of that name.
    pub fn find(name: &str) -> Result<&'static Policy, UsageError> {
        let names = || Self::all().iter().map(|policy| policy.name).collect::<Vec<_>>();
        let found = Self::all().iter().find(|policy| policy.name == name);
        found.ok_or_else(|| UsageError::unknown("policy", name, &names()))
    }

    /// From an object that was compiled for BPF.
    pub fn read(name: &'static str, object: &'static [u8]) -> Result<Self, Malformed> {
        let mut policy = Self { name, knobs: Vec::new(), lists: Vec::new(), statistics: Vec::new(), object };
        describe::fill(&mut policy)?;
        Ok(policy)
    }

    /// The policy's version: that of the build.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The knob of that name.
    pub fn knob(&self, name: &str) -> Result<&Knob, UsageError> {
        let names = || self.knobs.iter().map(|knob| &knob.name).collect::<Vec<_>>();
        self.knobs
            .iter()
            .find(|knob| knob.name == name)
            .ok_or_else(|| UsageError::unknown(&format!("knob of {}", self.name), name, &names()))
    }

    /// The knob one of whose values is called `word`, and that value.
    pub fn choice(&self, word: &str) -> Result<(&Knob, u64), UsageError> {
        let found = self.knobs.iter().find_map(|knob| Some((knob, knob.value_of(word)?)));
        let names = || self.knobs.iter().flat_map(|knob| &knob.names).collect::<Vec<_>>();
        found.ok_or_else(|| {
            let what = format!("setting of {}, neither KNOB=VALUE nor the name of a value:", self.name);
            UsageError::unknown(&what, word, &names())
        })
    }

    /// The list of that name; `None`: there is none.
    pub(crate) fn list(&self, name: &str) -> Option<&PidList> {
        self.lists.iter().find(|list| list.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn finds_flsched_and_refuses_others() {
        assert_eq!(Policy::find("flsched").unwrap().name, "flsched");
        let message = Policy::find("flshced").unwrap_err().to_string();
        assert!(message.contains("`flshced`; did you mean `flsched`?"), "{message}");
    }

    #[test]
    fn flsched_describes_itself() {
        let flsched = Policy::find("flsched").unwrap();
        let slice = flsched.knob("slice_us").unwrap();
        assert_eq!((slice.default, slice.min, slice.max), (100_000, 1000, 10_000_000));
        assert!(slice.doc.contains("microseconds"), "{}", slice.doc);
        assert_eq!(flsched.statistics[0].name, "idle_own");
        assert!(flsched.statistics.iter().any(|it| it.name == "queued_tail"));
        assert_eq!(Policy::find("rr2").unwrap().lists[0].name, "pids");
        let error = flsched.knob("slice").unwrap_err().to_string();
        assert!(error.contains("knob of flsched `slice`; did you mean `slice_us`?"), "{error}");
    }

    #[test]
    fn every_policy_has_documented_knobs_in_range() {
        for policy in Policy::all() {
            for knob in &policy.knobs {
                assert!((knob.min..=knob.max).contains(&knob.default), "{}: {knob:?}", policy.name);
                assert!(!knob.doc.is_empty(), "{}: {knob:?}", policy.name);
            }
        }
    }

    #[test]
    fn a_name_stands_for_one_value() {
        for policy in Policy::all() {
            let names: Vec<&String> = policy.knobs.iter().flat_map(|knob| &knob.names).collect();
            let different: BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), different.len(), "{}: {names:?}", policy.name);
        }
    }
}
