//! The rows as Markdown: a tally, a table with the worst first, and each row in full. HTML is made of the same text.
use crate::papers::assess::{Judged, Line, own};
use crate::papers::paper::{Claim, Measurement, Paper, Row, Without};
use crate::papers::results::SOURCE;
use crate::papers::text::{duration, exact, figure};
use crate::papers::verdict::{Tolerance, Verdict};
use flsched_compare::Clock;
use flsched_compare::stats::Estimate;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

const CSS: &str = include_str!("page.css");

/// How many rows have which verdict, for each paper and each scheduler that is compared in place of its own.
pub fn tally(papers: &[Vec<Judged<'_>>]) -> String {
    let mut titles = vec!["paper".to_string(), "as".into(), "claims".into()];
    titles.extend(Verdict::ALL.map(|it| it.to_string()));
    let mut lines = header(&titles);
    for rows in papers {
        let Some(paper) = rows.first().map(|it| it.paper) else { continue };
        for subject in &paper.subject.here {
            let count = |verdict| rows.iter().filter(|row| row.verdict_of(subject) == verdict).count();
            let mut cells = vec![paper.name.clone(), format!("`{subject}`"), rows.len().to_string()];
            cells.extend(Verdict::ALL.map(|verdict| count(verdict).to_string()));
            lines.push(line_of(&cells));
        }
    }
    lines.join("\n")
}

/// A line for each row of a paper, the worst first.
pub fn summary(rows: &[Judged<'_>]) -> String {
    let Some(paper) = rows.first().map(|it| it.paper) else { return String::new() };
    let mut titles = vec!["where".to_string(), "what the paper says".into()];
    titles.extend(paper.subject.here.iter().map(|it| format!("`{it}`")));
    let mut lines = header(&titles);
    let mut sorted: Vec<&Judged<'_>> = rows.iter().collect();
    sorted.sort_by_key(|row| row.verdict());
    for judged in sorted {
        let row = judged.row;
        let mut cells = vec![format!("[{}](#{})", row.place, row.id), row.says.clone()];
        cells.extend(paper.subject.here.iter().map(|subject| verdict(judged.verdict_of(subject))));
        lines.push(line_of(&cells));
    }
    lines.join("\n")
}

/// Each row of a paper with all figures, in the paper's order. Headings are of this level.
pub fn details(rows: &[Judged<'_>], level: usize) -> String {
    let texts = rows.iter().map(|it| format!("{} {}\n\n{}", "#".repeat(level), it.row.id, detail(it)));
    texts.collect::<Vec<_>>().join("\n\n")
}

/// All of it, for readers without the documentation.
pub fn whole(papers: &[Vec<Judged<'_>>]) -> String {
    let mut text = format!("# The papers, reproduced\n\n{}\n", tally(papers));
    for rows in papers {
        let Some(paper) = rows.first().map(|it| it.paper) else { continue };
        text += &format!(
            "\n## {}\n\n{}\n\n{}\n\n{}\n",
            paper.name,
            paper.cited.trim(),
            summary(rows),
            details(rows, 3)
        );
    }
    text
}

/// The same as a page of its own.
pub fn html(papers: &[Vec<Judged<'_>>]) -> String {
    let text = whole(papers);
    let mut body = String::new();
    let events = with_anchors(Parser::new_ext(&text, Options::ENABLE_TABLES));
    html::push_html(&mut body, scrolled(events).into_iter());
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>The papers, reproduced</title>\n\
         <style>\n{CSS}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Headings get anchors, as code hosts give them.
fn with_anchors<'a>(events: impl Iterator<Item = Event<'a>>) -> Vec<Event<'a>> {
    let mut events: Vec<Event<'a>> = events.collect();
    for index in 0..events.len() {
        let (before, after) = events.split_at_mut(index + 1);
        let Event::Start(Tag::Heading { id, .. }) = &mut before[index] else { continue };
        let inside = after.iter().take_while(|it| !matches!(it, Event::End(TagEnd::Heading(_))));
        let text: String = inside
            .filter_map(|it| match it {
                Event::Text(text) => Some(text.as_ref()),
                _ => None,
            })
            .collect();
        *id = Some(CowStr::from(text.to_lowercase().replace(' ', "-")));
    }
    events
}

/// Each table in a region that scrolls sideways. The Tab key focuses it, and the arrow keys scroll it.
fn scrolled(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut all = Vec::new();
    let mut under = CowStr::from("");
    for event in events {
        match event {
            Event::Start(Tag::Heading { id: Some(ref id), .. }) => {
                under = id.clone();
                all.push(event);
            }
            Event::Start(Tag::Table(_)) => {
                let label =
                    format!("<div class=\"scroll\" role=\"group\" aria-label=\"{under}\" tabindex=\"0\">");
                all.extend([Event::Html(label.into()), event]);
            }
            Event::End(TagEnd::Table) => all.extend([event, Event::Html("</div>\n".into())]),
            event => all.push(event),
        }
    }
    all
}

fn detail(judged: &Judged<'_>) -> String {
    let row = judged.row;
    let mut parts = vec![format!("{} ({}): {}", row.place, row.certainty.words(), row.says)];
    match &row.without {
        Some(Without::Missing(why)) => parts.extend([table(judged), format!("**Missing**: {why}.")]),
        Some(Without::Impossible(why)) => {
            parts.extend([table(judged), format!("**Impossible here**: {why}.")]);
        }
        None => {
            parts.push(rule(row));
            parts.push(table(judged));
            parts.push(remarks(judged));
            parts.push(commands(judged));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// What decides the verdict.
fn rule(row: &Row) -> String {
    let within = |tolerance: Tolerance| match tolerance {
        Tolerance::Absolute(0.0) => "if equal".to_string(),
        Tolerance::Percent(percent) => format!("within {percent} %"),
        Tolerance::Absolute(most) => format!("within ±{most} {}", row.claim.unit()).trim().to_string(),
    };
    match &row.claim {
        Claim::Figures { tolerance: tolerance @ Tolerance::Percent(_), .. } => {
            format!("Reproduced {} of the paper's figures.", within(*tolerance))
        }
        Claim::Figures { tolerance, .. } => format!("Reproduced {}.", within(*tolerance)),
        Claim::Order { text, tolerance, .. } if text.contains(" = ") => {
            format!("Order: `{text}`, equal {}.", within(*tolerance))
        }
        Claim::Order { text, .. } => format!("Order: `{text}`."),
        Claim::None => String::new(),
    }
}

/// A line for each figure; a column for the paper, and one for each clock and scheduler.
fn table(judged: &Judged<'_>) -> String {
    let claim = &judged.row.claim;
    if claim.names().is_empty() {
        return String::new();
    }
    let unit = if claim.unit().is_empty() { String::new() } else { format!(", {}", claim.unit()) };
    let mut titles = vec!["figure".to_string()];
    let papers = match claim {
        Claim::Figures { values, .. } => Some(values),
        Claim::Order { .. } | Claim::None => None,
    };
    titles.extend(papers.map(|_| format!("paper{unit}")));
    titles.extend(judged.lines.iter().map(|line| {
        let clock = clock(judged.paper, line);
        let title = line.subject.map_or(clock.clone(), |subject| format!("{clock}: `{subject}`"));
        if papers.is_some() { title } else { format!("{title}{unit}") }
    }));
    let mut lines = header(&titles);
    for (index, name) in claim.names().iter().enumerate() {
        let mut cells = vec![name.replace('|', "\\|")];
        cells.extend(papers.map(|values| exact(values[index].1)));
        cells.extend(
            judged.lines.iter().map(|line| line.here[index].1.map_or("–".into(), |it| here(line, &it))),
        );
        lines.push(line_of(&cells));
    }
    if judged.lines.is_empty() {
        return lines.join("\n");
    }
    let mut cells = vec!["**verdict**".to_string()];
    cells.extend(papers.map(|_| String::new()));
    cells.extend(judged.lines.iter().map(|line| verdict(line.verdict)));
    lines.push(line_of(&cells));
    lines.join("\n")
}

/// With its interval, except the model's: what differs between seeds is not how wrong a model is.
fn here(line: &Line<'_>, of: &Estimate) -> String {
    let is_model = line.found.iter().any(|it| it.clock() == Clock::Model.to_string());
    match is_model || of.low == of.high {
        true => figure(of.value),
        false => format!("{} [{}–{}]", figure(of.value), figure(of.low), figure(of.high)),
    }
}

/// Says where the figures were measured and why they differ. Schedulers with the same remark share a line.
fn remarks(judged: &Judged<'_>) -> String {
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for line in &judged.lines {
        let text = remark(line);
        match said.last_mut().filter(|(last, _)| *last == text) {
            Some((_, subjects)) => subjects.extend(line.subject),
            None => said.push((text, line.subject.into_iter().collect())),
        }
    }
    let lines = said.iter().map(|(text, subjects)| match subjects[..] {
        [] => format!("- {text}"),
        _ => format!(
            "- {}: {text}",
            subjects.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
        ),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn remark(line: &Line<'_>) -> String {
    let mut places: Vec<String> = line.found.iter().map(|it| it.machine()).collect();
    places.dedup();
    let is_judged = matches!(line.verdict, Verdict::Not | Verdict::OrderOnly);
    let why = match line.why.is_empty() {
        true => verdict(line.verdict),
        false => format!("{}, {}", verdict(line.verdict), line.why),
    };
    let sentences: Vec<String> = [
        Some(why),
        Some(places.join("; ")).filter(|it| !it.is_empty()),
        line.way.note.clone(),
        line.way.reason.clone().filter(|_| is_judged),
    ]
    .into_iter()
    .flatten()
    .map(|text| format!("{}.", text.trim().trim_end_matches('.')))
    .collect();
    sentences.join(" ")
}

/// The commands of the ways that `reproduce` runs, and how long they take.
fn commands(judged: &Judged<'_>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in &judged.lines {
        for index in own(line.way) {
            let measurement = &judged.paper.measurements[index];
            let text = format!("{}   # {}", measurement.line(), duration(measurement.takes_min));
            if !lines.contains(&text) {
                lines.push(text);
            }
        }
    }
    match lines.is_empty() {
        true => String::new(),
        false => format!(
            "<details><summary>flsched-lab reproduce --only {}</summary>\n\n```sh\n{}\n```\n\n</details>",
            judged.row.id,
            lines.join("\n")
        ),
    }
}

/// Of the result, or of the command line that will make it.
fn clock(paper: &Paper, line: &Line<'_>) -> String {
    if let Some(found) = line.found.first() {
        return found.clock();
    }
    own(line.way).next().map_or("–".into(), |index| planned_clock(&paper.measurements[index]))
}

/// The clock of a command line.
fn planned_clock(measurement: &Measurement) -> String {
    let words = measurement.words().unwrap_or_default();
    let after = |option: &str| words.iter().skip_while(|it| *it != option).nth(1).map(String::as_str);
    match (words.first().map(String::as_str), after("--on"), after("--clock")) {
        (Some("sim"), ..) | (_, Some("sim"), _) => Clock::Model.to_string(),
        (Some("locks"), ..) => SOURCE.into(),
        (.., Some(clock)) => clock.split(':').next().unwrap_or(clock).to_string(),
        (_, Some("host"), None) => Clock::Wall.to_string(),
        _ => Clock::Parallel.to_string(),
    }
}

fn verdict(of: Verdict) -> String {
    match of {
        Verdict::Not => format!("**{of}**"),
        _ => of.to_string(),
    }
}

fn header(titles: &[String]) -> Vec<String> {
    vec![line_of(titles), format!("|{}", "---|".repeat(titles.len()))]
}

fn line_of(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::assess::assess;
    use crate::papers::assess::tests::project;
    use crate::papers::results::Results;

    const MEASURED: [(&str, &[f64]); 4] =
        [("cfs", &[3.0]), ("fifo", &[2.0, 2.2, 2.1]), ("flsched_paper", &[6.0]), ("flsched", &[2.0])];

    #[test]
    fn the_worst_comes_first() {
        let (folder, paper) = project(&MEASURED);
        let rows = [assess(&paper, &Results::new(folder.path())).unwrap()];
        let text = tally(&rows);
        assert!(text.contains("| FLSCHED | `flsched_paper` | 4 | 1 | 0 | 1 | 1 | 1 |"), "{text}");
        assert!(text.contains("| FLSCHED | `flsched` | 4 | 0 | 1 | 1 | 1 | 1 |"), "{text}");
        let text = summary(&rows[0]);
        let order: Vec<&str> =
            text.lines().skip(2).map(|line| line.split(['[', ']']).nth(1).unwrap()).collect();
        assert_eq!(order, ["Abstract", "Section 5", "Table 1", "Figure 2"]);
        assert!(text.contains("times faster. | **not reproduced** | order only |"), "{text}");
    }

    #[test]
    fn a_row_shows_the_papers_figure_beside_each_clock() {
        let (folder, paper) = project(&MEASURED);
        let rows = assess(&paper, &Results::new(folder.path())).unwrap();
        let text = details(&rows, 3);
        assert!(
            text.starts_with("### best\n\nAbstract (printed): hackbench is up to 3.12 times faster.\n"),
            "{text}"
        );
        let columns = "| paper, × | model: `flsched_paper` | model: `flsched` | parallel: `flsched_paper` | parallel: `flsched` |";
        assert!(text.contains(columns), "{text}");
        assert!(text.contains("| best | 3.12 | 0.500 | 1.50 | – | – |"), "{text}");
        assert!(
            text.contains("| **verdict** |  | **not reproduced** | order only | missing | missing |"),
            "{text}"
        );
        let remark = "- `flsched`: order only, best: 1.50 instead of 3.12. knc-31s1p, 228 CPUs. The model has no bells.";
        assert!(text.contains(remark), "{text}");
        assert!(text.contains("flsched compare --on vm --clock parallel   # 5.0 h"), "{text}");
        // The model's spread over seeds is not shown.
        assert!(
            text.contains("Order: `fifo < cfs`.\n\n| figure | model, s |\n|---|---|\n| fifo | 2.10 |"),
            "{text}"
        );
        assert!(text.contains("**Impossible here**: the source is not here."), "{text}");
    }

    #[test]
    fn a_reproduced_row_gives_no_reason() {
        let (folder, paper) = project(&[("cfs", &[6.3]), ("fifo", &[2.0]), ("flsched", &[2.0])]);
        let text = details(&assess(&paper, &Results::new(folder.path())).unwrap(), 3);
        assert!(text.contains("- `flsched`: reproduced. knc-31s1p, 228 CPUs.\n"), "{text}");
    }

    #[test]
    fn without_results_the_page_says_missing() {
        let (folder, paper) = project(&[]);
        let rows = [assess(&paper, &Results::new(folder.path())).unwrap()];
        let page = html(&rows);
        assert!(
            page.contains("<h3 id=\"best\">best</h3>") && page.contains("<a href=\"#best\">Abstract</a>"),
            "{page}"
        );
        assert!(page.contains("<td>missing</td>") && !page.contains("reproduced</strong>"), "{page}");
    }
}
