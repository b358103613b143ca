//! Sentences and cells that several kinds of blocks share.
use crate::command;
use crate::store::{clock_name, counts_work};
use crate::view::{Row, View};
use flsched_base::Arch;
use flsched_compare::Report;
use flsched_compare::report::words::{ratio, ratio_interval};
use flsched_compare::result::{ArmResult, FailureKind};
use flsched_compare::verdict::Verdict;
use std::rc::Rc;

/// What the figures are of: work where the clock counts instructions, else time.
pub(super) fn quantity(report: &Report) -> &'static str {
    if counts_work(&clock_name(report)) { "work" } else { "time" }
}

/// The architecture that is not named, and that reports without one are of.
const USUAL: &str = Arch::X86.name();

/// Where and when, in a line; everything from the reports.
pub(super) fn header(reports: &[Rc<Report>]) -> String {
    let first = &reports[0];
    let each = |of: &dyn Fn(&Report) -> String| {
        let mut texts: Vec<String> = reports.iter().map(|it| of(it)).filter(|it| !it.is_empty()).collect();
        texts.sort();
        texts.dedup();
        texts.join(" and ")
    };
    let mut cpus: Vec<u32> = reports.iter().map(|it| it.cpus).collect();
    cpus.dedup();
    let cpus = match cpus.as_slice() {
        [1] => "1 CPU".to_string(),
        several => format!("{} CPUs", several.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    let architecture = |report: &Report| report.environment.architecture.clone().unwrap_or(USUAL.into());
    let architecture = Some(each(&architecture)).filter(|it| it != USUAL).unwrap_or_default();
    let parts = [
        format!("clock {}", clock_name(first)),
        format!("kernel {}", first.kernel),
        cpus,
        architecture,
        each(&place),
        format!("{} runs of each, interleaved, medians", each(&|it| it.runs.to_string())),
        each(&|it| it.started_at.chars().take(10).collect()),
        format!("flsched {}", each(&|it| it.flsched_version.clone())),
    ];
    parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// What executed it: QEMU with its accelerator, or a model.
fn place(report: &Report) -> String {
    match (&report.environment.vm, &report.environment.model) {
        (Some(vm), _) => {
            let version = vm.qemu_version.as_deref().unwrap_or_default();
            // `QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)`.
            let version = version.split_once("version ").map_or(version, |(_, rest)| rest);
            let version = version.split(' ').next().unwrap_or_default();
            format!("QEMU {version} ({})", vm.accel).replace("  ", " ")
        }
        (None, Some(model)) => format!("model of {model}"),
        (None, None) => report.environment.cpu_model.clone().unwrap_or_default(),
    }
}

/// The command lines that measured it, to be copied.
pub(super) fn commands(view: &View) -> String {
    let has_floor = view.rows.iter().any(|row| row.floor_s.is_some());
    let floors = view.floors.iter().filter(|_| has_floor);
    commands_of(view.reports.iter().chain(floors))
}

/// Those that measured these reports.
pub(super) fn commands_of<'a>(reports: impl Iterator<Item = &'a Rc<Report>>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for report in reports {
        let line = command::wrapped(&command::published(&report.command_line));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    format!("<details><summary>Measured with</summary>\n\n```sh\n{}\n```\n\n</details>", lines.join("\n"))
}

/// The text in place of a missing report: the command lines that measure it.
pub(super) fn not_measured(lines: &[String]) -> String {
    format!("Not measured yet:\n\n```sh\n{}\n```", lines.join("\n"))
}

/// How far the first scheduler differs from itself in this row.
pub(super) fn noise(row: &Row) -> String {
    row.noise.map_or("–".into(), |noise| format!("{:.2}–{:.2}", noise.low, noise.high))
}

/// `1.69× [1.61–1.77]`; `None`: no run has a time.
pub(super) fn ratio_text(result: &ArmResult) -> Option<String> {
    Some(format!("{} {}", ratio(result.ratio_to_first?), ratio_interval(result)?))
}

/// The ratio with its verdict, which must be visible where it is not "better".
pub(super) fn verdict_text(result: &ArmResult, quantity: &str) -> Option<String> {
    let ratio = ratio_text(result)?;
    Some(match (result.verdict, quantity) {
        (Verdict::CantTell, _) => format!("*≈ {ratio}*"),
        (Verdict::Worse, "work") => format!("{ratio} more work"),
        (Verdict::Worse, _) => format!("{ratio} slower"),
        (Verdict::Better | Verdict::Baseline, _) => ratio,
    })
}

/// Runs without a time: `ejected in 1 of 5 runs`.
pub(super) fn failures(result: &ArmResult) -> Option<String> {
    let count = |kind| result.failed.iter().filter(|failure| failure.kind == kind).count();
    let parts: Vec<String> = [
        ("ejected", FailureKind::Ejected),
        ("failed", FailureKind::Failed),
        ("hung", FailureKind::Hung),
        ("not tried", FailureKind::NotTried),
    ]
    .into_iter()
    .map(|(what, kind)| (what, count(kind)))
    .filter(|(_, count)| *count > 0)
    .map(|(what, count)| format!("{what} in {count} of {} runs", result.runs))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A workload's name, and what its time is where that is not how long it takes.
pub(super) fn workload(row: &Row) -> String {
    // A bar would end the cell.
    let name = format!("`{}`", row.workload.replace('|', "\\|"));
    match &row.time_is {
        Some(what) => format!("{name}<br>({what})"),
        None => name,
    }
}
