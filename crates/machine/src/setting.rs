//! Another value for one entry of a file, for a run: `costs.switch_ns=3000`.
use flsched_spec::UsageError;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use toml_edit::{Document, Item, Value};

/// The certainty of a number that somebody asked for.
const CERTAINTY: &str = "\"estimated\"";

/// An entry of a file in TOML, and its value for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Names of sections and entries with dots between, numbers for the elements of a list.
    pub path: String,
    /// As in the file; text may be without quotation marks.
    pub value: String,
}

impl FromStr for Setting {
    type Err = UsageError;
    fn from_str(text: &str) -> Result<Self, UsageError> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { path: path.trim().into(), value: value.trim().into() })
            }
            _ => Err(UsageError(format!("`{text}` is not PATH=VALUE, such as costs.switch_ns=3000"))),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.path, self.value)
    }
}

/// The text of the file `path` with other values. The lines stay where they are.
///
/// # Errors
/// There is no such entry, or it has values of another kind.
pub fn with_settings(text: &str, path: &str, settings: &[Setting]) -> Result<String, UsageError> {
    let mut text = text.to_owned();
    for setting in settings {
        let document = Document::parse(text.as_str()).map_err(|e| UsageError(format!("{path}: {e}")))?;
        let wrong = |what: UsageError| UsageError(format!("{setting}: {path}: {what}"));
        let mut changes = setting.changes(document.as_item()).map_err(wrong)?;
        // From the end, so that the other places stay right.
        changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
        let mut changed = text.clone();
        for (span, value) in changes {
            changed.replace_range(span, &value);
        }
        text = changed;
    }
    Ok(text)
}

impl Setting {
    /// Which parts of the text become what.
    fn changes(&self, root: &Item) -> Result<Vec<(Range<usize>, String)>, UsageError> {
        let mut changes = Vec::new();
        let mut at = root;
        let mut section = String::from("the file");
        for name in self.path.split('.') {
            // What has a source has its value beside it.
            at = value_of(at, &mut changes);
            let element = name.parse().ok().and_then(|index: usize| at.get(index));
            at = element.or_else(|| at.get(name)).ok_or_else(|| unknown(at, &section, name))?;
            section = format!("`{name}`");
        }
        at = value_of(at, &mut changes);
        let span = at.span().filter(|_| !at.is_table() && !at.is_array_of_tables());
        let span = span.ok_or_else(|| {
            UsageError(format!("{section} is a section; name one of its entries: {}", names(at).join(", ")))
        })?;
        changes.push((span, self.value_like(at)?));
        Ok(changes)
    }

    /// Its value as TOML, if it is of the same kind as the present one.
    fn value_like(&self, present: &Item) -> Result<String, UsageError> {
        let read = self.value.parse::<Value>().ok();
        if let Some(value) = &read
            && value.type_name() == present.type_name()
        {
            return Ok(self.value.clone());
        }
        if present.is_str() {
            return Ok(Value::from(self.value.as_str()).to_string());
        }
        if present.is_inline_table() {
            let names = names(present).join(", ");
            return Err(UsageError(format!("has several values; set one of them: {names}")));
        }
        let now = present.to_string();
        Err(UsageError(format!("expects a value like the present one, {}", now.trim())))
    }
}

/// The value of an entry with a source, whose certainty changes with it; all else is itself.
fn value_of<'a>(item: &'a Item, changes: &mut Vec<(Range<usize>, String)>) -> &'a Item {
    if let Some(span) = item.get("certainty").and_then(Item::span) {
        changes.push((span, CERTAINTY.into()));
    }
    item.get("certainty").and_then(|_| item.get("value")).unwrap_or(item)
}

fn names(item: &Item) -> Vec<&str> {
    item.as_table_like().map(|table| table.iter().map(|(name, _)| name).collect()).unwrap_or_default()
}

fn unknown(at: &Item, section: &str, name: &str) -> UsageError {
    let count = at.as_array().map(toml_edit::Array::len).or(at.as_array_of_tables().map(|it| it.len()));
    match (count, at.is_table_like()) {
        (Some(0), _) => UsageError(format!("{section} is empty")),
        (Some(count), _) => UsageError(format!("{section} has elements 0 to {}, not `{name}`", count - 1)),
        (None, true) => UsageError::unknown(&format!("entry of {section}"), name, &names(at)),
        (None, false) => UsageError(format!("{section} is a value and has no `{name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Certainty, MachineFile};

    const KNC: &str = include_str!("../../../machines/knc-31s1p.toml");

    fn set(settings: &[&str]) -> Result<String, String> {
        let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
        with_settings(KNC, "knc.toml", &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn sets_values_wherever_they_are() {
        let text = set(&[
            "costs.switch_ns=3000",
            "costs.pipe_ns.write = 1",
            "callbacks.flsched.pick=7",
            "smt.3=40",
            "tickless_idle=false",
            "topology.numbering=threads-apart",
            "topology.cores_per_cache=2",
            "tick_hz=250",
        ])
        .unwrap();
        let file = MachineFile::parse(&text, "it").unwrap();
        assert_eq!(*file.costs.switch_ns, 3000);
        assert_eq!(file.costs.pipe_ns.write, 1);
        assert_eq!(file.costs.pipe_ns.read, 4000, "its neighbours stay");
        assert_eq!(*file.smt.unwrap(), [100, 100, 66, 40]);
        assert_eq!((*file.tick_hz, *file.tickless_idle), (250, false));
        assert_eq!(text.lines().count(), KNC.lines().count(), "the lines stay where they are");
    }

    /// A number that was asked for is not what was published.
    #[test]
    fn what_was_asked_for_is_an_estimate() {
        let text = set(&["smt=[100, 90, 60, 50]", "costs.pipe_ns.write=1"]).unwrap();
        let file = MachineFile::parse(&text, "it").unwrap();
        assert_eq!(file.smt.unwrap().certainty, Certainty::Estimated);
        assert_eq!(file.costs.pipe_ns.certainty, Certainty::Estimated);
        assert_eq!(file.costs.syscall_ns.certainty, Certainty::Inferred);
    }

    #[test]
    fn says_what_was_meant() {
        for (setting, words) in [
            ("costs.swich_ns=1", "unknown entry of `costs` `swich_ns`; did you mean `switch_ns`?"),
            ("cost.switch_ns=1", "unknown entry of the file `cost`; did you mean `costs`?"),
            ("costs.switch_ns=fast", "expects a value like the present one, 5500"),
            ("costs.switch_ns=1.5", "expects a value like the present one, 5500"),
            ("costs.switch_ns.core=1", "`switch_ns` is a value and has no `core`"),
            ("costs.pipe_ns=1", "has several values; set one of them: make, write, read"),
            ("costs=1", "`costs` is a section; name one of its entries: switch_ns"),
            ("smt.4=1", "`smt` has elements 0 to 3, not `4`"),
            ("tickless_idle=1", "expects a value like the present one, true"),
        ] {
            let error = set(&[setting]).unwrap_err();
            assert!(error.starts_with(&format!("{setting}: knc.toml: ")), "{error}");
            assert!(error.contains(words), "{words} is not in: {error}");
        }
        for bad in ["costs.switch_ns", "=1", "costs.switch_ns=", ""] {
            assert!(bad.parse::<Setting>().is_err(), "{bad}");
        }
    }
}
