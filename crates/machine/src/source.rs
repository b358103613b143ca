//! The text of a machine's file, for errors that name the line.
use crate::Error;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// A file's text, for messages with the place in it.
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) path: &'a str,
}

impl Source<'_> {
    /// `field`, which is at `span`, is wrong.
    pub(crate) fn wrong(&self, span: Range<usize>, field: &str, what: impl AsRef<str>) -> Error {
        let line = self.text[..span.start].lines().count().max(1);
        // A span may begin behind the end of its line's text.
        let line = if self.text[..span.start].ends_with('\n') { line + 1 } else { line };
        Error::usage(format!("{}, line {line}: {field}: {}", self.path, what.as_ref()))
    }

    /// Refuses a number that is not in the range.
    pub(crate) fn within<T>(
        &self,
        field: &str,
        of: &Spanned<T>,
        range: RangeInclusive<T>,
    ) -> Result<(), Error>
    where
        T: Copy + PartialOrd + Display,
    {
        if range.contains(of.get_ref()) {
            return Ok(());
        }
        let what = format!("{} is not from {} to {}", of.get_ref(), range.start(), range.end());
        Err(self.wrong(of.span(), field, what))
    }
}
