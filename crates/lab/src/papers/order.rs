//! An order that a paper describes without figures: `flsched = fifo = rr < cfs`.
use std::fmt;

/// Groups, the least first.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// Each less than the next.
    pub groups: Vec<Group>,
}

/// A part of an order between two ` < `.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// At least one.
    pub items: Vec<Item>,
    pub together: Together,
}

/// A relation within a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// `a = b`: about equal.
    Equal,
    /// `a, b`: nothing is said.
    Open,
}

/// A value's name, or a fixed number.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Name(String),
    Number(f64),
}

impl Order {
    /// Reads it; or what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let groups = text.split(" < ").map(group).collect::<Result<Vec<_>, _>>();
        let groups = groups.map_err(|what| format!("order `{text}`: {what}"))?;
        match groups.as_slice() {
            [one] if one.together == Together::Open => {
                Err(format!("order `{text}`: it needs ` < ` or ` = `, with spaces around"))
            }
            _ => Ok(Self { groups }),
        }
    }

    /// All names in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| &group.items).filter_map(|item| match item {
            Item::Name(name) => Some(name.as_str()),
            Item::Number(_) => None,
        })
    }
}

fn group(text: &str) -> Result<Group, String> {
    let together = match (text.contains(" = "), text.contains(", ")) {
        (true, true) => return Err(format!("`{text}` has both ` = ` and `, `")),
        (true, false) => Together::Equal,
        (false, _) => Together::Open,
    };
    let separator = if together == Together::Equal { " = " } else { ", " };
    let item = |word: &str| match word.trim() {
        "" => Err("a name is missing".to_string()),
        word => Ok(word.parse().map_or_else(|_| Item::Name(word.into()), Item::Number)),
    };
    Ok(Group { items: text.split(separator).map(item).collect::<Result<_, _>>()?, together })
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(out),
            Self::Number(number) => number.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_groups() {
        let order = Order::parse("is < 1 < bt, smove:strategy=off").unwrap();
        let shape: Vec<(usize, Together)> =
            order.groups.iter().map(|it| (it.items.len(), it.together)).collect();
        assert_eq!(shape, [(1, Together::Open), (1, Together::Open), (2, Together::Open)]);
        assert_eq!(order.names().collect::<Vec<_>>(), ["is", "bt", "smove:strategy=off"]);
        assert_eq!(Order::parse("a = b").unwrap().groups[0].together, Together::Equal);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, what) in [
            ("a", "needs ` < ` or ` = `"),
            ("a<b", "needs ` < ` or ` = `"),
            ("a = b, c < d", "has both"),
            ("a <  < b", "a name is missing"),
        ] {
            assert!(Order::parse(text).unwrap_err().contains(what), "{text}");
        }
    }
}
