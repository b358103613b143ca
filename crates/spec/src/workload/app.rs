//! A program that people know, from the catalogue of applications.
use super::parameters::{Parameters, Sizes};
use crate::UsageError;
use crate::app::{AppFile, Parameter, Values};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How it is named.
pub(super) const FORM: &str = "app:NAME|FILE.toml[:PARAMETER…]";

/// `app:NAME[:PARAMETER…]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// As in `apps/NAME.toml`, or the path of a file of the user's own.
    pub name: String,
    /// A value for each of its parameters.
    pub values: Vec<String>,
    /// The folder with its input; empty until that has been made.
    pub input: PathBuf,
}

impl App {
    pub(super) fn read(words: &mut Parameters<'_>) -> Result<Self, UsageError> {
        let file = AppFile::find(words.word().unwrap_or_default())?;
        let cpus = words.default(|cpus| cpus, 1);
        let mut words = Parameters::new(&file.form, words.take(), Sizes::Program { cpus });
        let values: Result<_, _> = file.parameters.iter().map(|it| value(it, cpus, &mut words)).collect();
        let app = Self { name: file.name.clone(), values: values?, input: PathBuf::new() };
        words.end()?;
        Ok(app)
    }

    /// What the catalogue says of it.
    pub fn file(&self) -> Result<&'static AppFile, UsageError> {
        AppFile::find(&self.name)
    }
}

fn value(parameter: &Parameter, cpus: u64, words: &mut Parameters<'_>) -> Result<String, UsageError> {
    let name = &parameter.name;
    match &parameter.values {
        Values::PerCpu { per_cpu, to } => {
            words.number(name, (per_cpu * cpus).min(*to), 1..=*to).map(|it| it.to_string())
        }
        Values::Number { default, to } => words.number(name, *default, 1..=*to).map(|it| it.to_string()),
        Values::Choice { choices } => {
            let choices: Vec<_> = choices.iter().map(|it| (it.as_str(), it)).collect();
            words.choice(name, &choices).cloned()
        }
    }
}

impl fmt::Display for App {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "app:{}", self.name)?;
        self.values.iter().try_for_each(|value| write!(out, ":{value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Program;

    fn name(text: &str, cpus: u32) -> Result<String, String> {
        Program::sized(text, cpus).map(|it| it.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_grow_with_the_cpus() {
        assert_eq!(name("app:ggml", 4).unwrap(), "app:ggml:8:600");
        assert_eq!(name("app:ggml", 16).unwrap(), "app:ggml:32:600");
        assert_eq!(name("app:ggml:3:7", 16).unwrap(), "app:ggml:3:7");
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |text| name(text, 4).unwrap_err();
        assert!(error("app").starts_with("app: NAME is missing"), "{}", error("app"));
        assert!(error("app:ggml:0").contains("app:ggml THREADS: `0`"), "{}", error("app:ggml:0"));
        let many = error("app:ggml:1:1:1");
        assert!(many.contains("one parameter too many (app:ggml:THREADS:STEPS)"), "{many}");
    }

    #[test]
    fn each_is_read_as_it_is_printed() {
        for app in crate::app::AppFile::all() {
            let text = name(&format!("app:{}", app.name), 8).unwrap();
            assert_eq!(name(&text, 4).unwrap(), text);
        }
    }
}
