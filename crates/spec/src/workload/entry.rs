//! Tables of workloads: programs have one, and models another.
use super::parameters::Parameters;
use crate::UsageError;

/// How something is named, what it is, and how the name is read.
pub(super) struct Entry<T> {
    pub form: &'static str,
    pub what: &'static str,
    pub read: fn(&mut Parameters<'_>) -> Result<T, UsageError>,
}

impl<T> Entry<T> {
    fn name(&self) -> &'static str {
        self.form.split(':').next().unwrap_or(self.form)
    }
}

/// The entry of that name, and the text after the name.
pub(super) fn find<'a, T>(
    entries: &'static [Entry<T>],
    text: &'a str,
) -> Result<(&'static Entry<T>, &'a str), Unknown> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    match entries.iter().find(|entry| entry.name() == name) {
        Some(entry) => Ok((entry, rest)),
        None => Err(Unknown::new(name, entries)),
    }
}

/// No entry has that name.
pub(super) struct Unknown {
    name: String,
    pub message: String,
}

impl Unknown {
    fn new<T>(name: &str, entries: &[Entry<T>]) -> Self {
        let mut names: Vec<&str> = entries.iter().map(Entry::name).collect();
        names.dedup();
        let UsageError(message) = UsageError::unknown("workload", name, &names);
        Self { name: name.into(), message }
    }

    /// Whether another table has this name.
    pub fn is_in<T>(&self, others: &[Entry<T>]) -> bool {
        others.iter().any(|entry| entry.name() == self.name)
    }
}
