//! The file that describes a campaign.
//!
//! ```toml
//! shards = 100
//!
//! [[comparison]]
//! name = "pipes"
//! arguments = "--on sim --schedulers cfs,flsched --workload hackbench:process-pipe:{groups}:20 --runs 500 --seed 1"
//! values = { groups = [50, 100, 200] }
//! ```
//!
//! With values, there is a comparison for each combination of them: `pipes-50`, `pipes-100`, `pipes-200`.
use crate::Error;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The largest number of shards.
pub const MAX_SHARDS: u32 = 100_000;
/// The largest number of comparisons.
const MAX_COMPARISONS: usize = 10_000;

/// What the user wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Campaign {
    /// Number of shards into which the simulator's runs are divided.
    pub shards: u32,
    /// Each has one report.
    pub comparisons: Vec<Comparison>,
}

/// A comparison whose values are filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The name of its report.
    pub name: String,
    /// What follows `flsched compare`.
    pub arguments: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InFile {
    shards: u32,
    comparison: Vec<ComparisonInFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ComparisonInFile {
    name: String,
    arguments: String,
    #[serde(default)]
    values: BTreeMap<String, Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Whole(i64),
    Number(f64),
    Word(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Whole(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Word(value) => value.clone(),
        }
    }
}

impl Campaign {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        Self::parse(&text).map_err(|message| Error::wrong(path, message))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: InFile = toml::from_str(text).map_err(|error| error.to_string())?;
        if !(1..=MAX_SHARDS).contains(&file.shards) {
            return Err(format!("shards = {}: must be from 1 to {MAX_SHARDS}", file.shards));
        }
        let mut comparisons = Vec::new();
        for comparison in &file.comparison {
            comparisons.extend(comparison.expand()?);
            if comparisons.len() > MAX_COMPARISONS {
                return Err(format!(
                    "more than {MAX_COMPARISONS} comparisons: fewer values, or two campaigns"
                ));
            }
        }
        if comparisons.is_empty() {
            return Err("no [[comparison]]".into());
        }
        let mut names = BTreeSet::new();
        match comparisons.iter().find(|comparison| !names.insert(&comparison.name)) {
            Some(twice) => Err(format!("comparison `{}` is there twice", twice.name)),
            None => Ok(Self { shards: file.shards, comparisons }),
        }
    }
}

impl ComparisonInFile {
    /// One for each combination of values, the last name's values changing first.
    fn expand(&self) -> Result<Vec<Comparison>, String> {
        let name = &self.name;
        let mut all = vec![(name.clone(), self.arguments.clone())];
        for (key, values) in &self.values {
            let place = format!("{{{key}}}");
            if !self.arguments.contains(&place) {
                return Err(format!("comparison `{name}`: {place} is not in its arguments"));
            }
            if values.is_empty() {
                return Err(format!("comparison `{name}`: `{key}` has no values"));
            }
            let filled = |(name, arguments): &(String, String)| {
                let (name, arguments, place) = (name.clone(), arguments.clone(), place.clone());
                let texts = values.iter().map(Value::text);
                let fill = move |text: String| (format!("{name}-{text}"), arguments.replace(&place, &text));
                texts.map(fill).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(filled).collect();
        }
        all.into_iter()
            .map(|(name, arguments)| {
                check_name(&name)?;
                let arguments = shell_words::split(&arguments)
                    .map_err(|error| format!("comparison `{name}`: arguments: {error}"))?;
                Ok(Comparison { name, arguments })
            })
            .collect()
    }
}

/// Refuses a name that cannot be that of a report's file.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(format!(
            "`{name}` names a report's file: use letters, digits, `-`, `_` and `.` in names and values"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPES: &str = r#"
        shards = 7
        [[comparison]]
        name = "pipes"
        arguments = "--workload hackbench:process-pipe:{groups}:{loops} --seed 1"
        values = { groups = [50, 100], loops = [1, 2] }
        [[comparison]]
        name = "one"
        arguments = "--workload 'a b'"
    "#;

    #[test]
    fn every_combination_is_a_comparison() {
        let campaign = Campaign::parse(PIPES).unwrap();
        let names: Vec<_> = campaign.comparisons.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["pipes-50-1", "pipes-50-2", "pipes-100-1", "pipes-100-2", "one"]);
        assert_eq!(campaign.comparisons[1].arguments[1], "hackbench:process-pipe:50:2");
        assert_eq!(campaign.comparisons[4].arguments, ["--workload", "a b"]);
        assert_eq!(campaign.shards, 7);
    }

    #[test]
    fn what_is_not_possible_is_refused() {
        let error = |from: &str, to: &str| Campaign::parse(&PIPES.replace(from, to)).unwrap_err();
        assert!(error("shards = 7", "shards = 0").contains("from 1 to 100000"));
        assert!(error("shards = 7", "shrads = 7").contains("shrads"));
        assert!(error("{loops}", "3").contains("{loops} is not in its arguments"));
        assert!(error("[1, 2]", "[]").contains("`loops` has no values"));
        assert!(error("\"one\"", "\"pipes-50-1\"").contains("there twice"));
        assert!(error("\"one\"", "\"../one\"").contains("names a report's file"));
        assert!(error("'a b'", "'a b").contains("comparison `one`: arguments: missing closing quote"));
    }
}
