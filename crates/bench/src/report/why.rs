//! The breakdown of CPU time by cause: its columns, as a table for the terminal and in words.
use super::words;
use crate::result::{ArmResult, Breakdown};
use comfy_table::{CellAlignment, Table};
use flsched_why::Why;

/// A column of the breakdown.
pub(super) struct Column {
    /// In the terminal's table.
    pub(super) short: &'static str,
    /// On the page.
    pub(super) name: &'static str,
    /// Of the page's colours; `None`: it is a part of the column before, and no bar of its own.
    pub(super) class: Option<&'static str>,
    /// In percent.
    pub(super) of: fn(&Why) -> f64,
}

const fn whole(
    short: &'static str,
    name: &'static str,
    class: &'static str,
    of: fn(&Why) -> f64,
) -> Column {
    Column { short, name, class: Some(class), of }
}

const fn part(short: &'static str, name: &'static str, of: fn(&Why) -> f64) -> Column {
    Column { short, name, class: None, of }
}

/// In the order of the table; those that are wholes add up to 100 %.
pub(super) const COLUMNS: [Column; 13] = [
    whole("user", "user", "user", |why| why.user),
    part("vain", "of which vain turns", |why| why.of_which_vain),
    whole("kernel", "kernel", "kernel", |why| why.kernel),
    whole("wake", "wake-ups", "wake", |why| why.wake_ups),
    whole("switch", "switching", "switching", |why| why.switching),
    whole("locks", "lock waits", "locks", |why| why.lock_waits),
    whole("waits", "idle, a task waits", "waits", |why| why.idle_task_waits),
    part("late", "of which late wake-ups", |why| why.of_which_late),
    whole("idle", "idle, nothing to run", "nothing", |why| why.idle_nothing),
    part("start", "of which start", |why| why.of_which_start),
    part("tail", "of which tail", |why| why.of_which_tail),
    whole("irq", "interrupts, other", "interrupts", |why| why.interrupts + why.other),
    whole("probe", "probe", "probe", |why| why.probe),
];

/// What the short names mean.
pub(super) const LEGEND: &str = "where the CPU time of one more run went, in % of all CPUs' time: tasks in user space \
     (of which vain: short turns between two sched_yield), in the kernel, waking others, switching, spinning for \
     kernel locks; CPUs idle while tasks wait (of which late: woken for that CPU), idle with nothing to run (of \
     which start, tail: before and after all CPUs are busy); interrupts and what was not seen; the probe";

/// One row for each scheduler that has a breakdown; `None` without any.
pub(super) fn table(results: &[&ArmResult], width: u16) -> Option<Table> {
    let broken_down: Vec<(&str, &Breakdown)> =
        results.iter().filter_map(|it| Some((it.scheduler.as_str(), it.why.as_ref()?))).collect();
    if broken_down.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table
        .load_preset(comfy_table::presets::NOTHING)
        .set_style(comfy_table::TableComponent::HeaderLines, '─')
        .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
        .set_width(width)
        .force_no_tty();
    let names = COLUMNS.iter().map(|column| column.short);
    table.set_header(["% of"].into_iter().chain(names).chain(["time s"]));
    for (scheduler, Breakdown { time_s, why, .. }) in broken_down {
        let figures = COLUMNS.iter().map(|column| percent((column.of)(why)));
        let ends = (scheduler.to_string(), words::seconds(*time_s));
        table.add_row([ends.0].into_iter().chain(figures).chain([ends.1]));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let last = index > COLUMNS.len();
        column.set_padding((0, u16::from(!last)));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Some(table)
}

pub(super) fn percent(value: f64) -> String {
    format!("{value:.1}")
}

/// What stands below the table for each scheduler.
pub(super) fn counts(breakdown: &Breakdown) -> String {
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
    format!(
        "{} switches, {} of them by sched_yield ({} vain), {} wake-ups, {} calls of sched_yield{longer}{cut}",
        count(why.switches),
        count(why.yield_switches),
        count(why.vain_turns),
        count(why.woken),
        count(why.yields),
    )
}
