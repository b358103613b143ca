//! A policy with its knobs set, as the user writes it: `flsched:slice_us=5000,max_delay_us=50000`.
use crate::{Policy, UsageError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A policy, and the settings that differ from its defaults. Each value has been checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PolicySpec {
    /// The policy that it is a setting of.
    pub policy: &'static Policy,
    knobs: BTreeMap<String, u64>,
    pids: BTreeMap<String, Vec<u32>>,
}

impl PolicySpec {
    /// With all knobs at their defaults.
    pub fn new(policy: &'static Policy) -> Self {
        Self { policy, knobs: BTreeMap::new(), pids: BTreeMap::new() }
    }

    /// Knobs that were set, by name.
    pub fn knobs(&self) -> &BTreeMap<String, u64> {
        &self.knobs
    }

    /// Processes that were named, by list.
    pub fn pids(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.pids
    }

    /// The value of a knob, set or not; `None`: there is no such knob.
    pub fn value(&self, knob: &str) -> Option<u64> {
        let default = || Some(self.policy.knobs.iter().find(|it| it.name == knob)?.default);
        self.knobs.get(knob).copied().or_else(default)
    }

    /// Sets knobs and lists to values that were read by [`Knob::parse`](crate::Knob::parse) and
    /// [`PidList::parse`](crate::PidList::parse). A list sets its knob to the value with which the list matters;
    /// without a list that value is an error.
    pub fn set(
        mut self,
        knobs: impl IntoIterator<Item = (String, u64)>,
        pids: impl IntoIterator<Item = (String, Vec<u32>)>,
    ) -> Result<Self, UsageError> {
        self.knobs.extend(knobs);
        self.pids.extend(pids);
        for list in &self.policy.lists {
            let given = self.pids.get(&list.name).is_some_and(|pids| !pids.is_empty());
            let knob = self.policy.knob(&list.knob)?;
            let show = |value: u64| format!("{}={}", knob.name, knob.show(value));
            match self.knobs.get(&list.knob) {
                Some(value) if given && *value != list.value => {
                    return Err(list.wrong(format!("this list cannot be used with {}", show(*value))));
                }
                Some(value) if !given && *value == list.value => {
                    return Err(list.wrong(format!("{} needs this list", show(*value))));
                }
                None if given => {
                    self.knobs.insert(list.knob.clone(), list.value);
                }
                _ => {}
            }
        }
        Ok(self)
    }
}

impl FromStr for PolicySpec {
    type Err = UsageError;

    /// `NAME[:KNOB=VALUE[,KNOB=VALUE…]]`. A value that has a name may be given alone: `smove:local`. Processes in a
    /// list have plus signs between them: `rr2:pids=12+34`.
    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let policy = Policy::find(name)?;
        let (mut knobs, mut pids) = (BTreeMap::new(), BTreeMap::new());
        for setting in settings.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            refuse_variant(policy, setting)?;
            let Some((name, value)) = setting.split_once('=') else {
                let (knob, value) = policy.choice(setting)?;
                knobs.insert(knob.name.clone(), value);
                continue;
            };
            let (name, value) = (name.trim().replace('-', "_"), value.trim());
            match policy.list(&name) {
                Some(list) => drop(pids.insert(name, list.parse(value)?)),
                None => {
                    let value = policy.knob(&name)?.parse(value)?;
                    knobs.insert(name, value);
                }
            }
        }
        Self::new(policy).set(knobs, pids)
    }
}

/// FLSCHED had the published algorithm as a variant. It is a policy of its own now.
fn refuse_variant(policy: &Policy, setting: &str) -> Result<(), UsageError> {
    let is_variant = setting == "paper" || setting == "bounded" || setting.starts_with("variant=");
    match policy.name == "flsched" && is_variant {
        true => Err(UsageError(format!(
            "`flsched:{setting}`: FLSCHED has no variants any more. The published algorithm is the policy \
             `flsched_paper`; for ours leave `{setting}` out"
        ))),
        false => Ok(()),
    }
}

