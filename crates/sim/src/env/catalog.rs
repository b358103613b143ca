//! The policies of this build, and what they say of themselves in their source.
use crate::Error;

/// A scheduler for sched_ext.
#[derive(Debug)]
pub struct Policy {
    /// As in `policies/NAME.bpf.c`.
    pub name: &'static str,
    /// What a user may set, in the order of the source.
    pub knobs: &'static [Knob],
    /// What it counts, in the order of the source.
    pub statistics: &'static [Statistic],
    /// Which processes it may be told of.
    pub(crate) lists: &'static [List],
    pub(crate) object: &'static [u8],
    /// Its variables and their sizes.
    pub(crate) variables: &'static [(&'static str, usize)],
    /// What it calls.
    pub(crate) kfuncs: &'static [&'static str],
}

/// See `KNOB()` and `CHOICE()` in `policies/common.bpf.h`.
#[derive(Debug)]
pub struct Knob {
    /// With its unit, if it is a number.
    pub name: &'static str,
    /// What its values from 0 on are called; empty for a number.
    pub names: &'static [&'static str],
    /// The least value.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// What it does.
    pub doc: &'static str,
}

/// See `PID_LIST()` in `policies/common.bpf.h`. A simulated run has no processes before it begins, so
/// nobody can name them.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) name: &'static str,
    /// The choice that needs it, with this value.
    pub(crate) knob: &'static str,
    pub(crate) value: u64,
}

/// See `STAT()` in `policies/common.bpf.h`.
#[derive(Debug)]
pub struct Statistic {
    /// Of what is counted.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

static POLICIES: &[Policy] = include!(concat!(env!("OUT_DIR"), "/catalog.rs"));

impl Policy {
    /// All of this build, by name.
    pub fn all() -> &'static [Policy] {
        POLICIES
    }

    /// The knob one of whose values is called `word`, and that value.
    pub(crate) fn choice(&self, word: &str) -> Result<(&'static str, u64), Error> {
        let value = |knob: &Knob| knob.names.iter().position(|&name| name == word);
        let found = self.knobs.iter().find_map(|knob| Some((knob.name, value(knob)? as u64)));
        found.ok_or_else(|| {
            let names: Vec<&str> = self.knobs.iter().flat_map(|knob| knob.names).copied().collect();
            Error::unknown(
                &format!("value of a knob of {}, where NAME=VALUE is missing,", self.name),
                word,
                &names,
            )
        })
    }

    /// The value of a knob as the user writes it: a number, or a name if its values have names.
    pub fn parse_knob(&self, name: &str, text: &str) -> Result<u64, Error> {
        let knob = self.knob(name)?;
        if knob.names.is_empty() {
            let value = text.parse();
            let value = value
                .map_err(|_| Error::Usage(format!("{}: {name}={text} is not a whole number", self.name)))?;
            return self.check_knob(name, value).map(|()| value);
        }
        let index = knob.names.iter().position(|known| *known == text);
        let value = index.map(|index| index as u64);
        let value =
            value.ok_or_else(|| Error::unknown(&format!("{name} of {}", self.name), text, knob.names))?;
        self.check_knob(name, value).map(|()| value)
    }

    fn knob(&self, name: &str) -> Result<&'static Knob, Error> {
        if let Some(list) = self.lists.iter().find(|list| list.name == name) {
            return Err(self.no_processes(list));
        }
        self.knobs.iter().find(|knob| knob.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.knobs.iter().map(|knob| knob.name).collect();
            Error::unknown(&format!("knob of {}", self.name), name, &names)
        })
    }

    /// Is there such a knob, and may it have this value?
    pub fn check_knob(&self, name: &str, value: u64) -> Result<(), Error> {
        let knob = self.knob(name)?;
        if let Some(list) = self.lists.iter().find(|list| (list.knob, list.value) == (name, value)) {
            return Err(self.no_processes(list));
        }
        if (knob.min..=knob.max).contains(&value) {
            return Ok(());
        }
        let Knob { min, max, .. } = *knob;
        Err(Error::Usage(format!("{}: {name}={value} is not from {min} to {max}", self.name)))
    }

    fn no_processes(&self, list: &List) -> Error {
        Error::Usage(format!(
            "{}: {} names processes, and a simulated run has none before it begins",
            self.name, list.name
        ))
    }
}

impl Knob {
    /// A value as the user writes it.
    pub fn show(&self, value: u64) -> String {
        let name = usize::try_from(value).ok().and_then(|value| self.names.get(value));
        name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_describes_itself() {
        let flsched = Policy::all().iter().find(|policy| policy.name == "flsched").unwrap();
        let slice = flsched.knobs.iter().find(|knob| knob.name == "slice_us").unwrap();
        assert_eq!((slice.min, slice.max), (1000, 10_000_000));
        assert!(slice.doc.contains("turn of a task"));
        assert_eq!(flsched.statistics[0].name, "idle_own");
        assert!(flsched.kfuncs.contains(&"scx_bpf_dsq_insert"));
        assert!(flsched.variables.contains(&("nr_groups", 8)));
    }

    #[test]
    fn nobody_can_name_processes() {
        let rr2 = Policy::all().iter().find(|policy| policy.name == "rr2").unwrap();
        assert_eq!(rr2.parse_knob("group_by", "cgroup").unwrap(), 1);
        for (name, value) in [("pids", "12+34"), ("group_by", "pids")] {
            let error = rr2.parse_knob(name, value).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains("pids names processes"), "{error}");
        }
    }
}
