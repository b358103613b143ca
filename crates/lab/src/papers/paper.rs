//! `results/papers/*.toml`: what the papers report, and how each figure is reproduced here.
use crate::papers::order::Order;
use crate::papers::reading::{Reading, Taken};
use crate::papers::text::one_line;
use crate::papers::verdict::Tolerance;
use flsched_spec::UsageError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Where the papers are described, under the project's folder; the results are beside them.
pub const FOLDER: &str = "results/papers";

#[derive(Debug, Clone)]
pub struct Paper {
    /// The file's name without `.toml`; results are called `ID-MEASUREMENT.json`.
    pub id: String,
    /// What it is called here.
    pub name: String,
    /// Authors, title, where it was published, address.
    pub cited: String,
    /// The paper's scheduler: its name in rows, and the schedulers here that are it.
    pub subject: Subject,
    /// The commands that give its figures here.
    pub measurements: Vec<Measurement>,
    pub rows: Vec<Row>,
}

/// The scheduler that a paper is about.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// In the paper's rows.
    pub name: String,
    /// Here, each judged by itself.
    pub here: Vec<String>,
}

/// One command, one result file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Within the paper.
    pub name: String,
    /// The words after `flsched`.
    pub command: String,
    /// How long it takes on a core of its own, in minutes.
    pub takes_min: f64,
    /// It is part of `reproduce --quick`.
    #[serde(default)]
    pub quick: bool,
    /// Its result's path, under the project's folder.
    #[serde(skip)]
    pub file: PathBuf,
}

/// How sure it is that the paper reports this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Printed there as a number or a sentence.
    Printed,
    /// In the authors' public writing, not in the paper.
    Written,
    /// It follows from what is printed.
    Derived,
}

impl Certainty {
    /// For readers.
    pub fn words(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Written => "from the authors' messages to the kernel's list",
            Self::Derived => "follows from what is printed",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Row {
    /// Unique among all papers.
    pub id: String,
    /// Table, figure or section.
    pub place: String,
    /// What the paper says, in our words.
    pub says: String,
    /// How sure that is.
    pub certainty: Certainty,
    /// Its figures, or their order.
    pub claim: Claim,
    /// How it is reproduced; empty: it is not.
    pub ways: Vec<Way>,
    /// Why there is no way.
    pub without: Option<Without>,
}

/// The part of a claim that is compared with results.
#[derive(Debug, Clone)]
pub enum Claim {
    /// Figures, in the file's order.
    Figures {
        values: Vec<(String, f64)>,
        /// Of all of them; may be empty.
        unit: String,
        /// How far ours may be away.
        tolerance: Tolerance,
        /// The figure that means no difference: 1 of a ratio, 0 of a gain.
        neutral: Option<f64>,
    },
    Order {
        text: String,
        order: Order,
        /// What the figures here are in; may be empty.
        unit: String,
        /// Within which figures are equal.
        tolerance: Tolerance,
    },
    /// Nothing here measures it.
    None,
}

impl Claim {
    /// Names of all figures.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Figures { values, .. } => values.iter().map(|(name, _)| name.as_str()).collect(),
            Self::Order { order, .. } => order.names().collect(),
            Self::None => Vec::new(),
        }
    }

    /// In which the figures are.
    pub fn unit(&self) -> &str {
        match self {
            Self::Figures { unit, .. } | Self::Order { unit, .. } => unit,
            Self::None => "",
        }
    }
}

/// Why a row has no way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Without {
    /// A tool lacks something.
    Missing(String),
    /// Nothing here can measure it.
    Impossible(String),
}

/// A way to reproduce a row.
#[derive(Debug, Clone)]
pub struct Way {
    /// Where the figures are from; all on one clock.
    pub from: Vec<Source>,
    /// A figure for each name of the claim.
    pub figures: Vec<(String, Taken)>,
    /// What differs from the paper's experiment.
    pub note: Option<String>,
    /// Why the result differs; only if that is understood.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One of the paper's own measurements: its place in the list.
    Own(usize),
    /// A published report: its name under `results/`.
    Published(String),
}

