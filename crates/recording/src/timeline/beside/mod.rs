//! Runs of the same work under several schedulers, to be drawn one under the other on the same time axis: which process ran
//! on which CPU, and where CPUs idled.
//!
//! [`Beside`] is what the pictures show, as data; `draw` draws it for a page or as a file.
mod draw;

use super::{CpuId, Slice, TaskId, Timeline, joined};
use crate::Ns;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// Most cells of a row.
const MOST_CELLS: u64 = 1000;
/// Cells of all rows together: some 10 bytes each.
const MOST_CELLS_OF_ALL: u64 = 100_000;
/// The part of the runs that is shown once more.
const PART_NS: Ns = 1_000_000;
/// A cell in which nothing ran.
const IDLE: &str = "-";
/// A process with this share of the busy time has a colour for each of its threads: one colour would show nothing.
const DOMINANT: f64 = 0.8;

/// A run, and how it is called.
pub struct Run<'a> {
    pub name: String,
    pub timeline: &'a Timeline,
}

/// What pictures of several runs show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// What has a colour of its own.
    pub coloured: Coloured,
    /// The runs, in the order of their pictures.
    pub runs: Vec<RunShown>,
    /// The whole runs; then the millisecond in which they differ most, if there is one.
    pub parts: Vec<Part>,
}

/// What has a colour of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coloured {
    /// Each process, with all its threads.
    Process,
    /// Each thread, as one process has nearly all of the busy time.
    Thread,
}

impl Coloured {
    /// For a legend: `process` or `thread`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}

/// A run in all pictures of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunShown {
    pub scheduler: String,
    /// How long it took.
    pub end_ns: Ns,
    /// The numbers of the CPUs: the rows.
    pub cpus: Vec<u32>,
    /// Name and pid of each process or thread that is shown.
    pub tasks: Vec<String>,
}

/// A part of the time axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub from_ns: Ns,
    /// The end; of the whole runs, that of the longest.
    pub to_ns: Ns,
    /// Into how many cells a row is divided.
    pub cells: u64,
    /// What each run did in it.
    pub runs: Vec<PartOfRun>,
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartOfRun {
    /// Of all CPUs' time until the run ended, in percent.
    pub busy_percent: f64,
    /// How often a task began to run.
    pub switches: u64,
    /// Of each CPU: `12:5 -:3 0:1` are five cells of task 12, three in which the CPU idled, and one of task 0. A cell
    /// shows what lasted longest in it.
    pub rows: Vec<String>,
}

/// What a run did in a part of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Doings {
    /// Of all CPUs' time, from 0 to 1.
    busy: f64,
    /// How often a task began to run.
    switches: u64,
}

impl Beside {
    /// The whole runs, and the millisecond in which they differ most.
    pub fn new(runs: &[Run<'_>]) -> Self {
        let longest = runs.iter().map(|run| run.timeline.end).max().unwrap_or(0);
        let rows: u64 = runs.iter().map(|run| run.timeline.cpus.len() as u64).sum();
        let cells = (MOST_CELLS_OF_ALL / (2 * rows).max(1)).clamp(100, MOST_CELLS);
        let coloured = coloured(runs);
        let mut shown: Vec<Shown<'_>> = runs.iter().map(|run| Shown::new(run.timeline, coloured)).collect();
        let most_different = most_different(runs).map(|from| from..from + PART_NS);
        let spans = std::iter::once(0..longest).chain(most_different);
        let parts = spans
            .map(|span| {
                let runs = shown.iter_mut().map(|shown| shown.part(&span, cells)).collect();
                Part { from_ns: span.start, to_ns: span.end, cells, runs }
            })
            .collect();
        let run = |(run, shown): (&Run<'_>, Shown<'_>)| RunShown {
            scheduler: run.name.clone(),
            end_ns: run.timeline.end,
            cpus: run.timeline.cpus.clone(),
            tasks: shown.labels,
        };
        Self { coloured, runs: runs.iter().zip(shown).map(run).collect(), parts }
    }
}

/// Threads, if one process has nearly all of the busy time in each run.
fn coloured(runs: &[Run<'_>]) -> Coloured {
    let is_dominated = |run: &Run<'_>| {
        let mut ran: BTreeMap<TaskId, Ns> = BTreeMap::new();
        for slice in &run.timeline.slices {
            *ran.entry(process_of(run.timeline, slice.task)).or_default() += slice.to - slice.from;
        }
        let most = ran.values().max().copied().unwrap_or(0);
        most as f64 > DOMINANT * ran.values().sum::<Ns>() as f64
    };
    if runs.iter().all(is_dominated) { Coloured::Thread } else { Coloured::Process }
}

fn process_of(timeline: &Timeline, task: TaskId) -> TaskId {
    timeline.processes.get(task).copied().unwrap_or(task)
}

/// A run, and those of its tasks that are in a picture, in the order in which they are first shown.
struct Shown<'a> {
    timeline: &'a Timeline,
    coloured: Coloured,
    /// By CPU.
    slices: Vec<Vec<&'a Slice>>,
    labels: Vec<String>,
    places: BTreeMap<TaskId, usize>,
}

