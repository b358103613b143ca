//! Numbers with their source and their certainty.
use serde::{Deserialize, Serialize};
use std::ops::{Deref, Range};
use strum::{IntoStaticStr, VariantArray};
use toml::Spanned;

/// How sure a number is; the surest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Certainty {
    /// Printed in a publication or a data sheet.
    Published,
    /// Measured by us.
    Measured,
    /// Derived from something published or measured.
    Inferred,
    /// From experience with such machines.
    Estimated,
    /// Chosen so that a certain result is obtained, which is therefore no evidence.
    Fitted,
}

impl Certainty {
    /// How many there are.
    pub const COUNT: usize = Self::VARIANTS.len();
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// The name in machine files and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A value of a machine's file with its origin, which is for the reader of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    value: Spanned<T>,
    /// Where the value is from.
    pub source: String,
    /// How sure it is.
    pub certainty: Certainty,
}

impl<T> Sourced<T> {
    /// A value that is not from a file.
    pub fn new(value: T, source: impl Into<String>, certainty: Certainty) -> Self {
        Self { value: Spanned::new(0..0, value), source: source.into(), certainty }
    }

    /// A value that has been measured.
    pub(crate) fn measured(value: T, source: impl Into<String>) -> Self {
        Self::new(value, source, Certainty::Measured)
    }

    /// A value that is usual.
    pub(crate) fn estimated(value: T, source: impl Into<String>) -> Self {
        Self::new(value, source, Certainty::Estimated)
    }

    /// The value with its place in the file's text.
    pub(crate) fn spanned(&self) -> &Spanned<T> {
        &self.value
    }

    /// Where the value is in the file's text.
    pub(crate) fn span(&self) -> Range<usize> {
        self.value.span()
    }
}

impl<T> Deref for Sourced<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.get_ref()
    }
}