/// Reads all papers of the project in this folder, in the order of their years.
pub fn load(root: &Path) -> Result<Vec<Paper>, UsageError> {
    let wrong = |path: &Path, what: String| UsageError(format!("{}: {what}", path.display()));
    let folder = Path::new(FOLDER);
    let entries = std::fs::read_dir(root.join(folder)).map_err(|error| wrong(folder, error.to_string()))?;
    let mut papers = Vec::new();
    let mut names: Vec<PathBuf> = entries.flatten().map(|it| folder.join(it.file_name())).collect();
    names.retain(|path| path.extension().is_some_and(|it| it == "toml"));
    names.sort();
    for path in names {
        let text =
            std::fs::read_to_string(root.join(&path)).map_err(|error| wrong(&path, error.to_string()))?;
        let id = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        papers.push(Paper::parse(&id, &text).map_err(|what| wrong(&path, what))?);
    }
    if papers.is_empty() {
        return Err(wrong(folder, "no paper is described here: there is no .toml file".into()));
    }
    let mut ids: Vec<&str> = Vec::new();
    for paper in &papers {
        for row in &paper.rows {
            if ids.contains(&row.id.as_str()) {
                let path = folder.join(&paper.id).with_extension("toml");
                return Err(wrong(&path, format!("row `{}`: another paper has a row of that name", row.id)));
            }
            ids.push(&row.id);
        }
    }
    Ok(papers)
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    cited: String,
    subject: Subject,
    #[serde(default, rename = "measurement")]
    measurements: Vec<Measurement>,
    #[serde(rename = "row")]
    rows: Vec<RowTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowTable {
    id: String,
    place: String,
    says: String,
    certainty: Certainty,
    #[serde(default)]
    unit: String,
    values: Option<Table>,
    order: Option<String>,
    neutral: Option<f64>,
    tolerance: Option<f64>,
    tolerance_percent: Option<f64>,
    #[serde(default, rename = "way")]
    ways: Vec<WayTable>,
    missing: Option<String>,
    impossible: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WayTable {
    from: Vec<String>,
    take: Option<Value>,
    #[serde(default)]
    figures: BTreeMap<String, Value>,
    #[serde(default)]
    instead: BTreeMap<String, String>,
    note: Option<String>,
    reason: Option<String>,
}

impl Paper {
    /// From the file's text; or what is wrong with it.
    pub fn parse(id: &str, text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| one_line(&error))?;
        let mut measurements = file.measurements;
        for (index, measurement) in measurements.iter().enumerate() {
            measurement.check().map_err(|what| format!("measurement `{}`: {what}", measurement.name))?;
            if measurements[..index].iter().any(|other| other.name == measurement.name) {
                return Err(format!("measurement `{}` is described twice", measurement.name));
            }
        }
        for measurement in &mut measurements {
            measurement.file = Path::new(FOLDER).join(format!("{id}-{}.json", measurement.name));
        }
        if file.subject.here.is_empty() {
            return Err("subject: `here` names no scheduler".into());
        }
        let mut rows: Vec<Row> = Vec::new();
        for table in file.rows {
            let within = format!("row `{}`", table.id);
            let row = row(table, &measurements).map_err(|what| format!("{within}: {what}"))?;
            if rows.iter().any(|other| other.id == row.id) {
                return Err(format!("{within} is described twice"));
            }
            rows.push(row);
        }
        let used = |index: usize| {
            rows.iter().flat_map(|row| &row.ways).any(|it| it.from.contains(&Source::Own(index)))
        };
        if let Some(index) = (0..measurements.len()).find(|index| !used(*index)) {
            return Err(format!("measurement `{}`: no row takes anything from it", measurements[index].name));
        }
        Ok(Self {
            id: id.into(),
            name: file.name,
            cited: file.cited,
            subject: file.subject,
            measurements,
            rows,
        })
    }
}

impl Measurement {
    fn check(&self) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            return Err("its name becomes part of a file's name: letters, digits, `.`, `-` only".into());
        }
        if !self.takes_min.is_finite() || self.takes_min <= 0.0 {
            return Err("`takes_min` is not above 0".into());
        }
        match self.words()?.first().map(String::as_str) {
            Some("compare" | "sim" | "locks") => Ok(()),
            _ => Err(format!("`{}` does not begin with `compare`, `sim` or `locks`", self.command)),
        }
    }

    /// As a user types it, with quotes where a shell needs them.
    pub fn line(&self) -> String {
        let Ok(words) = self.words() else { return self.command.clone() };
        let program =
            if words.first().is_some_and(|word| word == "locks") { "flsched-lab" } else { "flsched" };
        format!("{program} {}", shell_words::join(words))
    }

    /// The words after the program.
    pub fn words(&self) -> Result<Vec<String>, String> {
        shell_words::split(&self.command).map_err(|error| format!("`{}`: {error}", self.command))
    }
}

