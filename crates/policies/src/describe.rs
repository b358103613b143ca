//! A policy's own account of itself: knobs and statistics, from the tags that KNOB() and STAT() of
//! `policies/common.bpf.h` leave in the object's type information.
use crate::object::{self, STATS_STRUCT};
use crate::{Error, Policy};
use libbpf_rs::btf::types::{DeclTag, Struct, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

/// An integer that may be set before the policy is loaded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Knob {
    /// Ends in its unit.
    pub name: String,
    /// What it is, with the unit.
    pub doc: String,
    /// Least value.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// Value if not set.
    pub default: u64,
}

/// An event that the policy counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Statistic {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub doc: String,
}

/// All that a policy says of itself, in the order of its source.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Description {
    /// What may be set.
    pub knobs: Vec<Knob>,
    /// What is counted; also the order in which the policy's map holds the counts.
    pub statistics: Vec<Statistic>,
}

impl Description {
    pub(crate) fn of(policy: &Policy) -> Result<Self, Error> {
        let malformed = |what: String| Error::Object { policy: policy.name.to_owned(), what };
        let open = object::open(policy)?;
        let btf = Btf::from_raw(policy.name, policy.object)
            .map_err(|e| malformed(e.to_string()))?
            .ok_or_else(|| malformed("no BTF".into()))?;

        let mut description = Self::default();
        let mut counted: Vec<(u32, Statistic)> = Vec::new();
        for tag in btf.type_by_kind::<DeclTag<'_>>() {
            let Some(text) = tag.name().and_then(|t| t.to_str()) else { continue };
            let Some(tagged) = tag.next_type() else { continue };
            if let (Some(rest), BtfKind::Var) = (text.strip_prefix("knob "), tagged.kind()) {
                let knob = knob(rest, &tagged, |name| object::rodata_u64(&open, &btf, name))
                    .ok_or_else(|| malformed(format!("tag '{text}'")))?;
                description.knobs.push(knob);
            } else if let Some(doc) = text.strip_prefix("stat ")
                && tagged.name().is_some_and(|name| name == STATS_STRUCT)
                && let Some(index) = tag.component_index()
                && let Ok(of) = Struct::try_from(tagged)
                && let Some(name) = of.get(index as usize).and_then(|m| m.name?.to_str())
            {
                counted.push((index, Statistic { name: name.to_owned(), doc: doc.to_owned() }));
            }
        }
        counted.sort_by_key(|(index, _)| *index);
        description.statistics = counted.into_iter().map(|(_, statistic)| statistic).collect();
        Ok(description)
    }

    /// Checks values against names and ranges.
    pub(crate) fn check(&self, policy: &Policy, name: &str, value: u64) -> Result<(), Error> {
        let knob = self.knobs.iter().find(|knob| knob.name == name).ok_or_else(|| Error::UnknownKnob {
            policy: policy.name.to_owned(),
            name: name.to_owned(),
            valid: self.knobs.iter().map(|knob| knob.name.clone()).collect(),
        })?;
        if (knob.min..=knob.max).contains(&value) {
            return Ok(());
        }
        Err(Error::KnobRange {
            name: knob.name.clone(),
            value,
            min: knob.min,
            max: knob.max,
            doc: knob.doc.clone(),
        })
    }
}

/// From `MIN MAX DOC` and the variable that carries it.
fn knob(tag: &str, tagged: &BtfType<'_>, default: impl Fn(&str) -> Option<u64>) -> Option<Knob> {
    let mut words = tag.splitn(3, ' ');
    let min = words.next()?.parse().ok()?;
    let max = words.next()?.parse().ok()?;
    let doc = words.next()?.to_owned();
    let name = Var::try_from(*tagged).ok()?.name()?.to_str()?.to_owned();
    let default = default(&name)?;
    Some(Knob { name, doc, min, max, default })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flsched_describes_itself() {
        let description = Policy::find("flsched").unwrap().describe().unwrap();
        let slice = description.knobs.iter().find(|k| k.name == "slice_us").expect("slice_us");
        assert_eq!((slice.default, slice.min), (100_000, 1000));
        assert!(slice.doc.contains("microseconds"), "{}", slice.doc);
        assert!(description.statistics.iter().any(|s| s.name == "queued_tail"));
    }

    #[test]
    fn every_policy_has_documented_knobs_in_range() {
        for policy in Policy::all() {
            for knob in policy.describe().unwrap().knobs {
                assert!((knob.min..=knob.max).contains(&knob.default), "{}: {knob:?}", policy.name);
                assert!(!knob.doc.is_empty(), "{}: {knob:?}", policy.name);
            }
        }
    }

    #[test]
    fn refuses_unknown_and_out_of_range_knobs() {
        let policy = Policy::find("flsched").unwrap();
        let description = policy.describe().unwrap();
        assert!(description.check(policy, "slice_us", 5000).is_ok());
        let range = description.check(policy, "slice_us", 1).unwrap_err();
        assert!(range.is_usage() && range.to_string().contains("1000..="), "{range}");
        let unknown = description.check(policy, "slice", 1).unwrap_err();
        assert!(unknown.to_string().contains("did you mean slice_us"), "{unknown}");
    }
}
