//! The seeds of a campaign.
use std::ops::Range;
use std::str::FromStr;

/// As text `A..B`: from A to B - 1; `A` alone is one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Range<u64>);

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, ""));
        let from: u64 = from.parse().map_err(|_| format!("{text} is not A..B, two whole numbers"))?;
        let to = match to {
            "" if !text.contains("..") => from.checked_add(1),
            _ => to.parse().ok(),
        };
        match to {
            Some(to) if to > from => Ok(Self(from..to)),
            Some(_) => Err(format!("{text} has no seed: B of A..B must be above A")),
            None => Err(format!("{text} is not A..B, two whole numbers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!("0..10".parse(), Ok(Seeds(0..10)));
        assert_eq!("7".parse(), Ok(Seeds(7..8)));
        for bad in ["", "x", "5..5", "6..5", "1..", "..4", "1..2..3", "-1..3", "18446744073709551615"] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }
}
