//! `robustness`: what loads came to under the policies and EEVDF, and the faults, as the test of robustness has found them.
use super::table::{head, line};
use super::{Context, Rendered, required};
use crate::markers::Request;
use crate::robustness::judge::{Fault, bound_ms, faults, ratio};
use crate::robustness::known::Known;
use crate::robustness::report::{BASE, BASE_AGAIN, Entry, Report, is_policy};
use crate::store::kept;
use flsched_compare::stats::Estimate;
use flsched_spec::UsageError;

const SHOWN: [&str; 2] = ["faults", "loads"];

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    required(request, "file")?;
    let files = request.list("file").unwrap_or_default();
    let reports =
        files.iter().map(|file| context.store.read(file, kept::<Report>)).collect::<Result<Vec<_>, _>>()?;
    let text = match required(request, "show")? {
        "faults" => table_of_faults(&reports, &Known::all()?),
        "loads" => table_of_loads(&reports),
        other => {
            let shown = SHOWN.map(str::to_owned);
            return Err(UsageError::unknown("part of robustness", other, &shown).to_string());
        }
    };
    Ok(Rendered { text, pictures: Vec::new() })
}

/// Faults that are not known come first, then by kind.
fn table_of_faults(reports: &[Report], known: &[Known]) -> String {
    let mut rows: Vec<(Option<&str>, Fault, &str)> = Vec::new();
    for report in reports {
        for fault in report.entries.iter().flat_map(faults) {
            let reason = known.iter().find(|known| known.is(&report.kernel, &fault));
            rows.push((reason.map(|known| known.reason.as_str()), fault, &report.kernel));
        }
    }
    rows.sort();
    let count: usize =
        reports.iter().map(|report| report.entries.iter().map(policies_of).sum::<usize>()).sum();
    let mut lines = vec![format!("{} faults in {count} loads under policies.", rows.len()), String::new()];
    if !rows.is_empty() {
        let titles = ["kernel", "load", "per CPU", "scheduler", "fault", "what", "reason"];
        lines.extend(head(&titles.map(str::to_owned)));
        lines.extend(rows.into_iter().map(|(reason, fault, kernel)| {
            line(&[
                series(kernel),
                format!("`{}`", fault.load),
                fault.per_cpu.to_string(),
                format!("`{}`", fault.scheduler),
                fault.kind.text().to_owned(),
                fault.text.replace('|', "/"),
                reason.unwrap_or("**not known**").to_owned(),
            ])
        }));
        lines.push(String::new());
    }
    lines.extend(reports.iter().map(|report| format!("- {}", measured_with(report))));
    lines.join("\n")
}

fn policies_of(entry: &Entry) -> usize {
    entry.arms.iter().filter(|arm| is_policy(&arm.scheduler)).count()
}

/// A row for each load, kernel and number of instances; that with the lowest throughput under a policy comes first.
fn table_of_loads(reports: &[Report]) -> String {
    let mut policies: Vec<&str> = Vec::new();
    let entries =
        || reports.iter().flat_map(|report| report.entries.iter().map(move |entry| (report, entry)));
    for arm in entries().flat_map(|(_, entry)| &entry.arms) {
        if is_policy(&arm.scheduler) && !policies.contains(&arm.scheduler.as_str()) {
            policies.push(&arm.scheduler);
        }
    }
    let mut titles =
        ["kernel", "load", "per CPU", "`eevdf`, 1/s", "noise", "wait, ms"].map(str::to_owned).to_vec();
    for policy in &policies {
        titles.extend([format!("`{policy}`"), "wait, ms".to_owned()]);
    }
    let mut rows: Vec<(f64, Vec<String>)> =
        entries().map(|(report, entry)| (worst(entry, &policies), row(report, entry, &policies))).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lines = head(&titles);
    lines.extend(rows.iter().map(|(_, cells)| line(cells)));
    lines.extend([String::new()]);
    lines.extend(reports.iter().map(|report| format!("- {}", measured_with(report))));
    lines.join("\n")
}

/// Loads without a throughput come last.
fn worst(entry: &Entry, policies: &[&str]) -> f64 {
    let ratios = policies.iter().filter_map(|policy| ratio(entry, policy));
    ratios.map(|ratio| ratio.value).fold(f64::INFINITY, f64::min)
}