fn row(table: RowTable, measurements: &[Measurement]) -> Result<Row, String> {
    let without = match (table.missing, table.impossible, table.ways.is_empty()) {
        (None, None, false) => None,
        (Some(why), None, true) => Some(Without::Missing(why)),
        (None, Some(why), true) => Some(Without::Impossible(why)),
        _ => {
            return Err("exactly one of [[row.way]], `missing` and `impossible` is needed".into());
        }
    };
    let tolerance = match (table.tolerance, table.tolerance_percent) {
        (Some(most), None) => Some(Tolerance::Absolute(most)),
        (None, Some(percent)) => Some(Tolerance::Percent(percent)),
        (None, None) => None,
        (Some(_), Some(_)) => return Err("`tolerance` and `tolerance_percent` exclude each other".into()),
    };
    if let Some(Tolerance::Absolute(most) | Tolerance::Percent(most)) = tolerance
        && !(most.is_finite() && most >= 0.0)
    {
        return Err("the tolerance is below 0".into());
    }
    let needs = || "`tolerance` or `tolerance_percent` is missing".to_string();
    let claim = match (table.values, table.order) {
        (Some(values), None) => Claim::Figures {
            values: numbers(values)?,
            unit: table.unit,
            tolerance: tolerance.ok_or_else(needs)?,
            neutral: table.neutral,
        },
        (None, Some(text)) => Claim::Order {
            order: Order::parse(&text)?,
            tolerance: match tolerance {
                Some(tolerance) => tolerance,
                None if text.contains(" = ") => return Err(needs()),
                None => Tolerance::Absolute(0.0),
            },
            unit: table.unit,
            text,
        },
        (None, None) if without.is_some() => Claim::None,
        (None, None) => return Err("`values` or `order` is missing: what is compared".into()),
        (Some(_), Some(_)) => return Err("`values` and `order` exclude each other".into()),
    };
    let names = claim.names();
    let ways = table.ways.into_iter().enumerate().map(|(index, table)| {
        way(table, &names, measurements).map_err(|what| format!("way {}: {what}", index + 1))
    });
    let ways = ways.collect::<Result<Vec<_>, _>>()?;
    Ok(Row {
        id: table.id,
        place: table.place,
        says: table.says,
        certainty: table.certainty,
        claim,
        ways,
        without,
    })
}

fn numbers(values: Table) -> Result<Vec<(String, f64)>, String> {
    if values.is_empty() {
        return Err("`values` is empty".into());
    }
    let number = |(name, value): (String, Value)| match value {
        Value::Integer(number) => Ok((name, number as f64)),
        Value::Float(number) if number.is_finite() => Ok((name, number)),
        other => Err(format!("`{name}` = {other} is not a number")),
    };
    values.into_iter().map(number).collect()
}

