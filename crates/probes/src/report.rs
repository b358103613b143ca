//! The reports as tables, for the terminal and for documents.
use crate::costs::{Cost, CostsReport};
use crate::locks::{LockUse, LocksReport, SchedulerLocks};
use crate::run::Machine;
use crate::source_locks::{PartLocks, SourceLocks};
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, presets};
use indicatif::HumanCount;
use std::fmt::Write;

/// Places of waits that are printed; the JSON report has all of them.
const SITES: usize = 5;

/// The locks, for a terminal with this many columns.
pub fn render_locks(report: &LocksReport, columns: u16) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}\n", own_locks(report));
    let _ = writeln!(text, "What its callbacks can reach on this kernel\n{}", anatomy(report, columns));
    let _ = writeln!(text, "\nLocks taken while the command ran\n{}", totals(report, columns));
    for measured in &report.schedulers {
        let _ = writeln!(
            text,
            "\nLocks taken under {}\n{}",
            measured.scheduler,
            uses(measured, usize::MAX, columns)
        );
    }
    let _ = writeln!(text, "\nWaits for locks, anywhere in the kernel\n{}", waits(report, columns));
    let _ = writeln!(text, "\nThe longest of them\n{}\n", sites(report, columns));
    text.push_str(&caption(&report.machine, &report.command, &report.policy, &report.policy_version));
    let took = command_took(&report.machine);
    for measured in &report.schedulers {
        let _ = writeln!(
            text,
            "{}: {took} {:.3} s while waits were timed, {:.3} s while locks were counted",
            measured.scheduler, measured.timed_run_s, measured.counted_run_s
        );
        if !measured.unwatched.is_empty() {
            let _ = writeln!(text, "! not to be probed on this kernel: {}", measured.unwatched.join(", "));
        }
        if let Some(lost) = measured.waits.lost.filter(|lost| *lost > 0) {
            let _ = writeln!(text, "! {} more waits found no room to be timed", count(lost));
        }
        if measured.lost > 0 {
            let _ =
                writeln!(text, "! {} more acquisitions found no room to be counted", count(measured.lost));
        }
    }
    text.push_str("others %: acquisitions by a CPU other than the one that took this very lock most often\n");
    text
}

/// The places that take a lock in the kernel's source, for a terminal with this many columns.
pub fn render_source_locks(counted: &SourceLocks, columns: u16) -> String {
    let header: Vec<&str> =
        ["lock"].into_iter().chain(counted.parts.iter().map(|part| part.part.as_str())).collect();
    let mut places = table(columns, &header);
    let figure = |number: usize| if number == 0 { "–".into() } else { number.to_string() };
    for kind in SourceLocks::kinds() {
        let of = |part: &PartLocks| figure(part.places.get(kind).copied().unwrap_or_default());
        places.add_row(row([kind.to_string()].into_iter().chain(counted.parts.iter().map(of))));
    }
    let totals = counted.parts.iter().map(|part| figure(part.total()));
    places.add_row(row(["all".to_string()].into_iter().chain(totals)));
    let mut text =
        format!("{places}\n\nsource of kernel {} · flsched {}\n", counted.source_of, counted.version);
    for part in counted.parts.iter().filter(|part| !part.files.is_empty()) {
        let _ = writeln!(text, "{}: {}", part.part, part.files.join(", "));
    }
    text
}

/// The costs, for a terminal with this many columns.
pub fn render_costs(report: &CostsReport, columns: u16) -> String {
    let mut text = String::new();
    let [by_default, by_policy] = report.run_s;
    let [probed_default, probed_policy] = report.probed_run_s;
    let _ = writeln!(
        text,
        "The functions of the class, with all that they call\n{}\n",
        functions(report, columns)
    );
    let _ = writeln!(
        text,
        "{}'s callbacks, by the kernel's own statistics\n{}\n",
        report.policy,
        callbacks(report, columns)
    );
    text.push_str(&caption(&report.machine, &report.command, &report.policy, &report.policy_version));
    let took = command_took(&report.machine);
    let _ = writeln!(text, "eevdf: {took} {by_default:.3} s, and {probed_default:.3} s while probed");
    let _ =
        writeln!(text, "{}: {took} {by_policy:.3} s, and {probed_policy:.3} s while probed", report.policy);
    let _ = writeln!(
        text,
        "subtracted: the probe's own {:.0} ns a call, and {:.0} ns for each probed call inside",
        report.probe.inside_ns, report.probe.whole_ns
    );
    text
}

