//! A run's figures for the terminal.
use super::{FrequencyReport, Outcome};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use indicatif::HumanCount;
use std::fmt::Write;

/// The main figures as a table that fits on a screen.
pub fn render(outcome: &Outcome) -> String {
    let mut text = format!(
        "{} under {}, on {} ({} CPUs), seed {}; clock: model\n\n",
        outcome.workload, outcome.scheduler, outcome.machine, outcome.cpus, outcome.seed
    );
    let latency: Vec<String> =
        outcome.wakeup_latency_us.iter().map(|(name, us)| format!("{name} {us:.1} µs")).collect();
    let time_is = outcome.time_is.map(|what| format!(" ({what})")).unwrap_or_default();
    let own: Vec<String> = outcome.figures.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
    let rows = [
        ("time", format!("{:.9} s{time_is}", outcome.time_s)),
        ("the workload reports", own.join(", ")),
        ("whole run", format!("{:.6} s, {} tasks", outcome.whole_s, outcome.tasks)),
        ("context switches", count(outcome.context_switches)),
        ("migrations", count(outcome.migrations)),
        ("wake-ups", count(outcome.wakeups)),
        ("yields", count(outcome.yields)),
        ("CPUs not idle", format!("{:.2} % of the whole run", outcome.busy_share * 100.0)),
        ("waiting for locks", format!("{:.2} % of the whole run", outcome.lock_wait_share * 100.0)),
        ("frequency while busy", outcome.frequencies.as_ref().map_or(String::new(), mean_frequency)),
        ("energy of the whole run", energy(outcome)),
        ("wake-up to running", latency.join(", ")),
        ("CPU time rests on", outcome.cpu_time.rests_on()),
        ("largest unmeasured prices", outcome.cpu_time.least_sure()),
        ("fairness", format!("{:.4} (1: all tasks got the same share)", outcome.fairness)),
    ];
    let mut table = empty(&[]);
    for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
        table.add_row([name, &value]);
    }
    let _ = writeln!(text, "{table}\n");

    if let Some(replayed) = &outcome.replayed {
        let recorded = format!("recorded, {}", replayed.recorded_under);
        let simulated = format!("simulated, {}", outcome.scheduler);
        let mut table = empty(&["", &recorded, &simulated, "simulated / recorded"]);
        for [name, recorded, simulated, ratio] in replayed.rows() {
            table.add_row(numbers(&name, [recorded, simulated, ratio]));
        }
        let _ = writeln!(text, "{table}\n");
    }

    if let Some(frequencies) = &outcome.frequencies {
        let mut table = empty(&["MHz, from", "% of busy time"]);
        for (mhz, share) in frequencies.shares() {
            table.add_row(numbers(&count(mhz.into()), [format!("{:.1}", share * 100.0)]));
        }
        let _ = writeln!(text, "{table}\n");
    }

    let mut table = empty(&["callback", "calls", "mean ns", "total ms"]);
    for callback in outcome.callbacks.iter().filter(|callback| callback.calls > 0) {
        let mean = callback.ns as f64 / callback.calls as f64;
        let total = callback.ns as f64 / 1e6;
        table.add_row(numbers(
            callback.name,
            [count(callback.calls), format!("{mean:.0}"), format!("{total:.1}")],
        ));
    }
    let _ = writeln!(text, "{table}\n");

    let mut table = empty(&["lock", "taken", "waited for", "waiting ms", "% of all CPUs' time", "held ms"]);
    for (name, lock) in outcome.locks.iter().filter(|(_, lock)| lock.taken > 0) {
        let ms = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
        let share = format!("{:.3}", lock.wait_share * 100.0);
        table.add_row(numbers(
            name,
            [count(lock.taken), count(lock.contended), ms(lock.spun_ns), share, ms(lock.held_ns)],
        ));
    }
    let _ = writeln!(text, "{table}");
    if outcome.stats.values().any(|&value| value > 0) {
        let mut table = empty(&["counted by the policy", ""]);
        for (name, value) in outcome.stats.iter().filter(|(_, value)| **value > 0) {
            table.add_row(numbers(name, [count(*value)]));
        }
        let _ = writeln!(text, "\n{table}");
    }
    text
}

fn mean_frequency(frequencies: &FrequencyReport) -> String {
    format!("{:.0} MHz, mean of all CPUs", frequencies.busy_mhz)
}

fn energy(outcome: &Outcome) -> String {
    let Some(energy) = outcome.frequencies.as_ref().and_then(|all| all.energy) else { return String::new() };
    let certainty: &str = energy.certainty.into();
    format!("{:.3} J, {:.3} J of it in cores; {certainty}", energy.energy_j, energy.core_energy_j)
}

fn empty(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

fn numbers<const N: usize>(name: &str, values: [String; N]) -> Vec<Cell> {
    let right = |value| Cell::new(value).set_alignment(CellAlignment::Right);
    std::iter::once(Cell::new(name)).chain(values.into_iter().map(right)).collect()
}

/// A number with commas between thousands.
fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        assert_eq!(
            [0, 999, 1000, 42_479_016].map(count),
            ["0", "999", "1,000", "42,479,016"].map(String::from)
        );
    }
}
