//! Words that are not valid: say which, what would be, and what was probably meant.
use strsim::damerau_levenshtein;

/// The command line asks for something that does not exist; exit code 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

impl UsageError {
    /// `what` named `name` is unknown; these are the known ones.
    pub fn unknown(what: &str, name: &str, valid: &[String]) -> Self {
        let hint = match nearest(name, valid) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        Self(format!("unknown {what} `{name}`{hint} (valid: {})", valid.join(", ")))
    }
}

/// The valid name that differs least, if it is close enough to be a slip of the finger.
fn nearest<'a>(name: &str, valid: &'a [String]) -> Option<&'a str> {
    let limit = (name.chars().count() / 2).clamp(1, 4);
    valid
        .iter()
        .map(|candidate| (damerau_levenshtein(name, candidate), candidate.as_str()))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Reads a whole number within `range`, naming what it is for when it is not one.
pub(crate) fn number(
    what: &str,
    text: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, UsageError> {
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

    fn names() -> Vec<String> {
        ["eevdf", "batch", "fifo", "rr", "flsched"].map(String::from).to_vec()
    }

    #[test]
    fn names_the_nearest() {
        let text = UsageError::unknown("scheduler", "flsched2", &names()).to_string();
        assert_eq!(
            text,
            "unknown scheduler `flsched2`; did you mean `flsched`? \
             (valid: eevdf, batch, fifo, rr, flsched)"
        );
    }

    #[test]
    fn offers_nothing_far_fetched() {
        assert_eq!(nearest("completely-fair", &names()), None);
        assert_eq!(nearest("eevfd", &names()), Some("eevdf"));
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
