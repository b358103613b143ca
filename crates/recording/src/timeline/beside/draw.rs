//! Draws [`Beside`]: as a fragment of a page, or as a picture file.
use super::{Beside, IDLE, Part};
use crate::Ns;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Width of a row, in the picture's own units.
const WIDTH: u64 = 1000;
/// Height of all rows of a picture, about.
const HEIGHT: u64 = 400;
/// Left of it, for the CPUs' numbers.
const LEFT: u64 = 44;
/// Above the rows, for the first CPU's number.
const ABOVE: u64 = 3;
/// Right of the rows, so that nothing touches the edge.
const RIGHT: u64 = 12;
/// Below the rows, for times.
const BELOW: u64 = 16;
/// Of a line of text in a file.
const LINE: u64 = 22;
const INK: &str = "#1c2430";
const SOFT: &str = "#5b6675";

/// One run in one part.
struct Figure<'a> {
    /// `false`: the millisecond in which the runs differ most.
    is_whole: bool,
    part: &'a Part,
    run: usize,
    beside: &'a Beside,
}

impl Beside {
    /// As a fragment of a page; `links`: for each run, where its trace for ui.perfetto.dev is.
    pub fn fragment(&self, links: &[String]) -> Markup {
        html! {
            @for (index, part) in self.parts.iter().enumerate() {
                @if index > 0 { h4 { (heading(part)) } }
                @for figure in self.figures(index) {
                    figure.timeline {
                        figcaption {
                            (figure.caption())
                            @if let Some(link) = links.get(figure.run) {
                                " · " a href=(link) { "trace for ui.perfetto.dev" }
                            }
                        }
                        div.scroll role="group" aria-label=(figure.caption()) tabindex="0" {
                            svg role="img" aria-label=(figure.caption())
                                viewBox=(format!("0 -{ABOVE} {} {}", LEFT + WIDTH + RIGHT, ABOVE + figure.height() + BELOW)) {
                                (figure.rows())
                            }
                        }
                    }
                }
            }
        }
    }

    /// As a whole SVG file under this title, on white.
    pub fn svg(&self, title: &str) -> String {
        let mut blocks: Vec<(u64, Markup)> = vec![(LINE + 8, text(16, 600, INK, title))];
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                blocks.push((LINE + 8, text(15, 600, INK, &heading(part))));
            }
            for figure in self.figures(index) {
                blocks.push((LINE, text(13, 400, SOFT, &figure.caption())));
                blocks.push((figure.height() + BELOW + 12, figure.rows()));
            }
        }
        let height: u64 = blocks.iter().map(|(height, _)| height).sum();
        let placed = blocks.into_iter().scan(4, |next, (height, block)| {
            let top = *next;
            *next += height;
            Some((top, block))
        });
        let picture = html! {
            svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" fill=(INK) role="img"
                aria-label=(title) viewBox=(format!("0 0 {} {}", LEFT + WIDTH + RIGHT, height + 4)) {
                rect width="100%" height="100%" fill="#fff" {}
                @for (top, block) in placed {
                    g transform=(format!("translate(4 {top})")) { (block) }
                }
            }
        };
        picture.into_string() + "\n"
    }

    /// What a reader who cannot see the pictures is told.
    pub fn in_words(&self) -> String {
        let figures = (0..self.parts.len()).flat_map(|part| self.figures(part));
        figures.map(|figure| figure.caption()).collect::<Vec<_>>().join("; ")
    }

    fn figures(&self, index: usize) -> impl Iterator<Item = Figure<'_>> {
        let part = &self.parts[index];
        let is_whole = index == 0;
        (0..self.runs.len().min(part.runs.len())).map(move |run| Figure { is_whole, part, run, beside: self })
    }
}

