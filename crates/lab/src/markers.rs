//! Blocks in a document: `<!-- results: KIND key=value … -->`, what is rendered, `<!-- /results -->`.
use flsched_spec::UsageError;
use std::ops::Range;

const OPEN: &str = "<!-- results:";
const CLOSE: &str = "<!-- /results -->";

/// A pair of markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Of the opening marker, from 1.
    pub line: usize,
    /// Only spaces precede the opening marker.
    pub starts_line: bool,
    /// Between `results:` and `-->`.
    pub text: String,
    /// Between the markers, in bytes.
    pub content: Range<usize>,
}

/// All blocks of a document; or the line and what is wrong there. Examples in code do not count.
pub fn find(document: &str) -> Result<Vec<Block>, (usize, String)> {
    let mut blocks = Vec::new();
    let mut at = 0;
    let mut fence: Option<&str> = None;
    while at < document.len() {
        let end = document[at..].find('\n').map_or(document.len(), |length| at + length + 1);
        let line = &document[at..end];
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                at = of_line(document, at..end, &mut blocks)?;
                continue;
            }
        }
        at = end;
    }
    Ok(blocks)
}

/// The blocks that begin in a line. Returns where to continue: after the line that the last one ends in.
fn of_line(document: &str, line: Range<usize>, blocks: &mut Vec<Block>) -> Result<usize, (usize, String)> {
    let (mut at, mut end) = (line.start, line.end);
    let number = |at: usize| document[..at].matches('\n').count() + 1;
    while let Some(found) = next_marker(&document[at..end]) {
        let open = at + found;
        let line = number(open);
        let wrong = |what: String| (line, what);
        if document[open..].starts_with(CLOSE) {
            return Err(wrong(format!("`{CLOSE}` closes nothing")));
        }
        let text_at = open + OPEN.len();
        let length =
            document[text_at..].find("-->").ok_or_else(|| wrong("the marker has no `-->`".into()))?;
        let content = text_at + length + "-->".len();
        let close = document[content..].find(CLOSE).map(|length| content + length);
        let again = document[content..].find(OPEN).map(|length| content + length);
        let close = match (close, again) {
            (Some(close), Some(again)) if again < close => None,
            (close, _) => close,
        };
        let Some(close) = close else {
            return Err(wrong(format!("the block is not closed: `{CLOSE}` is missing")));
        };
        let line_start = document[..open].rfind('\n').map_or(0, |newline| newline + 1);
        blocks.push(Block {
            line,
            starts_line: document[line_start..open].trim().is_empty(),
            text: document[text_at..text_at + length].trim().to_string(),
            content: content..close,
        });
        at = close + CLOSE.len();
        end = document[at..].find('\n').map_or(document.len(), |length| at + length + 1);
    }
    Ok(end)
}

/// An opening or closing marker, unless it is quoted as code.
fn next_marker(line: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let rest = &line[from..];
        let found = [rest.find(OPEN), rest.find(CLOSE)].into_iter().flatten().min()?;
        if !rest[..found].ends_with('`') {
            return Some(from + found);
        }
        from += found + 1;
    }
}

/// The kind and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub kind: String,
    parameters: Vec<(String, String)>,
}

impl Request {
    /// Reads a marker's text; values with spaces are quoted as for a shell.
    pub fn parse(text: &str) -> Result<Self, UsageError> {
        let wrong = |message: String| UsageError(format!("`{text}`: {message}"));
        let mut words = shell_words::split(text).map_err(|error| wrong(error.to_string()))?.into_iter();
        let kind = words.next().ok_or_else(|| UsageError("the marker names no kind of block".into()))?;
        let mut parameters: Vec<(String, String)> = Vec::new();
        for word in words {
            let Some((key, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else {
                return Err(wrong(format!("`{word}` is not like key=value")));
            };
            if parameters.iter().any(|(other, _)| other == key) {
                return Err(wrong(format!("`{key}` is given twice")));
            }
            parameters.push((key.to_string(), value.to_string()));
        }
        Ok(Self { kind, parameters })
    }

    /// Names of all parameters.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|(key, _)| key.as_str())
    }

    /// A parameter that may be left out.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
    }

    /// A parameter that must be there.
    pub fn required(&self, key: &str) -> Result<&str, UsageError> {
        self.get(key).ok_or_else(|| UsageError(format!("{}: {key}=… is missing", self.kind)))
    }

    /// A parameter with commas.
    pub fn list(&self, key: &str) -> Option<Vec<&str>> {
        self.get(key).map(|value| value.split(',').map(str::trim).filter(|it| !it.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_blocks_and_what_is_inside() {
        let document = "a\n<!-- results: table file=x.json -->\nold\n<!-- /results -->\n\
                        it is <!-- results: ratio a=b -->1.0<!-- /results --> and \
                        <!-- results: ratio a=c --><!-- /results -->.\n";
        let blocks = find(document).unwrap();
        let seen: Vec<_> = blocks
            .iter()
            .map(|it| (it.line, it.starts_line, it.text.as_str(), &document[it.content.clone()]))
            .collect();
        assert_eq!(
            seen,
            [
                (2, true, "table file=x.json", "\nold\n"),
                (5, false, "ratio a=b", "1.0"),
                (5, false, "ratio a=c", ""),
            ]
        );
    }

    #[test]
    fn examples_in_code_are_no_blocks() {
        let document =
            "```md\n<!-- results: table -->\n```\nuse `<!-- results: table -->` and `<!-- /results -->`\n";
        assert_eq!(find(document), Ok(Vec::new()));
    }

    #[test]
    fn fences_inside_a_block_do_not_matter() {
        let document =
            "<!-- results: a -->\n```sh\nx\n```\n<!-- /results -->\n<!-- results: b --><!-- /results -->";
        assert_eq!(find(document).unwrap().len(), 2);
    }

    #[test]
    fn says_where_a_marker_is_wrong() {
        let error = |document: &str| find(document).unwrap_err();
        assert_eq!(error("\n<!-- results: table -->\n").0, 2);
        assert!(
            error("<!-- results: a -->\n<!-- results: b -->\n<!-- /results -->").1.contains("not closed")
        );
        assert!(error("x <!-- /results -->").1.contains("closes nothing"));
        assert!(error("<!-- results: a").1.contains("no `-->`"));
    }

    #[test]
    fn reads_parameters() {
        let request = Request::parse("table file=a.json,b.json workloads='hack bench*'").unwrap();
        assert_eq!(request.kind, "table");
        assert_eq!(request.list("file").unwrap(), ["a.json", "b.json"]);
        assert_eq!(request.get("workloads"), Some("hack bench*"));
        assert!(request.required("out").unwrap_err().to_string().contains("out=… is missing"));
        let error = |text| Request::parse(text).unwrap_err().to_string();
        assert!(error("table file").contains("`file` is not like key=value"));
        assert!(error("table a=1 a=2").contains("twice"));
        assert!(error("").contains("no kind"));
    }
}
