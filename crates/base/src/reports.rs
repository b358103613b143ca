//! Reports in files. A file says first what it is and which version of its format it has. Then come its fields, with one
//! line for each row: so it is small, and two versions of it can be compared line by line.
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Value};
use std::io;

/// What fits into a line is not divided, in bytes.
const FITS: usize = 100;
/// Larger whole numbers are not exact as floating-point numbers.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;
/// Files of this version have no kind yet.
const WITHOUT_KIND: u32 = 1;

/// The fields of a report, by name.
pub type Fields = Map<String, Value>;

/// A report that is kept in a file.
pub trait Kept: Serialize + DeserializeOwned {
    /// What its file says it is.
    const KIND: &'static str;
    /// The version of its format. It changes when a reader of the old one could be misled.
    const VERSION: u32;

    /// The fields of a file that has no kind, with the names that they have now.
    fn renamed(old: Fields) -> Fields {
        old
    }
}

/// With another name of a field, for [`Kept::renamed`].
pub fn renamed(mut old: Fields, name: &str, now: &str) -> Fields {
    if let Some(value) = old.remove(name) {
        old.insert(now.into(), value);
    }
    old
}

/// What is wrong with a file. The text continues a sentence that begins with the name of the file.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Half a file, or another format.
    #[error("is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// A report of something else.
    #[error("is a report of kind `{found}`, not `{wanted}`")]
    OtherKind {
        /// What the file says.
        found: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Written by a newer program.
    #[error("has version {found} of the format of `{kind}`, this program reads 1 to {known}")]
    Version {
        /// What the report is.
        kind: &'static str,
        /// What the file says; empty: nothing.
        found: String,
        /// The newest one that is known here.
        known: u32,
    },
    /// Fields are missing, or are not what they should be.
    #[error("is not a report of kind `{kind}`: {error}")]
    Fields {
        /// What was asked for.
        kind: &'static str,
        /// Names the field.
        error: serde_json::Error,
    },
}

/// What the file says it is; `None`: nothing, as files of version 1.
pub fn kind_of(bytes: &[u8]) -> Result<Option<String>, Unreadable> {
    Head::of(bytes, "report").map(|head| head.kind)
}

/// The report in a file.
pub fn read<T: Kept>(bytes: &[u8]) -> Result<T, Unreadable> {
    let fields = |error| Unreadable::Fields { kind: T::KIND, error };
    let head = Head::of(bytes, T::KIND)?;
    match head.kind {
        Some(found) if found != T::KIND => Err(Unreadable::OtherKind { found, wanted: T::KIND }),
        Some(_) => {
            head.check(1..=T::VERSION, T::KIND)?;
            serde_json::from_slice(bytes).map_err(fields)
        }
        None => {
            // In some reports the version was a program's, and a text.
            if head.version.is_number() {
                head.check(WITHOUT_KIND..=WITHOUT_KIND, T::KIND)?;
            }
            let old: Fields = serde_json::from_slice(bytes).map_err(fields)?;
            serde_json::from_value(T::renamed(old).into()).map_err(fields)
        }
    }
}

/// The file of a report.
pub fn bytes<T: Kept>(report: &T) -> io::Result<Vec<u8>> {
    let mut compact = Vec::new();
    InFile { kind: T::KIND, version: T::VERSION, report }
        .serialize(&mut Serializer::with_formatter(&mut compact, ShortNumbers))?;
    let compact = String::from_utf8(compact).map_err(io::Error::other)?;
    let mut text = String::new();
    lay_out(&mut text, &compact, 0);
    text.push('\n');
    Ok(text.into_bytes())
}

#[derive(Serialize)]
struct InFile<'a, T> {
    kind: &'static str,
    version: u32,
    #[serde(flatten)]
    report: &'a T,
}

#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    #[serde(default)]
    version: Value,
}

impl Head {
    fn of(bytes: &[u8], kind: &'static str) -> Result<Self, Unreadable> {
        serde_json::from_slice(bytes).map_err(|error| match error.classify() {
            Category::Data => Unreadable::Fields { kind, error },
            Category::Io | Category::Syntax | Category::Eof => Unreadable::NotJson(error),
        })
    }

    fn check(&self, known: std::ops::RangeInclusive<u32>, kind: &'static str) -> Result<(), Unreadable> {
        let version = self.version.as_u64().and_then(|it| u32::try_from(it).ok());
        match version.is_some_and(|it| known.contains(&it)) {
            true => Ok(()),
            false => Err(Unreadable::Version { kind, found: self.version.to_string(), known: *known.end() }),
        }
    }
}

/// `62529` instead of `62529.0`: a reader that expects a fraction reads both.
struct ShortNumbers;

impl Formatter for ShortNumbers {
    fn write_f64<W: io::Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        let is_whole = value.fract() == 0.0 && value.abs() < MOST_EXACT && !value.is_sign_negative();
        match is_whole {
            true => write!(out, "{value:.0}"),
            false => CompactFormatter.write_f64(out, value),
        }
    }
}

