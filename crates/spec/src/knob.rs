//! What a policy lets its user set, and what it counts: `KNOB()`, `CHOICE()` and `STAT()` of
//! `policies/common.bpf.h`.
use crate::{UsageError, number};
use serde::Serialize;

/// An integer, or one of several names, that may be set before the policy starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// For a number, the name ends in its unit.
    pub name: String,
    /// Its description, with the unit.
    pub doc: String,
    /// The least value, in the unit of its name.
    pub min: u64,
    /// The greatest value, in the same unit.
    pub max: u64,
    /// Value if not set.
    pub default: u64,
    /// The names of the values from `min` on; empty for a number.
    pub names: Vec<String>,
}

/// An event that the policy counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statistic {
    /// Its name, with the unit last.
    pub name: String,
    /// Which event is counted.
    pub doc: String,
}

impl Knob {
    /// Reads a tag `knob MIN MAX DOC` or `choice FIRST SECOND THIRD: DOC`, with its variable's name and
    /// initial value; `None`: the tag is neither.
    pub(crate) fn parse_tag(tag: &str, name: &str, default: u64) -> Option<Self> {
        let (name, knob) = (name.to_owned(), tag.strip_prefix("knob "));
        if let Some(rest) = knob {
            let mut words = rest.splitn(3, ' ');
            let min = words.next()?.parse().ok()?;
            let max = words.next()?.parse().ok()?;
            return Some(Self { name, doc: words.next()?.to_owned(), min, max, default, names: Vec::new() });
        }
        let (names, doc) = tag.strip_prefix("choice ")?.split_once(": ")?;
        let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        let max = names.len().checked_sub(1)? as u64;
        Some(Self { name, doc: doc.to_owned(), min: 0, max, default, names })
    }

    /// Reads a value as the user writes it.
    pub fn parse(&self, text: &str) -> Result<u64, UsageError> {
        if self.names.is_empty() {
            let value = number(&self.name, text, self.min..=self.max);
            return value.map_err(|UsageError(why)| UsageError(format!("{why} ({})", self.doc)));
        }
        self.value_of(text).ok_or_else(|| UsageError::unknown(&self.name, text, &self.names))
    }

    /// The value of that name.
    pub(crate) fn value_of(&self, name: &str) -> Option<u64> {
        self.names.iter().position(|known| known == name).map(|index| index as u64)
    }

    /// A value as the user writes it.
    pub fn show(&self, value: u64) -> String {
        let name = usize::try_from(value).ok().and_then(|value| self.names.get(value));
        name.cloned().unwrap_or_else(|| value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_range() {
        let knob = Knob::parse_tag("knob 1 9 milliseconds of something", "wait_ms", 3).unwrap();
        assert_eq!((knob.parse("9"), knob.show(9)), (Ok(9), "9".to_owned()));
        let error = knob.parse("10").unwrap_err().to_string();
        assert_eq!(error, "wait_ms: `10` is not a whole number from 1 to 9 (milliseconds of something)");
        assert!(Knob::parse_tag("stat events", "wait_ms", 3).is_none());
    }

    #[test]
    fn choices_are_known_by_name() {
        let tag = "choice first second: which of the two: doc";
        let knob = Knob::parse_tag(tag, "strategy", 0).unwrap();
        assert_eq!((knob.min, knob.max, knob.doc.as_str()), (0, 1, "which of the two: doc"));
        assert_eq!(knob.parse("second"), Ok(1));
        assert_eq!((knob.show(0), knob.show(1)), ("first".to_owned(), "second".to_owned()));
        for wrong in ["secnd", "1", ""] {
            let error = knob.parse(wrong).unwrap_err().to_string();
            assert!(error.contains("(valid: first, second)"), "{error}");
        }
        assert!(knob.parse("secnd").unwrap_err().to_string().contains("did you mean `second`?"));
        assert!(Knob::parse_tag("choice : nothing to choose", "strategy", 0).is_none());
    }
}
