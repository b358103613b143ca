//! Errors for invalid words: which word, what is valid, and what was probably meant.
use std::ops::RangeInclusive;

/// The command line names something that does not exist; exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// `what` named `name` is unknown; these are the known ones.
    pub fn unknown(what: &str, name: &str, valid: &[impl AsRef<str>]) -> Self {
        let hint = match nearest(name, valid) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        let valid: Vec<&str> = valid.iter().map(AsRef::as_ref).collect();
        Self(format!("unknown {what} `{name}`{hint} (valid: {})", valid.join(", ")))
    }
}

/// The valid name that is most similar, if it is similar enough for a typing error.
fn nearest<'a>(name: &str, valid: &'a [impl AsRef<str>]) -> Option<&'a str> {
    /// Similarity from 0, nothing in common, to 1, equal.
    const ALIKE: f64 = 0.7;
    valid
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate.as_ref()), candidate.as_ref()))
        .filter(|(alike, _)| *alike > ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// Reads a whole number within `range`. The error names what the number is for.
pub fn number(what: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, UsageError> {
    match text.parse::<u64>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(UsageError(format!(
            "{what}: `{text}` is not a whole number from {} to {}",
            range.start(),
            range.end()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["eevdf", "batch", "fifo", "rr", "flsched"];

    #[test]
    fn names_the_nearest() {
        let text = UsageError::unknown("scheduler", "flsched2", &NAMES).to_string();
        assert_eq!(
            text,
            "unknown scheduler `flsched2`; did you mean `flsched`? \
             (valid: eevdf, batch, fifo, rr, flsched)"
        );
    }

    #[test]
    fn offers_nothing_far_fetched() {
        assert_eq!(nearest("completely-fair", &NAMES), None);
        assert_eq!(nearest("eevfd", &NAMES), Some("eevdf"));
        assert_eq!(nearest("knc", &["knc-31s1p", "ryzen-3400g"]), Some("knc-31s1p"));
    }

    #[test]
    fn number_states_the_range() {
        assert_eq!(number("groups", "4", 1..=10), Ok(4));
        let error = number("groups", "0", 1..=10).unwrap_err().to_string();
        assert_eq!(error, "groups: `0` is not a whole number from 1 to 10");
        assert!(number("groups", "-1", 1..=10).is_err());
        assert!(number("groups", "", 1..=10).is_err());
    }
}
