//! Lists of processes that a policy may be given: `PID_LIST()` of `policies/common.bpf.h`.
use crate::UsageError;
use serde::Serialize;

/// A list of processes that the user may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PidList {
    /// As in the policy's file.
    pub name: String,
    /// What it is for.
    pub doc: String,
    /// The largest number of processes.
    pub most: usize,
    /// The knob that decides whether the list matters.
    pub knob: String,
    /// The value of `knob` with which it matters.
    pub value: u64,
}

impl PidList {
    /// Reads `pids MOST KNOB VALUE DOC`; `None`: the tag is something else.
    pub(crate) fn parse_tag(tag: &str, name: &str) -> Option<Self> {
        let mut words = tag.strip_prefix("pids ")?.splitn(4, ' ');
        let most = words.next()?.parse().ok()?;
        let knob = words.next()?.to_owned();
        let value = words.next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), doc: words.next()?.to_owned(), most, knob, value })
    }

    /// Reads pids with commas or plus signs between them. The caller checks whether these processes exist.
    pub fn parse(&self, text: &str) -> Result<Vec<u32>, UsageError> {
        let pids: Vec<u32> = text
            .split([',', '+'])
            .map(|word| match word.trim().parse() {
                Ok(pid) if pid > 0 => Ok(pid),
                _ => Err(self.wrong(format!("`{word}` is not a process id, as in 12,34"))),
            })
            .collect::<Result<_, _>>()?;
        match pids.len() > self.most {
            true => Err(self.wrong(format!("{} processes are too many: at most {}", pids.len(), self.most))),
            false => Ok(pids),
        }
    }

    /// An error about this list, with its reason.
    pub fn wrong(&self, why: String) -> UsageError {
        UsageError(format!("{}: {why} ({})", self.name, self.doc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> PidList {
        PidList::parse_tag("pids 2 group_by 2 processes that belong together", "pids").unwrap()
    }

    #[test]
    fn tags() {
        assert_eq!((list().most, list().knob.as_str(), list().value), (2, "group_by", 2));
        assert_eq!(list().doc, "processes that belong together");
        assert!(PidList::parse_tag("knob 1 2 x", "pids").is_none());
    }

    #[test]
    fn reads_numbers() {
        assert_eq!(list().parse("12,1"), Ok(vec![12, 1]));
        assert_eq!(list().parse("12+1"), Ok(vec![12, 1]));
        for (wrong, why) in [("", "not a process id"), ("1,x", "`x`"), ("0", "`0`"), ("1,1,1", "at most 2")] {
            let error = list().parse(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