impl Figure<'_> {
    fn caption(&self) -> String {
        let (run, part) = (&self.beside.runs[self.run], &self.part.runs[self.run]);
        let when = match self.is_whole {
            true => format!("ends at {}", ms(run.end_ns)),
            false => format!("{} to {}", ms(self.part.from_ns), ms(self.until())),
        };
        format!("{}: {when}, CPUs {:.0} % busy, {} switches", run.scheduler, part.busy_percent, part.switches)
    }

    /// Where the run or the part ends.
    fn until(&self) -> Ns {
        self.beside.runs[self.run].end_ns.min(self.part.to_ns)
    }

    fn row(&self) -> u64 {
        (HEIGHT / self.cpus().len().max(1) as u64).clamp(3, 16)
    }

    fn height(&self) -> u64 {
        self.row() * self.cpus().len() as u64
    }

    fn cpus(&self) -> &[u32] {
        &self.beside.runs[self.run].cpus
    }

    fn rows(&self) -> Markup {
        let Part { from_ns, to_ns, cells, .. } = *self.part;
        let (row, height) = (self.row(), self.height());
        let length = (to_ns - from_ns).max(1);
        let end = u128::from(self.until().saturating_sub(from_ns)) * u128::from(WIDTH) / u128::from(length);
        let thick = row - 1;
        let to_cells = format!(
            "translate({LEFT} {}) scale({} 1)",
            thick as f64 / 2.0,
            WIDTH as f64 / cells.max(1) as f64
        );
        let tasks = &self.beside.runs[self.run].tasks;
        html! {
            rect.idle x=(LEFT) y="0" width=(end) height=(height) fill="#fff" stroke="#dfe4ea" {}
            @for (index, cpu) in self.cpus().iter().enumerate() {
                @if row >= 10 || index as u64 * row % 20 < row {
                    text x="0" y=(row * index as u64 + 10) { (cpu) }
                }
            }
            g transform=(to_cells) stroke-width=(thick) fill="none" {
                @for (task, path) in self.paths() {
                    path d=(path) stroke=(colour(task)) { title { (tasks.get(task).map_or("", String::as_str)) } }
                }
            }
            @for tenth in 0..=5 {
                text x=(LEFT + WIDTH * tenth / 5) y=(height + BELOW - 4)
                    text-anchor=(["start", "middle", "middle", "middle", "middle", "end"][tenth as usize]) {
                    (ms(from_ns + (to_ns - from_ns) / 5 * tenth))
                }
            }
        }
    }

    /// The cells of each task, as lines through the middle of its rows.
    fn paths(&self) -> BTreeMap<usize, String> {
        let mut paths: BTreeMap<usize, String> = BTreeMap::new();
        for (cpu, cells) in self.part.runs[self.run].rows.iter().enumerate() {
            let y = self.row() * cpu as u64;
            let mut at = 0;
            for (task, length) in cells.split(' ').filter_map(|cell| cell.split_once(':')) {
                let Ok(length) = length.parse::<u64>() else { continue };
                if task != IDLE
                    && let Ok(task) = task.parse()
                {
                    paths.entry(task).or_default().push_str(&format!("M{at} {y}h{length}"));
                }
                at += length;
            }
        }
        paths
    }
}

fn heading(part: &Part) -> String {
    format!("The millisecond in which they differ most: from {} on", ms(part.from_ns))
}

fn text(size: u64, weight: u64, colour: &str, words: &str) -> Markup {
    html! {
        text x="0" y=(LINE - 6) font-size=(size) font-weight=(weight) fill=(colour) { (words) }
    }
}

/// `12.3 ms`.
fn ms(ns: Ns) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

fn colour(task: usize) -> String {
    format!("hsl({},{}%,{}%)", task * 137 % 360, 50 + task * 31 % 35, 42 + task * 17 % 16)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{beside, timeline};

    #[test]
    fn names_are_escaped_and_pictures_described() {
        let beside = beside(&timeline(true), "<flsched>");
        let text = beside.fragment(&["x.json.gz".into()]).into_string();
        assert!(!text.contains("<flsched>") && !text.contains("<b> 8"), "{text}");
        assert!(text.contains("aria-label=\"&lt;flsched&gt;: ends at 3.0 ms, CPUs "), "{text}");
        assert!(
            text.contains("differ most: from 1.0 ms on") && text.contains("href=\"x.json.gz\""),
            "{text}"
        );
        assert_eq!(text.matches("<svg").count(), 4);
    }

    #[test]
    fn a_file_is_one_picture_with_everything_in_it() {
        let text = beside(&timeline(true), "flsched").svg("a <title>");
        assert_eq!((text.matches("<svg").count(), text.matches("% busy").count()), (1, 4), "{text}");
        assert!(
            text.contains("aria-label=\"a &lt;title&gt;") && text.contains("d=\"M0 0h100M200 0h100"),
            "{text}"
        );
    }
}