/// A part of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocksPart<'a> {
    /// How often the core, the class and the policy take locks, under both schedulers.
    Totals,
    /// The locks that were taken under one scheduler, the most frequent ones first.
    Taken {
        /// `eevdf` or the policy.
        scheduler: &'a str,
        /// Rows at most.
        most: usize,
    },
    /// Waits for locks, anywhere in the kernel.
    Waits,
}

/// A part of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostsPart {
    /// The functions of the scheduling classes.
    Functions,
    Callbacks,
}

/// This part alone, and what a result must name besides itself; or which schedulers there are.
pub fn render_locks_part(report: &LocksReport, part: LocksPart<'_>, columns: u16) -> Result<String, String> {
    let table = match part {
        LocksPart::Totals => totals(report, columns),
        LocksPart::Waits => waits(report, columns),
        LocksPart::Taken { scheduler, most } => {
            let measured = report.schedulers.iter().find(|measured| measured.scheduler == scheduler);
            let names = || report.schedulers.iter().map(|it| it.scheduler.as_str()).collect::<Vec<_>>();
            let measured = measured.ok_or_else(|| format!("no scheduler `{scheduler}`: {:?}", names()))?;
            uses(measured, most, columns)
        }
    };
    let caption = caption(&report.machine, &report.command, &report.policy, &report.policy_version);
    Ok(format!("{table}\n\n{caption}"))
}

/// This part alone, and what a result must name besides itself.
pub fn render_costs_part(report: &CostsReport, part: CostsPart, columns: u16) -> String {
    let table = match part {
        CostsPart::Functions => functions(report, columns),
        CostsPart::Callbacks => callbacks(report, columns),
    };
    let caption = caption(&report.machine, &report.command, &report.policy, &report.policy_version);
    format!("{table}\n\n{caption}")
}

fn functions(report: &CostsReport, columns: u16) -> Table {
    let header = ["eevdf", &report.policy].map(|name| format!("{name}: calls @ mean ns (median)"));
    let mut functions = table(columns, &["function", &header[0], &header[1]]);
    for function in &report.functions {
        functions.add_row(row([function.role.clone(), cost(&function.fair), cost(&function.scx)]));
    }
    functions
}

fn callbacks(report: &CostsReport, columns: u16) -> Table {
    let header = format!("{}: calls @ mean ns", report.policy);
    let mut callbacks = table(columns, &["callback", &header]);
    for callback in &report.callbacks {
        callbacks.add_row(row([callback.name.clone(), calls(callback.calls, callback.mean_ns)]));
    }
    callbacks
}

fn own_locks(report: &LocksReport) -> String {
    if report.anatomy.is_lock_free() {
        return format!("{} takes no lock of its own: no BPF spin lock, no arena", report.policy);
    }
    let locks = report.anatomy.callbacks.iter().flat_map(|callback| callback.own_locks.iter().cloned());
    let arena = report.anatomy.has_arena.then(|| "an arena, in which there may be locks".to_owned());
    format!("{} has locks of its own: {}", report.policy, locks.chain(arena).collect::<Vec<_>>().join(", "))
}

fn cost(cost: &Cost) -> String {
    match cost {
        Cost::Absent => "absent".into(),
        Cost::NotTraceable { .. } => "not traceable".into(),
        Cost::Measured { calls: 0, .. } => "–".into(),
        Cost::Measured { calls: number, mean_ns, median_ns, .. } => {
            format!("{} ({})", calls(*number, *mean_ns), count(median_ns.round() as u64))
        }
    }
}

