//! Runs under several schedulers, one under the other on the same time axis: which process ran on which CPU, and where CPUs
//! idled. As a fragment of a page.
use super::{Slice, Timeline, joined};
use crate::Ns;
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::ops::Range;

/// Width of a picture, in its own units.
const WIDTH: u64 = 1000;
/// Height of all rows of a picture, about.
const HEIGHT: u64 = 200;
/// Left of it, for the CPUs' numbers.
const LEFT: u64 = 44;
/// Below it, for times.
const BELOW: u64 = 16;
/// Cells of all pictures together: some 20 bytes each.
const MOST_CELLS: u64 = 100_000;
/// The part of the runs that is shown once more.
const PART_NS: Ns = 1_000_000;

/// A run, and how it is called.
pub struct Run<'a> {
    /// The scheduler.
    pub name: String,
    /// What ran.
    pub timeline: &'a Timeline,
    /// Where the trace for ui.perfetto.dev is, as a link.
    pub trace: Option<String>,
}

/// What a run did in a part of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Doings {
    /// Of all CPUs' time, from 0 to 1.
    busy: f64,
    /// How often a task began to run.
    switches: u64,
}

/// The whole runs, and the millisecond in which they differ most.
pub fn render_beside(runs: &[Run<'_>]) -> Markup {
    let longest = runs.iter().map(|run| run.timeline.end).max().unwrap_or(0);
    let rows: u64 = runs.iter().map(|run| run.timeline.cpus.len() as u64).sum();
    let cells = (MOST_CELLS / (2 * rows).max(1)).clamp(100, WIDTH);
    let part = most_different(runs);
    html! {
        @for run in runs {
            (figure(run, 0..longest, cells))
        }
        @if let Some(from) = part {
            h4 { "The millisecond in which they differ most: from " (ms(from)) " on" }
            @for run in runs {
                (figure(run, from..from + PART_NS, cells))
            }
        }
    }
}

fn figure(run: &Run<'_>, span: Range<Ns>, cells: u64) -> Markup {
    let timeline = run.timeline;
    let doings = doings(timeline, &span, 1)[0];
    let until = timeline.end.min(span.end);
    let what = format!(
        "{}: {}, CPUs {:.0} % busy, {} switches",
        run.name,
        if span.start == 0 {
            format!("ends at {}", ms(timeline.end))
        } else {
            format!("{} to {}", ms(span.start), ms(until))
        },
        100.0 * doings.busy,
        doings.switches,
    );
    let row = (HEIGHT / timeline.cpus.len().max(1) as u64).clamp(2, 16);
    let height = row * timeline.cpus.len() as u64;
    let mut by_cpu: Vec<Vec<&Slice>> = vec![Vec::new(); timeline.cpus.len()];
    timeline.slices.iter().for_each(|slice| by_cpu[slice.cpu].push(slice));
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (cpu, slices) in by_cpu.iter().enumerate() {
        for (process, from, to) in cells_of(timeline, slices, &span, cells) {
            let y = row * cpu as u64;
            let path = paths.entry(process).or_default();
            path.push_str(&format!("M{from} {y}h{}v{}h-{}z", to - from, row.max(3) - 1, to - from));
        }
    }
    let end = u64::try_from(
        u128::from(until - span.start) * u128::from(WIDTH) / u128::from((span.end - span.start).max(1)),
    );
    html! {
        figure.timeline {
            figcaption {
                (what)
                @if let Some(trace) = &run.trace { " · " a href=(trace) { "trace for ui.perfetto.dev" } }
            }
            svg role="img" aria-label=(what) viewBox=(format!("0 0 {} {}", LEFT + WIDTH, height + BELOW))
                font-size="10" {
                rect.idle x=(LEFT) y="0" width=(end.unwrap_or(WIDTH)) height=(height) {}
                @for (index, cpu) in timeline.cpus.iter().enumerate() {
                    @if row >= 10 || index as u64 * row % 20 < row {
                        text x="0" y=(row * index as u64 + row.min(10)) { (cpu) }
                    }
                }
                g transform=(format!("translate({LEFT} 0) scale({} 1)", WIDTH as f64 / cells as f64)) {
                    @for (process, path) in &paths {
                        path d=(path) fill=(colour(*process)) { title { (timeline.label(*process)) } }
                    }
                }
                @for tenth in 0..=5 {
                    text x=(LEFT + WIDTH * tenth / 5) y=(height + BELOW - 4)
                        text-anchor=(["start", "middle", "middle", "middle", "middle", "end"][tenth as usize]) {
                        (ms(span.start + (span.end - span.start) / 5 * tenth))
                    }
                }
            }
        }
    }
}

/// `12.3 ms`.
fn ms(ns: Ns) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

fn process_of(timeline: &Timeline, task: usize) -> usize {
    timeline.processes.get(task).copied().unwrap_or(task)
}

fn colour(process: usize) -> String {
    format!("hsl({},{}%,{}%)", process * 137 % 360, 50 + process * 31 % 35, 42 + process * 17 % 16)
}

/// A row's cells as runs of one process: process, first cell, end. A cell shows what lasted longest in it, idling included.
fn cells_of(timeline: &Timeline, slices: &[&Slice], span: &Range<Ns>, cells: u64) -> Vec<(usize, u64, u64)> {
    let length = (span.end - span.start).max(1);
    let cell_of = |at: Ns| {
        u64::try_from(u128::from(at - span.start) * u128::from(cells) / u128::from(length)).unwrap_or(0)
    };
    let start_of = |cell: u64| {
        span.start + u64::try_from(u128::from(cell) * u128::from(length) / u128::from(cells)).unwrap_or(0)
    };
    // Of each cell: the time of each process in it.
    let mut shares: BTreeMap<u64, BTreeMap<usize, Ns>> = BTreeMap::new();
    for slice in slices {
        let (from, to) = (slice.from.max(span.start), slice.to.min(span.end));
        if from >= to {
            continue;
        }
        let process = process_of(timeline, slice.task);
        for cell in cell_of(from)..=cell_of(to - 1).min(cells - 1) {
            let had = to.min(start_of(cell + 1)).saturating_sub(from.max(start_of(cell)));
            *shares.entry(cell).or_default().entry(process).or_default() += had;
        }
    }
    let owner = |(cell, shares): (u64, BTreeMap<usize, Ns>)| {
        let busy: Ns = shares.values().sum();
        let idle = (start_of(cell + 1) - start_of(cell)).saturating_sub(busy);
        let (process, most) = shares.into_iter().max_by_key(|(_, share)| *share)?;
        (idle <= most).then_some((cell, process))
    };
    joined(shares.into_iter().filter_map(owner))
}

/// What was done in each of so many equal parts of this span, as far as the run lasted.
fn doings(timeline: &Timeline, span: &Range<Ns>, parts: usize) -> Vec<Doings> {
    let length = ((span.end - span.start) / parts.max(1) as Ns).max(1);
    let until = timeline.end.min(span.end);
    let bounds = |part: usize| {
        let from = span.start + part as Ns * length;
        from..(from + length).min(until)
    };
    let mut ran = vec![0; parts];
    let mut switches = vec![0; parts];
    for slice in timeline.slices.iter().filter(|slice| slice.from < until && slice.to > span.start) {
        let first = (slice.from.max(span.start) - span.start) / length;
        if slice.from >= span.start
            && let Some(count) = switches.get_mut(first as usize)
        {
            *count += 1;
        }
        for (part, ran) in ran.iter_mut().enumerate().skip(first as usize) {
            let Range { start, end } = bounds(part);
            if slice.to <= start {
                break;
            }
            *ran += slice.to.min(end).saturating_sub(slice.from.max(start));
        }
    }
    let busy = |part: usize, ran: Ns| {
        let Range { start, end } = bounds(part);
        ran as f64 / (end.saturating_sub(start) as f64 * timeline.cpus.len() as f64).max(1.0)
    };
    let each = ran.into_iter().zip(switches).enumerate();
    each.map(|(part, (ran, switches))| Doings { busy: busy(part, ran), switches }).collect()
}

/// Where the part begins in which busy time and switches are furthest apart, as parts of their greatest values; `None`: a run
/// is too short for parts, or there is only one.
fn most_different(runs: &[Run<'_>]) -> Option<Ns> {
    let parts = runs.iter().map(|run| run.timeline.end / PART_NS).min().filter(|parts| *parts > 1)? as usize;
    if runs.len() < 2 {
        return None;
    }
    let all: Vec<Vec<Doings>> =
        runs.iter().map(|run| doings(run.timeline, &(0..parts as Ns * PART_NS), parts)).collect();
    let most = all.iter().flatten().map(|it| it.switches).max().unwrap_or(0).max(1) as f64;
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)));
        high - low
    };
    let differ = |part: usize| {
        spread(&mut all.iter().map(|run| run[part].busy))
            + spread(&mut all.iter().map(|run| run[part].switches as f64 / most))
    };
    let widest = (0..parts).max_by(|a, b| differ(*a).total_cmp(&differ(*b)).then(b.cmp(a)))?;
    Some(widest as Ns * PART_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs. In the second millisecond one run switches often, the other one idles.
    fn timeline(is_busy: bool) -> Timeline {
        let mut timeline = Timeline::new(vec![0, 1]);
        timeline.switched(0, Some(0), 0);
        timeline.switched(1, Some(1), 0);
        timeline.switched(1, None, PART_NS);
        for turn in 0..10 {
            let at = PART_NS + turn * PART_NS / 10;
            timeline.switched(0, is_busy.then_some((turn % 2) as usize), at);
        }
        timeline.finish(3 * PART_NS, vec![("a".into(), 7), ("<b>".into(), 8)]);
        timeline
    }

    fn run(timeline: &Timeline, name: &str) -> String {
        let runs = [
            Run { name: name.into(), timeline, trace: Some("x.json.gz".into()) },
            Run { name: "other".into(), timeline: &self::timeline(false), trace: None },
        ];
        render_beside(&runs).into_string()
    }

    #[test]
    fn the_part_that_differs_most_is_found() {
        let (busy, idle) = (timeline(true), timeline(false));
        let run = |timeline| Run { name: String::new(), timeline, trace: None };
        assert_eq!(most_different(&[run(&busy), run(&idle)]), Some(PART_NS));
        assert_eq!(most_different(&[run(&busy)]), None);
        let span = PART_NS..2 * PART_NS;
        assert_eq!(doings(&busy, &span, 1), [Doings { busy: 0.5, switches: 10 }]);
        assert_eq!(doings(&busy, &(0..3 * PART_NS), 3)[1], doings(&busy, &span, 1)[0]);
    }

    #[test]
    fn a_cell_shows_what_lasted_longest_and_idle_time_is_left_out() {
        let timeline = timeline(true);
        let slice = |task, from, to| Slice { cpu: 0, task, from, to };
        let slices = [slice(0, 0, 60), slice(1, 60, 100), slice(1, 100, 130), slice(0, 200, 300)];
        let slices: Vec<&Slice> = slices.iter().collect();
        assert_eq!(cells_of(&timeline, &slices, &(0..400), 4), [(0, 0, 1), (0, 2, 3)]);
        // One thread's time counts as its process's.
        let one = Timeline { processes: vec![0, 0], ..self::timeline(true) };
        assert_eq!(cells_of(&one, &slices, &(0..400), 4), [(0, 0, 1), (0, 2, 3)]);
        assert_eq!(cells_of(&one, &slices, &(0..300), 2), [(0, 0, 2)]);
    }

    #[test]
    fn names_are_escaped_and_pictures_described() {
        let text = run(&timeline(true), "<flsched>");
        assert!(!text.contains("<flsched>") && !text.contains("<b> 8"), "{text}");
        assert!(text.contains("aria-label=\"&lt;flsched&gt;: ends at 3.0 ms, CPUs "), "{text}");
        assert!(
            text.contains("differ most: from 1.0 ms on") && text.contains("href=\"x.json.gz\""),
            "{text}"
        );
        assert_eq!(text.matches("<svg").count(), 4);
    }

    #[test]
    fn many_cpus_and_runs_stay_small() {
        let mut timeline = Timeline::new((0..64).collect());
        for at in 0..20_000u64 {
            timeline.switched((at % 64) as usize, Some((at % 97) as usize), at * 5_000);
        }
        timeline.finish(100 * PART_NS, (0..97).map(|task| (format!("task{task}"), task)).collect());
        let runs: Vec<Run<'_>> =
            (0..8).map(|name| Run { name: name.to_string(), timeline: &timeline, trace: None }).collect();
        let size = render_beside(&runs).into_string().len();
        assert!(size < 4_000_000, "{size}");
    }

    #[test]
    fn nothing_ran() {
        let empty = Timeline::new(Vec::new());
        let text = render_beside(&[Run { name: "x".into(), timeline: &empty, trace: None }]).into_string();
        assert!(text.contains("0 switches"), "{text}");
    }
}