fn way(table: WayTable, names: &[&str], measurements: &[Measurement]) -> Result<Way, String> {
    let source = |name: &String| match measurements.iter().position(|it| it.name == *name) {
        Some(index) => Ok(Source::Own(index)),
        None if name.ends_with(".json") && !name.contains('/') => Ok(Source::Published(name.clone())),
        None => {
            let known: Vec<&str> = measurements.iter().map(|it| it.name.as_str()).collect();
            Err(UsageError::unknown("measurement", name, &known).to_string())
        }
    };
    let from = table.from.iter().map(source).collect::<Result<Vec<_>, _>>()?;
    if from.is_empty() {
        return Err("`from` names no measurement".into());
    }
    if let Some(name) = table.figures.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(UsageError::unknown("figure", name, names).to_string());
    }
    let mut figures = Vec::new();
    for name in names {
        let value = table.figures.get(*name).or(table.take.as_ref());
        let value = value.ok_or_else(|| format!("neither `take` nor `figures` defines `{name}`"))?;
        let taken = taken(value, name)?;
        let instead = |name: &str| table.instead.get(name).map_or(name, String::as_str).to_string();
        figures.push((name.to_string(), taken.with(taken.reading().with_schedulers(&instead))));
    }
    Ok(Way { from, figures, note: table.note, reason: table.reason })
}

/// Words, or a table such as `{ largest = "…" }`.
fn taken(value: &Value, name: &str) -> Result<Taken, String> {
    let reading = |value: &Value| match value {
        Value::String(text) => Reading::parse(&filled(text, name)),
        other => Err(format!("{other} is not a text")),
    };
    let Value::Table(table) = value else { return reading(value).map(Taken::One) };
    let limit = |key: &str| match table.get(key) {
        Some(Value::Integer(number)) => Ok(*number as f64),
        Some(Value::Float(number)) => Ok(*number),
        _ => Err(format!("`{key}` is not a number")),
    };
    let keys: Vec<&str> = table.keys().map(String::as_str).collect();
    let of = |key: &str| table.get(key).ok_or_else(|| format!("`{key}` is missing")).and_then(reading);
    match keys[..] {
        ["largest"] => Ok(Taken::Largest(of("largest")?)),
        ["smallest"] => Ok(Taken::Smallest(of("smallest")?)),
        ["count_above", "of"] | ["of", "count_above"] => {
            Ok(Taken::CountAbove(limit("count_above")?, of("of")?))
        }
        ["share_above", "of"] | ["of", "share_above"] => {
            Ok(Taken::ShareAbove(limit("share_above")?, of("of")?))
        }
        ["share_below", "of"] | ["of", "share_below"] => {
            Ok(Taken::ShareBelow(limit("share_below")?, of("of")?))
        }
        _ => Err(format!(
            "`{value}` is neither a text nor one of {{ largest = … }}, {{ smallest = … }}, {{ count_above = 1, of = … }}, \
             {{ share_above = 1, of = … }}, {{ share_below = 1, of = … }}"
        )),
    }
}