impl PolicySpec {
    /// The settings as the user writes them behind the policy's name: `slice_us=5000,reach=2`. Empty: there are none.
    pub fn settings(&self) -> String {
        let shown = |(name, value): (&String, &u64)| {
            let value = self.policy.knob(name).map_or_else(|_| value.to_string(), |knob| knob.show(*value));
            format!("{name}={value}")
        };
        let listed = |(name, pids): (&String, &Vec<u32>)| {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("{name}={}", pids.join("+"))
        };
        self.knobs.iter().map(shown).chain(self.pids.iter().map(listed)).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings();
        let colon = if settings.is_empty() { "" } else { ":" };
        write!(out, "{}{colon}{settings}", self.policy.name)
    }
}

impl From<PolicySpec> for String {
    fn from(spec: PolicySpec) -> Self {
        spec.to_string()
    }
}

impl TryFrom<String> for PolicySpec {
    type Error = UsageError;

    fn try_from(text: String) -> Result<Self, UsageError> {
        text.parse()
    }
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        self.policy.name == other.policy.name && self.knobs == other.knobs && self.pids == other.pids
    }
}

impl Eq for PolicySpec {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PolicySpec {
        text.parse().unwrap()
    }

    fn error(text: &str) -> String {
        text.parse::<PolicySpec>().unwrap_err().to_string()
    }

    #[test]
    fn reads_and_writes_knobs() {
        let spec = read("flsched:slice_us=5000,max-delay-us=20000");
        assert_eq!(spec.policy.name, "flsched");
        assert_eq!((spec.value("slice_us"), spec.value("max_delay_us")), (Some(5000), Some(20000)));
        assert_eq!((spec.value("reach").is_some(), spec.value("x")), (true, None));
        assert_eq!(spec.to_string(), "flsched:max_delay_us=20000,slice_us=5000");
        assert_eq!(read("flsched").to_string(), "flsched");
        assert_eq!(read("flsched:slice_us=5000").knobs().len(), 1);
    }

    #[test]
    fn a_value_that_has_a_name_may_stand_alone() {
        assert_eq!(read("smove:local,slice_us=5000").to_string(), "smove:slice_us=5000,strategy=local");
        let error = error("smove:locally");
        assert!(
            error.contains("`locally`; did you mean `local`? (valid: kernel, test, smove, local, off"),
            "{error}"
        );
    }

    #[test]
    fn the_former_variant_is_named() {
        for setting in ["paper", "variant=paper", "slice_us=5000,variant=paper"] {
            let error = error(&format!("flsched:{setting}"));
            assert!(error.contains("the policy `flsched_paper`"), "{error}");
        }
    }

    #[test]
    fn refuses_nonsense() {
        for (bad, why) in [
            ("nosuch", "unknown policy"),
            ("flsched:slice_us", "neither KNOB=VALUE"),
            ("flsched:slice_us=fast", "`fast` is not a whole number from 1000"),
            ("flsched:slice_us=1", "from 1000 to 10000000 ("),
            ("flsched:x=1", "unknown knob of flsched `x`"),
            ("smove:strategy=of", "unknown strategy `of`; did you mean `off`? (valid: smove, local, off)"),
        ] {
            assert!(error(bad).contains(why), "{}", error(bad));
        }
    }

    #[test]
    fn a_list_and_its_knob_go_together() {
        let spec = read("rr2:pids=1+2");
        assert_eq!((spec.value("group_by"), spec.pids()["pids"].as_slice()), (Some(2), &[1, 2][..]));
        assert_eq!(spec.to_string(), "rr2:group_by=pids,pids=1+2");
        assert_eq!(read(&spec.to_string()), spec);
        assert_eq!(read("rr2:group_by=cgroup").value("group_by"), Some(1));
        assert!(
            error("rr2:group_by=cgroup,pids=1").contains("this list cannot be used with group_by=cgroup")
        );
        assert!(error("rr2:group_by=pids").contains("group_by=pids needs this list"));
    }
}