/// Each field on a line, and each member of a field that does not fit into one; below that everything is on one line.
fn lay_out(out: &mut String, text: &str, depth: usize) {
    let is_divided = match depth {
        0 => text.len() > "{}".len(),
        1 => text.starts_with(['{', '[']) && text.len() > FITS,
        _ => false,
    };
    if !is_divided {
        out.push_str(text);
        return;
    }
    let (open, inside) = text.split_at(1);
    let (inside, close) = inside.split_at(inside.len() - 1);
    out.push_str(open);
    let indent = |depth: usize| "  ".repeat(depth);
    for (index, member) in split(inside, b',').into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        out.push_str(&format!("{comma}\n{}", indent(depth + 1)));
        let value = match (open, &split(member, b':')[..]) {
            ("{", [name, ..]) => {
                out.push_str(name);
                out.push_str(": ");
                &member[name.len() + 1..]
            }
            _ => member,
        };
        lay_out(out, value, depth + 1);
    }
    out.push_str(&format!("\n{}{close}", indent(depth)));
}

/// The parts between separators that are neither in a text nor in a list or an object.
fn split(json: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut depth, mut in_text, mut is_escaped) = (0, false, false);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ if byte == separator && depth == 0 => {
                parts.push(&json[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&json[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Report {
        program_version: String,
        median: f64,
        rows: Vec<Row>,
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        more: Map<String, Value>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Row {
        name: String,
        values: Vec<f64>,
    }

    impl Kept for Report {
        const KIND: &'static str = "test";
        const VERSION: u32 = 3;

        fn renamed(old: Fields) -> Fields {
            super::renamed(old, "version", "program_version")
        }
    }

    fn report(name: &str) -> Report {
        let row = Row { name: name.into(), values: vec![0.1 + 0.2, 1e-9, 2.0, -0.0, 1e300] };
        Report {
            program_version: "0.1.0".into(),
            median: 62529.0,
            rows: vec![row.clone(), row],
            more: Map::new(),
        }
    }

    fn text(report: &Report) -> String {
        String::from_utf8(bytes(report).unwrap()).unwrap()
    }

    #[test]
    fn a_row_is_a_line() {
        let row = r#"    {"name":"a","values":[0.30000000000000004,1e-9,2,-0.0,1e+300]}"#;
        let head = "{\n  \"kind\": \"test\",\n  \"version\": 3,\n  \"program_version\": \"0.1.0\",\n  \"median\": 62529,\n";
        assert_eq!(text(&report("a")), format!("{head}  \"rows\": [\n{row},\n{row}\n  ]\n}}\n"));
        let few = Report { rows: Vec::new(), ..report("a") };
        assert_eq!(text(&few), format!("{head}  \"rows\": []\n}}\n"));
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        for name in ["a", "", "a,b:c", "\"quoted\", {\"x\": [", "back\\slash\\\"", "ü – 語\n\u{7}", "]}"]
        {
            let mut report = report(name);
            report.more.insert(format!("{name}: {name}"), vec![name; 40].into());
            let written = bytes(&report).unwrap();
            let again: Report = read(&written).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again, report);
            assert_eq!(again.rows[0].values[0].to_bits(), (0.1_f64 + 0.2).to_bits());
            assert!(again.rows[0].values[3].is_sign_negative());
            assert_eq!(bytes(&again).unwrap(), written);
        }
    }

    #[test]
    fn files_without_a_kind_are_of_version_1() {
        let old = r#"{ "version": "0.1.0", "median": 1.0, "rows": [] }"#;
        let read: Report = super::read(old.as_bytes()).unwrap();
        assert_eq!((read.program_version.as_str(), read.median), ("0.1.0", 1.0));
        assert_eq!(kind_of(old.as_bytes()).unwrap(), None);
        assert_eq!(kind_of(&bytes(&read).unwrap()).unwrap().as_deref(), Some("test"));
    }

    #[test]
    fn says_what_is_wrong_with_a_file() {
        let error = |text: &str| read::<Report>(text.as_bytes()).unwrap_err().to_string();
        assert!(error("{").starts_with("is not JSON: EOF"));
        assert_eq!(error(r#"{"kind": "other", "version": 3}"#), "is a report of kind `other`, not `test`");
        for (version, found) in [("4", "4"), ("0", "0"), ("1.5", "1.5"), ("\"3\"", "\"3\""), ("null", "null")]
        {
            let said = error(&format!(r#"{{"kind": "test", "version": {version}}}"#));
            assert_eq!(
                said,
                format!("has version {found} of the format of `test`, this program reads 1 to 3")
            );
        }
        assert!(error(r#"{"kind": "test"}"#).contains("has version null"));
        assert!(error(r#"{"version": 2}"#).contains("has version 2"));
        let missing = error(r#"{"kind": "test", "version": 3}"#);
        assert!(missing.starts_with("is not a report of kind `test`: missing field `program_version`"));
        assert!(error(r#"{"kind": 7}"#).starts_with("is not a report of kind `test`: invalid type"));
        assert!(error("[1]").starts_with("is not a report of kind `test`"));
    }
}