impl<'a> Shown<'a> {
    fn new(timeline: &'a Timeline, coloured: Coloured) -> Self {
        let mut slices: Vec<Vec<&Slice>> = vec![Vec::new(); timeline.cpus.len()];
        timeline.slices.iter().for_each(|slice| slices[slice.cpu].push(slice));
        Self { timeline, coloured, slices, labels: Vec::new(), places: BTreeMap::new() }
    }

    fn part(&mut self, span: &Range<Ns>, cells: u64) -> PartOfRun {
        let Doings { busy, switches } = doings(self.timeline, span, 1)[0];
        let rows = (0..self.slices.len()).map(|cpu| self.row(cpu, span, cells)).collect();
        PartOfRun { busy_percent: (1000.0 * busy).round() / 10.0, switches, rows }
    }

    fn row(&mut self, cpu: CpuId, span: &Range<Ns>, cells: u64) -> String {
        let key = |task| match self.coloured {
            Coloured::Process => process_of(self.timeline, task),
            Coloured::Thread => task,
        };
        let mut words: Vec<String> = Vec::new();
        let mut at = 0;
        for (task, from, to) in cells_of(&self.slices[cpu], key, span, cells) {
            if from > at {
                words.push(format!("{IDLE}:{}", from - at));
            }
            words.push(format!("{}:{}", self.place(task), to - from));
            at = to;
        }
        words.join(" ")
    }

    fn place(&mut self, task: TaskId) -> usize {
        *self.places.entry(task).or_insert_with(|| {
            self.labels.push(self.timeline.label(task));
            self.labels.len() - 1
        })
    }
}

