//! The parameters after a workload's name, separated by colons; those that are left out have a default.
use crate::{UsageError, number};
use std::ops::RangeInclusive;

/// What sizes that are left out are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sizes {
    /// A program on a machine with this number of CPUs.
    Program { cpus: u64 },
    /// A model, whatever the machine.
    Model,
}

/// The words not yet read.
pub(super) struct Parameters<'a> {
    form: &'a str,
    rest: &'a str,
    sizes: Sizes,
}

impl<'a> Parameters<'a> {
    /// `form` is the whole as users read it: `hackbench:MODE:GROUPS:LOOPS`; `text` is what follows the name.
    pub(super) fn new(form: &'a str, text: &'a str, sizes: Sizes) -> Self {
        Self { form, rest: text, sizes }
    }

    /// A default: for a program on a machine with a number of CPUs, and for a model.
    pub(super) fn default(&self, program: impl FnOnce(u64) -> u64, model: u64) -> u64 {
        match self.sizes {
            Sizes::Program { cpus } => program(cpus),
            Sizes::Model => model,
        }
    }

    /// The next word as it is; `None` for an empty one.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.rest.split_once(':').unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    /// All that is left, colons included.
    pub(super) fn take(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// The same, as a file's name.
    pub(super) fn file(&mut self) -> Result<&'a str, UsageError> {
        match self.take() {
            "" => Err(UsageError(format!("{}: FILE is missing", self.name()))),
            path => Ok(path),
        }
    }

    /// The next word, which is the name of one of these; the first if it is left out.
    pub(super) fn choice<T: Copy>(&mut self, what: &str, choices: &[(&str, T)]) -> Result<T, UsageError> {
        let word = self.word().unwrap_or(choices[0].0);
        let found = choices.iter().find(|(name, _)| *name == word);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            UsageError::unknown(what, word, &names)
        })
    }

    /// The next word as a whole number within `range`.
    pub(super) fn number(
        &mut self,
        what: &str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, UsageError> {
        match self.word() {
            Some(word) => number(&format!("{} {what}", self.name()), word, range),
            None => Ok(default),
        }
    }

    /// Nothing may be left.
    pub(super) fn end(mut self) -> Result<(), UsageError> {
        while !self.rest.is_empty() {
            if let Some(extra) = self.word() {
                let (name, form) = (self.name(), self.form);
                return Err(UsageError(format!("{name}: `{extra}` is one parameter too many ({form})")));
            }
        }
        Ok(())
    }

    /// The words before the parameters, which are in capitals.
    fn name(&self) -> &'a str {
        let parameters = self.form.match_indices(':').find(|(at, _)| {
            let next = self.form[at + 1..].chars().next();
            next.is_some_and(|c| c.is_ascii_uppercase() || c == '{')
        });
        parameters.map_or(self.form, |(at, _)| &self.form[..at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_errors_with_names() {
        let read = |text| Parameters::new("work:A:B", text, Sizes::Model);
        let mut parameters = read("7");
        assert_eq!(parameters.number("A", 1, 1..=9), Ok(7));
        assert_eq!(parameters.number("B", 3, 1..=9), Ok(3));
        assert_eq!(parameters.end(), Ok(()));
        let mut parameters = read("x:y");
        assert!(parameters.number("A", 1, 1..=9).unwrap_err().to_string().starts_with("work A: `x`"));
        let error = parameters.end().unwrap_err().to_string();
        assert_eq!(error, "work: `y` is one parameter too many (work:A:B)");
    }

    #[test]
    fn a_word_in_the_middle_may_be_left_out() {
        let mut parameters = Parameters::new("work:A:B", ":7:", Sizes::Program { cpus: 3 });
        let default = parameters.default(|cpus| 2 * cpus, 1);
        assert_eq!(parameters.number("A", default, 1..=9), Ok(6));
        assert_eq!(parameters.choice("B", &[("6", 'a'), ("7", 'b')]), Ok('b'));
        assert_eq!(parameters.end(), Ok(()));
    }
}