fn calls(number: u64, mean_ns: f64) -> String {
    if number == 0 { "–".into() } else { format!("{} @ {}", count(number), count(mean_ns.round() as u64)) }
}

fn anatomy(report: &LocksReport, columns: u16) -> Table {
    let mut table = table(columns, &["callback", "atomics", "kfuncs (without scx_bpf_) and helpers"]);
    for callback in &report.anatomy.callbacks {
        let called = callback.kfuncs.iter().chain(&callback.helpers);
        let called = called.map(|name| name.trim_start_matches("scx_bpf_")).collect::<Vec<_>>().join(" ");
        let atomics =
            callback.atomics.iter().map(|(operation, occurrences)| format!("{occurrences} {operation}"));
        let atomics = atomics.collect::<Vec<_>>().join(", ");
        let atomics = if atomics.is_empty() { "–" } else { &atomics };
        table.add_row([&callback.name, atomics, &called]);
    }
    table
}

/// How often the core, the class and the policy take locks (the paper's table 1), and how often a CPU takes one that
/// another CPU takes more often.
fn totals(report: &LocksReport, columns: u16) -> Table {
    let mut header = vec!["by".to_owned()];
    header.extend(report.schedulers.iter().map(|measured| measured.scheduler.clone()));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = table(columns, &header);
    const GROUPS: [&str; 3] =
        ["the core, whatever the class", "the class's functions", "the kernel for the policy's callbacks"];
    let group = |lock: &LockUse| match lock {
        LockUse { callback: Some(_), .. } => GROUPS[2],
        LockUse { class_function: Some(_), .. } => GROUPS[1],
        _ => GROUPS[0],
    };
    for name in GROUPS {
        let sum = |measured: &SchedulerLocks| {
            let locks = || measured.locks.iter().filter(|lock| group(lock) == name);
            let all: u64 = locks().map(|lock| lock.acquisitions).sum();
            let by_others: f64 = locks().map(by_others).sum();
            format!("{} ({} by others)", count(all), count(by_others.round() as u64))
        };
        table.add_row(row(std::iter::once(name.to_owned()).chain(report.schedulers.iter().map(sum))));
    }
    table
}

fn by_others(lock: &LockUse) -> f64 {
    lock.acquisitions as f64 * (100.0 - lock.busiest_cpu_percent) / 100.0
}

/// The most frequent ones first, `most` rows at most.
fn uses(measured: &SchedulerLocks, most: usize, columns: u16) -> Table {
    let header = ["lock", "per CPU", "locks", "CPUs", "taken", "per call", "others %", "where"];
    let mut table = table(columns, &header);
    let mut locks: Vec<_> = measured.locks.iter().collect();
    locks.sort_by_key(|lock| std::cmp::Reverse(lock.acquisitions));
    for lock in locks.into_iter().take(most) {
        let path = [&lock.class_function, &lock.callback, &lock.kfunc].into_iter().flatten();
        let mut path: Vec<&str> = path.map(String::as_str).collect();
        if path.is_empty() {
            path.push("core");
        }
        if path.last() != Some(&lock.taken_by.as_str()) {
            path.push(&lock.taken_by);
        }
        let mut cells = row([
            lock.lock.clone(),
            if lock.is_per_cpu { "yes" } else { "no" }.into(),
            lock.instances.to_string(),
            lock.most_cpus.to_string(),
            count(lock.acquisitions),
            lock.per_call.map_or_else(|| "–".into(), |number| format!("{number:.2}")),
            format!("{:.1}", 100.0 - lock.busiest_cpu_percent),
        ]);
        cells.push(Cell::new(path.join(" › ")));
        table.add_row(cells);
    }
    table
}

