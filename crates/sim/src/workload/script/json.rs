//! JSON with line numbers, in which members of the same name stay apart and in their order.
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A value somewhere in a file.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    whole: &'a str,
    text: &'a str,
    /// The names on the way here.
    pub(super) path: String,
}

/// In the order of the file.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Collect)
    }
}

impl<'a> Node<'a> {
    /// The whole of a text, which is JSON.
    pub(super) fn root(text: &'a str) -> Result<Self, String> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self { whole: text, text: raw.get(), path: String::new() })
    }

    /// Says where, and what was expected.
    pub(super) fn wrong(&self, what: impl fmt::Display) -> String {
        let offset = self.text.as_ptr() as usize - self.whole.as_ptr() as usize;
        let line = self.whole[..offset].matches('\n').count() + 1;
        let path = if self.path.is_empty() { "the whole" } else { &self.path };
        format!("line {line}, {path}: {what}")
    }

    /// As written, shortened.
    pub(super) fn excerpt(&self) -> String {
        let text: String = self.text.chars().take(40).collect();
        if text.len() < self.text.len() { text + "…" } else { text }
    }

    fn expected(&self, what: &str) -> String {
        self.wrong(format!("expected {what}, not {}", self.excerpt()))
    }

    fn inner(&self, name: &str, raw: &'a RawValue) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { whole: self.whole, text: raw.get(), path }
    }

    pub(super) fn members(&self) -> Result<Vec<(String, Node<'a>)>, String> {
        let Members(members) = serde_json::from_str(self.text).map_err(|_| self.expected("an object"))?;
        Ok(members.into_iter().map(|(name, raw)| (name.to_string(), self.inner(&name, raw))).collect())
    }

    pub(super) fn elements(&self) -> Result<Vec<Node<'a>>, String> {
        let raw: Vec<&RawValue> = serde_json::from_str(self.text).map_err(|_| self.expected("an array"))?;
        Ok(raw.into_iter().enumerate().map(|(at, raw)| self.inner(&format!("[{at}]"), raw)).collect())
    }

    pub(super) fn integer(&self) -> Result<i64, String> {
        serde_json::from_str(self.text).map_err(|_| self.expected("a whole number"))
    }

    /// From 0.
    pub(super) fn count(&self) -> Result<u64, String> {
        serde_json::from_str(self.text).map_err(|_| self.expected("a whole number from 0"))
    }

    pub(super) fn string(&self) -> Result<String, String> {
        serde_json::from_str(self.text).map_err(|_| self.expected("a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_members_of_one_name_and_knows_lines() {
        let text = "{\n  \"run\": 5,\n  \"run\": {\n    \"x\": \"y\"\n  }\n}";
        let root = Node::root(text).unwrap();
        let members = root.members().unwrap();
        assert_eq!(members.len(), 2);
        assert_eq!(members[0].1.count(), Ok(5));
        let inner = &members[1].1.members().unwrap()[0].1;
        assert_eq!(inner.count().unwrap_err(), "line 4, run.x: expected a whole number from 0, not \"y\"");
        assert!(Node::root("{\n\"a\": }").unwrap_err().contains("line 2"));
    }
}