/// `{}` is the figure's name, `{1}` and `{2}` are its words.
fn filled(text: &str, name: &str) -> String {
    let mut text = text.replace("{}", name);
    for (index, word) in name.split_whitespace().enumerate() {
        text = text.replace(&format!("{{{}}}", index + 1), word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: &str = r#"
        name = "P"
        cited = "somebody"
        subject = { name = "flsched", here = ["flsched_paper", "flsched"] }
        [[measurement]]
        name = "a"
        command = "compare --on sim --workload hogs"
        takes_min = 1
        quick = true
        [[row]]
        id = "figure-1"
        place = "Figure 1"
        says = "It is faster."
        certainty = "printed"
        unit = "×"
        values = { "bt cfs" = 2, cg = 1.5 }
        neutral = 1
        tolerance_percent = 10
        [[row.way]]
        from = ["a", "b.json"]
        take = "time of {2} over flsched on npb:{1}:*"
        figures = { cg = { largest = "time of cfs over flsched on npb:{}:*" } }
        instead = { cfs = "eevdf" }
    "#;

    #[test]
    fn reads_a_paper() {
        let paper = Paper::parse("p", PAPER).unwrap();
        assert_eq!(paper.measurements[0].file, Path::new("results/papers/p-a.json"));
        assert_eq!(paper.measurements[0].line(), "flsched compare --on sim --workload hogs");
        let row = &paper.rows[0];
        assert_eq!(row.claim.names(), ["bt cfs", "cg"]);
        let way = &row.ways[0];
        assert_eq!(way.from, [Source::Own(0), Source::Published("b.json".into())]);
        let readings: Vec<String> = way.figures.iter().map(|(_, it)| it.reading().to_string()).collect();
        // The kernel of today has no CFS.
        assert_eq!(
            readings,
            ["time of eevdf over flsched on npb:bt:*", "time of eevdf over flsched on npb:cg:*"]
        );
        assert!(matches!(way.figures[1].1, Taken::Largest(_)));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        for (old, new, what) in [
            ("name = \"P\"", "name = P", "TOML parse error at line 2, column 16"),
            ("place =", "plaice =", "unknown field `plaice`"),
            ("\"printed\"", "\"sure\"", "unknown variant `sure`"),
            ("takes_min = 1", "takes_min = 0", "measurement `a`: `takes_min` is not above 0"),
            (
                "\"compare --on",
                "\"run --on",
                "measurement `a`: `run --on sim --workload hogs` does not begin with",
            ),
            ("name = \"a\"", "name = \"a/b\"", "measurement `a/b`: its name becomes part of a file's name"),
            ("from = [\"a\",", "from = [\"c\",", "row `figure-1`: way 1: unknown measurement `c`"),
            ("from = [\"a\",", "from = [", "measurement `a`: no row takes anything from it"),
            ("from = [\"a\", \"b.json\"]", "from = []", "row `figure-1`: way 1: `from` names no measurement"),
            (
                "take = \"time of",
                "take = \"time off",
                "row `figure-1`: way 1: `time off cfs over flsched on npb:bt:*`",
            ),
            ("take =", "note =", "row `figure-1`: way 1: neither `take` nor `figures` defines `bt cfs`"),
            ("{ cg = {", "{ gc = {", "row `figure-1`: way 1: unknown figure `gc`"),
            ("largest =", "longest =", "row `figure-1`: way 1: `{ longest = "),
            ("tolerance_percent = 10", "", "row `figure-1`: `tolerance` or `tolerance_percent` is missing"),
            ("tolerance_percent = 10", "tolerance = -1", "row `figure-1`: the tolerance is below 0"),
            ("tolerance_percent = 10", "tolerance = 1\ntolerance_percent = 2", "exclude each other"),
            ("cg = 1.5 }", "cg = \"1.5\" }", "row `figure-1`: `cg` = \"1.5\" is not a number"),
            ("neutral = 1", "order = \"a < b\"", "row `figure-1`: `values` and `order` exclude each other"),
            ("neutral = 1", "missing = \"all\"", "row `figure-1`: exactly one of [[row.way]], `missing` and"),
            ("here = [\"flsched_paper\", \"flsched\"]", "here = []", "subject: `here` names no scheduler"),
        ] {
            assert!(PAPER.contains(old), "{old}");
            let error = Paper::parse("p", &PAPER.replacen(old, new, 1)).expect_err(new);
            assert!(error.contains(what) && !error.contains('\n'), "{new}: {error}");
        }
        let (top, row) = PAPER.split_once("[[row]]").unwrap();
        let error = Paper::parse("p", &format!("{PAPER}[[row]]{row}")).unwrap_err();
        assert_eq!(error, "row `figure-1` is described twice");
        let measurement = &top[top.find("[[measurement]]").unwrap()..];
        let error = Paper::parse("p", &format!("{top}{measurement}[[row]]{row}")).unwrap_err();
        assert_eq!(error, "measurement `a` is described twice");
    }

    #[test]
    fn the_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = || load(folder.path()).unwrap_err().to_string();
        assert!(error().starts_with("results/papers: "), "{}", error());
        let papers = folder.path().join(FOLDER);
        std::fs::create_dir_all(&papers).unwrap();
        assert_eq!(error(), "results/papers: no paper is described here: there is no .toml file");
        std::fs::write(papers.join("p.toml"), "x = 1").unwrap();
        assert!(error().starts_with("results/papers/p.toml: TOML parse error at line 1"), "{}", error());
        std::fs::write(papers.join("p.toml"), PAPER).unwrap();
        std::fs::write(papers.join("q.toml"), PAPER).unwrap();
        assert_eq!(error(), "results/papers/q.toml: row `figure-1`: another paper has a row of that name");
    }
}
