//! What stands after a workload's name, separated by colons; what is left out has a default.
use flsched_spec::{UsageError, number};
use std::ops::RangeInclusive;

/// The words not yet read.
pub(super) struct Parameters<'a> {
    form: &'static str,
    words: Box<dyn Iterator<Item = &'a str> + 'a>,
}

impl<'a> Parameters<'a> {
    /// `form` is the whole as users read it: `hackbench:MODE:GROUPS:LOOPS`.
    pub(super) fn new(form: &'static str, text: &'a str) -> Self {
        Self { form, words: Box::new(text.split(':').filter(|word| !word.is_empty())) }
    }

    /// The next word as it is.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    /// The next word as a whole number within `range`.
    pub(super) fn number(
        &mut self,
        what: &str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, UsageError> {
        match self.words.next() {
            Some(word) => number(&format!("{} {what}", self.name()), word, range),
            None => Ok(default),
        }
    }

    /// Nothing may be left.
    pub(super) fn end(mut self) -> Result<(), UsageError> {
        match self.words.next() {
            Some(extra) => {
                let (name, form) = (self.name(), self.form);
                Err(UsageError(format!("{name}: `{extra}` is one parameter too many ({form})")))
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> &'static str {
        self.form.split(':').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_errors_with_names() {
        let mut parameters = Parameters::new("work:A:B", "7");
        assert_eq!(parameters.number("A", 1, 1..=9), Ok(7));
        assert_eq!(parameters.number("B", 3, 1..=9), Ok(3));
        assert_eq!(parameters.end(), Ok(()));
        let mut parameters = Parameters::new("work:A:B", "x:y");
        assert!(parameters.number("A", 1, 1..=9).unwrap_err().to_string().starts_with("work A: `x`"));
        let error = parameters.end().unwrap_err().to_string();
        assert_eq!(error, "work: `y` is one parameter too many (work:A:B)");
    }
}