fn waits(report: &LocksReport, columns: u16) -> Table {
    let header = ["scheduler", "spins", "spinning s", "% of CPU time", "sleeps", "asleep s"];
    let mut table = table(columns, &header);
    for measured in &report.schedulers {
        let waits = &measured.waits;
        table.add_row(row([
            measured.scheduler.clone(),
            count(waits.spins),
            format!("{:.6}", waits.spin_s),
            format!("{:.3}", waits.spin_cpu_percent),
            count(waits.sleeps),
            format!("{:.6}", waits.sleep_s),
        ]));
    }
    table
}

fn sites(report: &LocksReport, columns: u16) -> Table {
    let mut table = table(columns, &["scheduler", "waits", "s", "how", "where"]);
    for measured in &report.schedulers {
        for site in measured.waits.sites.iter().take(SITES) {
            let how = if site.spins { "spins" } else { "sleeps" };
            let mut cells = row([
                measured.scheduler.clone(),
                count(site.waits),
                format!("{:.6}", site.wait_s),
                how.into(),
            ]);
            cells.push(Cell::new(site.functions.join(" ‹ ")));
            table.add_row(cells);
        }
    }
    table
}

/// Names to the left, figures to the right.
fn row(texts: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let align = |index| if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
    texts.into_iter().enumerate().map(|(index, text)| Cell::new(text).set_alignment(align(index))).collect()
}

fn table(columns: u16, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING.header_separator(LineStyle::none().fill('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns)
        .force_no_tty()
        .set_header(header.iter().map(Cell::new));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Everything that a result must name besides itself.
fn caption(machine: &Machine, command: &str, policy: &str, version: &str) -> String {
    let clock = clock(machine);
    format!(
        "{clock} · kernel {} · {} CPUs · {policy} {version} · {command} · one run of each\n",
        machine.kernel, machine.cpus
    )
}

/// The clock's name, without settings.
fn clock_name(machine: &Machine) -> Option<&str> {
    machine.clock.as_ref().map(|clock| clock.split(':').next().unwrap_or(clock))
}

/// What a nanosecond is on this machine.
fn clock(machine: &Machine) -> String {
    let settings =
        machine.clock.as_ref().and_then(|clock| clock.split_once(':')).map(|(_, settings)| settings);
    match (clock_name(machine), settings) {
        (Some("parallel"), None) => "parallel clock (on each CPU 1 ns is 1 instruction)".into(),
        (Some("parallel"), Some(settings)) => {
            format!("parallel clock (on each CPU 1 ns is 1 instruction; {settings})")
        }
        // The clock's old name.
        (Some("work" | "instructions"), _) => "work clock (1 ns is 1 instruction of any CPU)".into(),
        (Some(_), _) => "wall clock".into(),
        (None, _) => "the machine's own clock".into(),
    }
}

/// On the work clock the command's own figure is not a time.
fn command_took(machine: &Machine) -> &'static str {
    match clock_name(machine) {
        Some("work" | "instructions") => "the command's work was",
        _ => "the command took",
    }
}

/// 1,234,567
fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits() {
        assert_eq!([0, 999, 1000, 42184784].map(count), ["0", "999", "1,000", "42,184,784"]);
    }

    #[test]
    fn the_clock_is_named_with_its_settings() {
        let on =
            |clock: Option<&str>| Machine { kernel: "6.18".into(), cpus: 4, clock: clock.map(Into::into) };
        let parallel = clock(&on(Some("parallel:turn=250")));
        assert_eq!(parallel, "parallel clock (on each CPU 1 ns is 1 instruction; turn=250)");
        assert_eq!(clock(&on(Some("wall"))), "wall clock");
        assert_eq!(clock(&on(None)), "the machine's own clock");
        for name in ["work", "instructions"] {
            assert!(clock(&on(Some(name))).starts_with("work clock"));
            assert!(!command_took(&on(Some(name))).contains("took"));
        }
        assert_eq!(command_took(&on(Some("parallel"))), "the command took");
    }

    #[test]
    fn absent_is_not_zero() {
        assert_eq!(cost(&Cost::Absent), "absent");
        assert_eq!(calls(0, 0.0), "–");
        assert_eq!(calls(24557, 1832.4), "24,557 @ 1,832");
    }
}
