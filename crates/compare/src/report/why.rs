//! The breakdown of CPU time by cause: its columns, and its rendering for the terminal and for the page.
use super::html::scroll;
use super::view::{Row, Workload};
use super::{chart, words};
use crate::result::{ArmResult, Breakdown};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use flsched_probes::why::Why;
use maud::{Markup, html};

/// A column of the breakdown.
pub(super) struct Column {
    /// Its name in the terminal's table; empty: the table does not have it.
    pub(super) short: &'static str,
    /// Its name on the page.
    pub(super) name: &'static str,
    /// The CSS class of its part of the bar; `None`: it is included in the column before.
    pub(super) class: Option<&'static str>,
    /// Its value in percent of all CPUs' time.
    pub(super) of: fn(&Why) -> f64,
}

const fn whole(short: &'static str, name: &'static str, class: &'static str, of: fn(&Why) -> f64) -> Column {
    Column { short, name, class: Some(class), of }
}

const fn part(short: &'static str, name: &'static str, of: fn(&Why) -> f64) -> Column {
    Column { short, name, class: None, of }
}

/// The columns in the table's order. The values of all `whole` columns add up to 100 %.
pub(super) const COLUMNS: [Column; 13] = [
    whole("user", "user", "user", |why| why.user),
    whole("kern", "kernel", "kernel", |why| why.kernel),
    part("vain", "of which vain turns", |why| why.of_which_vain),
    whole("wake", "wake-ups", "wake", |why| why.wake_ups),
    whole("sched", "switching", "switching", |why| why.switching),
    whole("lock", "lock waits", "locks", |why| why.lock_waits),
    whole("wait", "idle, a task waits", "waits", |why| why.idle_task_waits),
    part("late", "of which late wake-ups", |why| why.of_which_late),
    whole("idle", "idle, nothing to run", "nothing", |why| why.idle_nothing),
    part("", "of which start", |why| why.of_which_start),
    part("tail", "of which tail", |why| why.of_which_tail),
    whole("irq", "interrupts, other", "interrupts", |why| why.interrupts + why.other),
    whole("probe", "probe", "probe", |why| why.probe),
];

/// The legend of the short names.
pub(super) const LEGEND: &str = "below each workload: where the CPU time of one more run went, in % of all CPUs' time: tasks in user space, in \
     the kernel (vain, a part of both: short turns between two sched_yield), waking others, in the scheduler, \
     spinning for kernel locks; CPUs idle while a task waits (late, a part of that: it was woken for that CPU), idle \
     with nothing to run (tail, a part of that: after all CPUs were busy for the last time); interrupts and what was \
     not seen; the probe";

/// The breakdown of a row.
pub(super) struct Shares<'a> {
    pub scheduler: &'a str,
    /// In percent, in the order of the columns.
    pub percent: [String; COLUMNS.len()],
    /// The time of the run, in seconds.
    pub time: String,
    /// The line below the table.
    pub counts: String,
    stack: chart::Stack<'a>,
}

pub(super) fn shares<'a>(result: &'a ArmResult, breakdown: &Breakdown) -> Shares<'a> {
    let why = &breakdown.why;
    Shares {
        scheduler: &result.scheduler,
        percent: COLUMNS.map(|column| percent((column.of)(why))),
        time: words::seconds(breakdown.time_s),
        counts: counts(breakdown),
        stack: chart::Stack {
            result,
            length: why.span_s,
            parts: wholes().map(|(column, class)| (column.name, class, (column.of)(why))).collect(),
        },
    }
}

fn wholes() -> impl Iterator<Item = (&'static Column, &'static str)> {
    COLUMNS.iter().filter_map(|column| Some((column, column.class?)))
}

/// The terminal's table, with a row for each scheduler that has a breakdown; `None`: none has.
pub(super) fn table(rows: &[Row<'_>], width: u16) -> Option<Table> {
    let broken_down: Vec<&Shares<'_>> = rows.iter().filter_map(|row| row.shares.as_ref()).collect();
    if broken_down.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .force_no_tty();
    let is_shown = |column: &Column| !column.short.is_empty();
    let names = COLUMNS.iter().filter(|column| is_shown(column)).map(|column| column.short);
    table.set_header(["%"].into_iter().chain(names.clone()).chain(["s"]));
    for shares in broken_down {
        let figures = COLUMNS.iter().zip(&shares.percent).filter(|(column, _)| is_shown(column));
        let figures = figures.map(|(_, percent)| percent.as_str());
        table.add_row([shares.scheduler].into_iter().chain(figures).chain([shares.time.as_str()]));
    }
    let last = names.count() + 1;
    let gap = if width < 100 { 1 } else { 2 };
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { gap }));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Some(table)
}

/// The page's section, with a bar for each scheduler, as long as its run, and a table; empty if there is no breakdown.
pub(super) fn section(workload: &Workload<'_>) -> Markup {
    let broken_down: Vec<&Shares<'_>> = workload.rows.iter().filter_map(|row| row.shares.as_ref()).collect();
    let stacks: Vec<_> = broken_down.iter().map(|shares| &shares.stack).collect();
    html! {
        @if !broken_down.is_empty() {
            h3 { "Where the CPU time went" }
            figure {
                figcaption {
                    "One more run of each, with a probe in the kernel. A bar is as long as the run, and divided as the \
                     time of all CPUs: "
                    @for (column, class) in wholes() {
                        span.cause { span class=(format!("swatch {class}")) {} " " (column.name) } " "
                    }
                }
                (scroll(workload.name, "Where the CPU time went", chart::stacks(&stacks)))
            }
            (scroll(workload.name, "Shares of the CPU time", figures(&broken_down)))
            ul.counts {
                @for shares in &broken_down {
                    li { strong { (shares.scheduler) } ": " (shares.counts) }
                }
            }
        }
    }
}

fn figures(broken_down: &[&Shares<'_>]) -> Markup {
    html! {
        table {
            thead { tr { th { "% of CPU time" } @for shares in broken_down { th { (shares.scheduler) } } } }
            tbody {
                @for (index, column) in COLUMNS.iter().enumerate() {
                    tr {
                        td class=[column.class.is_none().then_some("part")] { (column.name) }
                        @for shares in broken_down { td { (shares.percent[index]) } }
                    }
                }
                tr {
                    td { "time of this run, s" }
                    @for shares in broken_down { td { (shares.time) } }
                }
            }
        }
    }
}

fn percent(value: f64) -> String {
    format!("{value:.1}")
}

fn counts(breakdown: &Breakdown) -> String {
    let Breakdown { longer_percent, why, .. } = breakdown;
    let count = |value: u64| words::count(value as f64);
    let longer = longer_percent.map_or_else(String::new, |it| match it {
        it if it < 0.0 => format!("; with the probe it was {:.1} % shorter than without", -it),
        it => format!("; with the probe it was {it:.1} % longer than without"),
    });
    let cut = match why.is_cut {
        true => format!("; only the first {} s had room in memory", words::seconds(why.span_s)),
        false => String::new(),
    };
    let switching_us = why.switching / 100.0 * why.span_s * why.cpus as f64 * 1e6;
    let each = match why.switches {
        0 => String::new(),
        switches => format!(" ({:.1} µs each)", switching_us / switches as f64),
    };
    format!(
        "{} switches{each}, {} of them by sched_yield ({} vain), {} wake-ups, {} calls of sched_yield{longer}{cut}",
        count(why.switches),
        count(why.yield_switches),
        count(why.vain_turns),
        count(why.woken),
        count(why.yields),
    )
}
