//! JSON with line numbers, in which members of the same name stay apart and in their order.
use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
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

/// Plain JSON of what rt-app and its `workgen` accept beyond it: comments, a comma before a closing bracket, and names
/// without a value, which get an empty string. Every line keeps its number.
pub(super) fn strict(text: &str) -> Result<String, String> {
    let options = ScannerOptions {
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let mut scanner = Scanner::new(text, &options);
    let mut result = String::with_capacity(text.len());
    // Where a comma stands that may be superfluous, and whether a name waits for its value.
    let (mut comma, mut is_name, mut copied) = (None, false, 0);
    let mut brackets = Vec::new();
    while let Some(token) = scanner.scan().map_err(|error| error.to_string())? {
        result.push_str(&text[copied..scanner.token_start()]);
        copied = scanner.token_end();
        let written = &text[scanner.token_start()..copied];
        if let Token::CommentLine(_) | Token::CommentBlock(_) = token {
            result.extend(written.chars().filter(|it| *it == '\n'));
            continue;
        }
        let closes = matches!(token, Token::CloseBrace | Token::CloseBracket);
        if is_name && (closes || token == Token::Comma) {
            result.push_str(": \"\"");
        }
        if let Some(at) = comma.take().filter(|_| closes) {
            result.replace_range(at..at + 1, " ");
        }
        let begins = matches!(result.trim_end().chars().next_back(), Some('{' | ','));
        is_name = begins && brackets.last() == Some(&Token::OpenBrace) && matches!(token, Token::String(_));
        if token == Token::Comma {
            comma = Some(result.len());
        } else if closes {
            brackets.pop();
        } else if matches!(token, Token::OpenBrace | Token::OpenBracket) {
            brackets.push(token);
        }
        result.push_str(written);
    }
    result.push_str(&text[copied..]);
    Ok(result)
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
    fn excerpt(&self) -> String {
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
    fn becomes_plain_json_line_by_line() {
        for (loose, plain) in [
            ("{ \"a\" : 1, }", "{ \"a\" : 1  }"),
            ("{\"a\": [1, 2,\n], // x\n}", "{\"a\": [1, 2 \n]  \n}"),
            ("{\"a,}\", \"b\" /* x\n */}", "{\"a,}\": \"\", \"b\" \n: \"\"}"),
            ("[\"a\", \"b//\", { \"c\": [\"d\"] }]", "[\"a\", \"b//\", { \"c\": [\"d\"] }]"),
            ("{\"a\": \"\\\"/*\"}\n", "{\"a\": \"\\\"/*\"}\n"),
        ] {
            assert_eq!(strict(loose).unwrap(), plain);
        }
        for bad in ["{ \"a\": \"b }", "{ 'a': 1 }", "{ \"a\": 0x1 }", "/* "] {
            let error = strict(bad).unwrap_err();
            assert!(error.contains("line 1"), "{error}");
        }
        assert!(Node::root(&strict("{ ,, }").unwrap()).is_err());
    }

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
