//! A policy's own account of itself: knobs and statistics, from the tags that KNOB(), CHOICE() and
//! STAT() of `policies/common.bpf.h` leave in the object's type information.
use crate::object::{self, STATS_STRUCT};
use crate::{Error, PidList, Policy};
use libbpf_rs::btf::types::{DeclTag, Struct, Var};
use libbpf_rs::btf::{Btf, BtfKind, BtfType};

/// An integer, or one of several names, that may be set before the policy is loaded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Knob {
    /// Ends in its unit, if it is a number.
    pub name: String,
    /// What it is, with the unit.
    pub doc: String,
    /// Least value.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// Value if not set.
    pub default: u64,
    /// What the values from `min` on are called; empty for a number.
    pub names: Vec<String>,
}

impl Knob {
    /// Reads a value as the user writes it, and checks the range.
    pub fn parse(&self, text: &str) -> Result<u64, Error> {
        if self.names.is_empty() {
            let value =
                text.parse().map_err(|_| Error::KnobSyntax { text: format!("{}={text}", self.name) })?;
            return self.check(value).map(|()| value);
        }
        let place = self.names.iter().position(|name| name == text);
        place.map(|place| place as u64).ok_or_else(|| Error::KnobChoice {
            name: self.name.clone(),
            value: text.to_owned(),
            valid: self.names.clone(),
            doc: self.doc.clone(),
        })
    }

    /// A value as the user writes it.
    pub fn show(&self, value: u64) -> String {
        let name = usize::try_from(value).ok().and_then(|value| self.names.get(value));
        name.cloned().unwrap_or_else(|| value.to_string())
    }

    fn check(&self, value: u64) -> Result<(), Error> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(Error::KnobRange {
            name: self.name.clone(),
            value,
            min: self.min,
            max: self.max,
            doc: self.doc.clone(),
        })
    }
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
    /// Lists of processes that may be given.
    pub lists: Vec<PidList>,
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
            if let (Some(values), BtfKind::Var) = (Values::parse(text), tagged.kind()) {
                let knob = knob(values, &tagged, |name| object::rodata_u64(&open, &btf, name))
                    .ok_or_else(|| malformed(format!("tag '{text}'")))?;
                description.knobs.push(knob);
            } else if let Some(list) = tagged.name().and_then(|name| PidList::parse_tag(text, name.to_str()?))
            {
                description.lists.push(list);
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

    /// The knob of that name, or an error that lists the valid ones.
    pub(crate) fn knob(&self, policy: &Policy, name: &str) -> Result<&Knob, Error> {
        self.knobs.iter().find(|knob| knob.name == name).ok_or_else(|| Error::UnknownKnob {
            policy: policy.name.to_owned(),
            name: name.to_owned(),
            valid: self.knobs.iter().map(|knob| knob.name.clone()).collect(),
        })
    }

    /// The knob one of whose values is called `word`, and that value.
    pub(crate) fn choice(&self, word: &str) -> Result<(&Knob, u64), Error> {
        let value = |knob: &Knob| knob.names.iter().position(|name| name == word);
        let found = self.knobs.iter().find_map(|knob| Some((knob, value(knob)? as u64)));
        found.ok_or_else(|| Error::NoSuchValue {
            text: word.to_owned(),
            valid: self.knobs.iter().flat_map(|knob| knob.names.clone()).collect(),
        })
    }

    /// The list of that name; `None`: there is none.
    pub(crate) fn list(&self, name: &str) -> Option<&PidList> {
        self.lists.iter().find(|list| list.name == name)
    }

    /// Checks a value against names and ranges.
    pub(crate) fn check(&self, policy: &Policy, name: &str, value: u64) -> Result<(), Error> {
        self.knob(policy, name)?.check(value)
    }
}

/// What a knob's tag says.
struct Values {
    min: u64,
    max: u64,
    names: Vec<String>,
    doc: String,
}

impl Values {
    /// From `knob MIN MAX DOC` or `choice FIRST SECOND THIRD: DOC`; `None`: it is neither.
    fn parse(tag: &str) -> Option<Self> {
        if let Some(rest) = tag.strip_prefix("choice ") {
            let (names, doc) = rest.split_once(": ")?;
            let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            let max = names.len().checked_sub(1)? as u64;
            return Some(Self { min: 0, max, names, doc: doc.to_owned() });
        }
        let mut words = tag.strip_prefix("knob ")?.splitn(3, ' ');
        let min = words.next()?.parse().ok()?;
        let max = words.next()?.parse().ok()?;
        Some(Self { min, max, names: Vec::new(), doc: words.next()?.to_owned() })
    }
}

/// From its tag and the variable that carries it.
fn knob(values: Values, tagged: &BtfType<'_>, default: impl Fn(&str) -> Option<u64>) -> Option<Knob> {
    let Values { min, max, names, doc } = values;
    let name = Var::try_from(*tagged).ok()?.name()?.to_str()?.to_owned();
    let default = default(&name)?;
    Some(Knob { name, doc, min, max, default, names })
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
    fn a_name_stands_for_one_value() {
        for policy in Policy::all() {
            let knobs = policy.describe().unwrap().knobs;
            let names: Vec<&String> = knobs.iter().flat_map(|knob| &knob.names).collect();
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), different.len(), "{}: {names:?}", policy.name);
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

    #[test]
    fn choices_are_known_by_name() {
        let values = Values::parse("choice first second: which of the two: doc").unwrap();
        assert_eq!((values.min, values.max, values.doc.as_str()), (0, 1, "which of the two: doc"));
        let knob = Knob {
            name: "strategy".into(),
            doc: values.doc,
            min: values.min,
            max: values.max,
            default: 0,
            names: values.names,
        };
        assert_eq!(knob.parse("second").unwrap(), 1);
        assert_eq!((knob.show(0), knob.show(1)), ("first".to_owned(), "second".to_owned()));
        for wrong in ["secnd", "1", ""] {
            let error = knob.parse(wrong).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains("first, second"), "{error}");
        }
        assert!(knob.parse("secnd").unwrap_err().to_string().contains("did you mean second?"));
        assert!(Values::parse("choice : nothing to choose").is_none());
    }
}
