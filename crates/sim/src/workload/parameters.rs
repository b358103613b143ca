//! What stands after a workload's name, separated by colons; what is left out from the end has a default.
use crate::Error;
use std::ops::RangeInclusive;

/// The words not yet read.
pub(super) struct Parameters<'a> {
    text: &'a str,
    words: std::str::Split<'a, char>,
}

impl<'a> Parameters<'a> {
    /// Of the whole as users write it: its name, and what stands after it.
    pub(super) fn new(text: &'a str) -> (&'a str, Self) {
        let mut words = text.split(':');
        (words.next().unwrap_or_default(), Self { text, words })
    }

    /// The next word as it is.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.words.next().filter(|word| !word.is_empty())
    }

    /// All that is left, colons included: a file's name.
    pub(super) fn rest(&mut self) -> Option<&'a str> {
        let rest = self.text.split_once(':').map(|(_, rest)| rest).filter(|rest| !rest.is_empty());
        self.words.by_ref().for_each(drop);
        rest
    }

    /// The next word, which is one of these.
    pub(super) fn choice(&mut self, what: &str, choices: &[&'static str]) -> Result<&'static str, Error> {
        let word = self.word().unwrap_or(choices[0]);
        choices
            .iter()
            .copied()
            .find(|choice| *choice == word)
            .ok_or_else(|| Error::unknown(what, word, choices))
    }

    /// The next word as a whole number within `range`.
    pub(super) fn number(
        &mut self,
        what: &str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Error> {
        let Some(word) = self.word() else { return Ok(default) };
        word.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            self.wrong(&format!("{what}: {word} is not a whole number from {low} to {high}"))
        })
    }

    /// Nothing may be left.
    pub(super) fn end(mut self) -> Result<(), Error> {
        match self.words.next() {
            Some(word) => Err(self.wrong(&format!("{word} is one parameter too many"))),
            None => Ok(()),
        }
    }

    /// Names the whole.
    pub(super) fn wrong(&self, what: &str) -> Error {
        Error::Usage(format!("{}: {what}", self.text))
    }
}