fn row(report: &Report, entry: &Entry, policies: &[&str]) -> Vec<String> {
    let faults = faults(entry);
    let is_fault = |policy: &str, kind| faults.iter().any(|it| it.scheduler == policy && it.kind == kind);
    let bold = |text: String, is_bold| if is_bold { format!("**{text}**") } else { text };
    let base = entry.arm(BASE);
    let rate = base.and_then(|arm| flsched_compare::stats::median(&arm.rates()));
    let mut cells = vec![
        series(&report.kernel),
        format!("`{}`", entry.load),
        entry.per_cpu.to_string(),
        rate.map_or("–".into(), three_digits),
        ratio(entry, BASE_AGAIN).map_or("–".into(), times),
        wait(entry, BASE),
    ];
    for policy in policies {
        use crate::robustness::report::Kind;
        let text = ratio(entry, policy).map_or("–".into(), times);
        cells.push(bold(text, is_fault(policy, Kind::Throughput)));
        let bound = entry.arm(policy).and_then(|arm| bound_ms(policy, arm.runnable()));
        let bound = bound.map_or(String::new(), |bound| format!(" of {bound:.0}"));
        cells.push(bold(wait(entry, policy), is_fault(policy, Kind::Wait)) + &bound);
    }
    cells
}

fn wait(entry: &Entry, scheduler: &str) -> String {
    entry.arm(scheduler).map_or("–".into(), |arm| three_digits(arm.longest_wait_ms()))
}

fn times(ratio: Estimate) -> String {
    let Estimate { value, low, high } = ratio;
    // One run has no interval.
    if (low - high).abs() < f64::EPSILON {
        format!("{value:.2}×")
    } else {
        format!("{value:.2}× [{low:.2}–{high:.2}]")
    }
}

fn three_digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// 6.18 of 6.18.15+deb13-cloud-amd64.
fn series(release: &str) -> String {
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn measured_with(report: &Report) -> String {
    let Report { kernel, clock, cpus, date, flsched_version, entries } = report;
    let runs = entries.iter().flat_map(|entry| &entry.arms).map(|arm| arm.runs.len());
    let (least, most) = (runs.clone().min().unwrap_or(0), runs.max().unwrap_or(0));
    let runs = if least == most { least.to_string() } else { format!("{least} to {most}") };
    format!(
        "Clock {clock} · kernel {kernel} · {cpus} CPUs · runs of each: {runs} · {date} · flsched {flsched_version}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robustness::report::{Arm, Run};

    fn report() -> Report {
        let arm = |scheduler: &str, rate, longest_wait_ms| Arm {
            scheduler: scheduler.into(),
            runs: vec![Run { rate: Some(rate), longest_wait_ms, runnable: 8, troubles: Vec::new() }],
        };
        let entry = |load: &str, rate, wait| Entry {
            load: load.into(),
            per_cpu: 4,
            command: format!("stress-ng --{load} 8 -t 1"),
            realtime: false,
            arms: vec![arm(BASE, 1000.0, 3.0), arm("flsched", rate, wait), arm(BASE_AGAIN, 900.0, 4.0)],
        };
        Report {
            kernel: "6.18.15+deb13-cloud-amd64".into(),
            clock: "parallel".into(),
            cpus: 2,
            date: "2026-11-28".into(),
            flsched_version: "0.1.0".into(),
            entries: vec![entry("pipe", 1500.0, 20.0), entry("sem", 300.0, 120.0)],
        }
    }

    #[test]
    fn the_slowest_comes_first_and_faults_are_bold() {
        let text = table_of_loads(&[report()]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(rows[0], "| 6.18 | `sem` | 4 | 1000 | 0.90× | 3.00 | **0.30×** | **120** of 104 |");
        assert_eq!(rows[1], "| 6.18 | `pipe` | 4 | 1000 | 0.90× | 3.00 | 1.50× | 20.0 of 104 |");
        assert!(text.ends_with("2 CPUs · runs of each: 1 · 2026-11-28 · flsched 0.1.0"), "{text}");
    }

    #[test]
    fn faults_that_are_not_known_come_first() {
        let known = "load='sem'\nkind='wait'\nschedulers=['flsched']\nreason='so it is'";
        let text = table_of_faults(&[report()], &[toml::from_str(known).unwrap()]);
        let rows: Vec<&str> = text.lines().skip(4).take(2).collect();
        assert!(text.starts_with("2 faults in 2 loads under policies."), "{text}");
        assert!(rows[0].contains("| throughput |") && rows[0].ends_with("**not known** |"), "{text}");
        assert!(rows[1].contains("| wait |") && rows[1].ends_with("| so it is |"), "{text}");
    }
}