/// A row's cells as runs of one key: key, first cell, end. A cell shows what lasted longest in it, idling included.
fn cells_of(
    slices: &[&Slice],
    key: impl Fn(TaskId) -> TaskId,
    span: &Range<Ns>,
    cells: u64,
) -> Vec<(TaskId, u64, u64)> {
    let length = (span.end - span.start).max(1);
    let cell_of = |at: Ns| {
        u64::try_from(u128::from(at - span.start) * u128::from(cells) / u128::from(length)).unwrap_or(0)
    };
    let start_of = |cell: u64| {
        span.start + u64::try_from(u128::from(cell) * u128::from(length) / u128::from(cells)).unwrap_or(0)
    };
    // Of each cell: the time of each key in it.
    let mut shares: BTreeMap<u64, BTreeMap<TaskId, Ns>> = BTreeMap::new();
    for slice in slices {
        let (from, to) = (slice.from.max(span.start), slice.to.min(span.end));
        if from >= to {
            continue;
        }
        let key = key(slice.task);
        for cell in cell_of(from)..=cell_of(to - 1).min(cells - 1) {
            let had = to.min(start_of(cell + 1)).saturating_sub(from.max(start_of(cell)));
            *shares.entry(cell).or_default().entry(key).or_default() += had;
        }
    }
    let owner = |(cell, shares): (u64, BTreeMap<TaskId, Ns>)| {
        let busy: Ns = shares.values().sum();
        let idle = (start_of(cell + 1) - start_of(cell)).saturating_sub(busy);
        let (key, most) = shares.into_iter().max_by_key(|(_, share)| *share)?;
        (idle <= most).then_some((cell, key))
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
/// is too short for parts, or there is only one. Where the work of a run comes to its end, all runs differ, and nothing is
/// seen: parts after that are left out.
fn most_different(runs: &[Run<'_>]) -> Option<Ns> {
    let parts = runs.iter().map(|run| run.timeline.end / PART_NS).min().filter(|parts| *parts > 1)? as usize;
    if runs.len() < 2 {
        return None;
    }
    let all: Vec<Vec<Doings>> =
        runs.iter().map(|run| doings(run.timeline, &(0..parts as Ns * PART_NS), parts)).collect();
    let parts = all.iter().map(|run| working_parts(run)).min().unwrap_or(0);
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

/// How many parts there are up to the last one in which the CPUs are half as busy as ever.
fn working_parts(run: &[Doings]) -> usize {
    let most = run.iter().map(|part| part.busy).fold(0.0, f64::max);
    run.iter().rposition(|part| part.busy >= most / 2.0).map_or(0, |last| last + 1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two CPUs. In the second millisecond one run switches often, the other one idles.
    pub(super) fn timeline(is_busy: bool) -> Timeline {
        let mut timeline = Timeline::new(vec![0, 1]);
        timeline.switched(0, Some(0), 0);
        timeline.switched(1, Some(1), 0);
        timeline.switched(1, None, PART_NS);
        for turn in 0..10 {
            let at = PART_NS + turn * PART_NS / 10;
            timeline.switched(0, is_busy.then_some((turn % 2) as usize), at);
        }
        timeline.switched(0, Some(0), 2 * PART_NS);
        timeline.switched(1, Some(1), 2 * PART_NS);
        timeline.finish(3 * PART_NS, vec![("a".into(), 7), ("<b>".into(), 8)]);
        timeline
    }

    /// A run and one that idles.
    pub(super) fn beside(timeline: &Timeline, name: &str) -> Beside {
        let runs = [
            Run { name: name.into(), timeline },
            Run { name: "other".into(), timeline: &self::timeline(false) },
        ];
        Beside::new(&runs)
    }

    #[test]
    fn the_part_that_differs_most_is_found() {
        let (busy, idle) = (timeline(true), timeline(false));
        let run = |timeline| Run { name: String::new(), timeline };
        assert_eq!(most_different(&[run(&busy), run(&idle)]), Some(PART_NS));
        assert_eq!(most_different(&[run(&busy)]), None);
        let span = PART_NS..2 * PART_NS;
        assert_eq!(doings(&busy, &span, 1), [Doings { busy: 0.5, switches: 10 }]);
        assert_eq!(doings(&busy, &(0..3 * PART_NS), 3)[1], doings(&busy, &span, 1)[0]);
    }

    #[test]
    fn the_end_of_the_work_is_no_difference() {
        let run =
            |busy: &[f64]| busy.iter().map(|busy| Doings { busy: *busy, switches: 1 }).collect::<Vec<_>>();
        assert_eq!(working_parts(&run(&[0.1, 0.9, 0.5, 0.4, 0.0])), 3);
        assert_eq!(working_parts(&run(&[0.2, 0.1, 0.2])), 3);
        assert_eq!(working_parts(&run(&[0.0, 0.0])), 2);
        assert_eq!(working_parts(&[]), 0);
    }

    #[test]
    fn a_cell_shows_what_lasted_longest_and_idle_time_is_left_out() {
        let slice = |task, from, to| Slice { cpu: 0, task, from, to };
        let slices = [slice(0, 0, 60), slice(1, 60, 100), slice(1, 100, 130), slice(0, 200, 300)];
        let slices: Vec<&Slice> = slices.iter().collect();
        assert_eq!(cells_of(&slices, |task| task, &(0..400), 4), [(0, 0, 1), (0, 2, 3)]);
        // One thread's time counts as its process's.
        let one = |_| 7;
        assert_eq!(cells_of(&slices, one, &(0..400), 4), [(7, 0, 1), (7, 2, 3)]);
        assert_eq!(cells_of(&slices, one, &(0..300), 2), [(7, 0, 2)]);
    }

    #[test]
    fn a_row_has_the_tasks_in_the_order_in_which_they_are_shown() {
        let beside = beside(&timeline(true), "flsched");
        assert_eq!(beside.runs[0].tasks, ["a 7", "<b> 8"]);
        let part = &beside.parts[1];
        assert_eq!((part.from_ns, part.to_ns, part.cells), (PART_NS, 2 * PART_NS, 1000));
        assert_eq!(part.runs[0].rows[0], "0:100 1:100 0:100 1:100 0:100 1:100 0:100 1:100 0:100 1:100");
        assert_eq!((part.runs[0].rows[1].as_str(), part.runs[0].switches), ("", 10));
        let whole = &beside.parts[0];
        assert_eq!(whole.runs[1].rows[0], "0:333 -:334 0:333");
        let again: Beside = serde_json::from_str(&serde_json::to_string(&beside).unwrap()).unwrap();
        assert_eq!(again, beside);
    }

    #[test]
    fn threads_have_colours_where_one_process_has_nearly_all_of_the_time() {
        let apart = timeline(true);
        assert_eq!(beside(&apart, "a").coloured, Coloured::Process);
        let one = Timeline { processes: vec![0, 0], ..timeline(true) };
        let beside = Beside::new(&[Run { name: "a".into(), timeline: &one }]);
        assert_eq!((beside.coloured, beside.runs[0].tasks.len()), (Coloured::Thread, 2));
    }

    #[test]
    fn many_cpus_and_runs_stay_small() {
        let mut timeline = Timeline::new((0..64).collect());
        for at in 0..20_000u64 {
            timeline.switched((at % 64) as usize, Some((at % 97) as usize), at * 5_000);
        }
        timeline.finish(100 * PART_NS, (0..97).map(|task| (format!("task{task}"), task)).collect());
        let runs: Vec<Run<'_>> =
            (0..8).map(|name| Run { name: name.to_string(), timeline: &timeline }).collect();
        let beside = Beside::new(&runs);
        let (page, data) =
            (beside.fragment(&[]).into_string().len(), serde_json::to_string(&beside).unwrap().len());
        assert!(page < 2_000_000 && data < 1_000_000, "{page} {data}");
    }

    #[test]
    fn nothing_ran() {
        let empty = Timeline::new(Vec::new());
        let text = Beside::new(&[Run { name: "x".into(), timeline: &empty }]).fragment(&[]).into_string();
        assert!(text.contains("0 switches"), "{text}");
    }
}
