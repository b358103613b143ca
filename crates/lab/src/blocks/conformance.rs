//! `conformance`: the simulator's figures beside a kernel's, as the test of conformance has recorded them.
use super::table::{head, line};
use super::{Context, Rendered, required};
use crate::markers::Request;
use crate::store::kept;
use flsched_sim::conformance::{Entry, Figures, Record, TOLERANCE};
use flsched_spec::UsageError;
use std::collections::BTreeSet;

/// `show=tally`: how many entries agree; `show=entries`: each one.
pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let record = context.store.read(required(request, "file")?, kept::<Record>)?;
    let text = match required(request, "show")? {
        "tally" => tally(&record),
        "entries" => entries(&record),
        other => return Err(UsageError::unknown("part", other, &["tally", "entries"]).to_string()),
    };
    Ok(Rendered { text, pictures: Vec::new() })
}

/// A row for each number of CPUs; in brackets how often the kernel agrees with itself.
fn tally(record: &Record) -> String {
    let mut sizes: Vec<usize> = record.entries.iter().map(|entry| entry.cpus).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut titles = vec!["CPUs".to_owned(), "entries".to_owned(), "all figures".to_owned()];
    titles.extend(Figures::NAMES.map(str::to_owned));
    let row = |name: String, entries: Vec<&Entry>| {
        let count = |is: &dyn Fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
        let both = |agrees: &dyn Fn(&Entry) -> bool, repeats: &dyn Fn(&Entry) -> bool| {
            format!("{} ({})", count(agrees), count(repeats))
        };
        let mut cells = vec![name, entries.len().to_string(), both(&Entry::agrees, &Entry::repeats)];
        cells.extend((0..titles.len() - 3).map(|index| {
            let repeats = |entry: &Entry| entry.noise().is_some_and(|noise| noise[index] <= TOLERANCE);
            both(&|entry| entry.deviations()[index] <= TOLERANCE, &repeats)
        }));
        line(&cells)
    };
    let mut lines = head(&titles);
    for cpus in sizes {
        lines.push(row(cpus.to_string(), record.entries.iter().filter(|entry| entry.cpus == cpus).collect()));
    }
    lines.push(row("all".into(), record.entries.iter().collect()));
    let repeat: Vec<&Entry> = record.entries.iter().filter(|entry| entry.repeats()).collect();
    let of_these = repeat.iter().filter(|entry| entry.agrees()).count();
    let source = format!(
        "Entries that agree; in brackets those in which two measurements on the kernel agree. These are {}, and in {of_these} of \
         them the simulator agrees, too. Clock: {}; kernel {}; medians of {} runs on the kernel, and of {} seeds in the simulator.",
        repeat.len(),
        record.clock,
        record.kernel,
        counts(record, |entry| entry.plays as u64),
        counts(record, |entry| entry.seeds)
    );
    lines.extend([String::new(), source]);
    lines.join("\n")
}

/// The number of runs, or the different ones.
fn counts(record: &Record, of: fn(&Entry) -> u64) -> String {
    let counts: BTreeSet<u64> = record.entries.iter().map(of).collect();
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ")
}

/// Kernel/simulator of each figure; in bold what does not agree, *≈* if the kernel does not agree with itself either.
fn entries(record: &Record) -> String {
    let mut titles = vec!["scenario".to_owned(), "CPUs".to_owned(), "scheduler".to_owned()];
    titles.extend(["time, ms", "switches", "migrations", "p50, µs", "p99, µs"].map(str::to_owned));
    let row = |entry: &Entry| {
        let (kernel, simulator) = (entry.kernel.all(), entry.simulator.all());
        let mut cells =
            vec![format!("`{}`", entry.scenario), entry.cpus.to_string(), format!("`{}`", entry.scheduler)];
        cells.extend(entry.deviations().into_iter().enumerate().map(|(index, deviation)| {
            let show = |value: f64| match index {
                0 => format!("{:.1}", value / 1000.0),
                1 | 2 => format!("{value:.0}"),
                _ if value == 0.0 => "–".to_owned(),
                _ => format!("{value:.1}"),
            };
            let both = format!("{}/{}", show(kernel[index]), show(simulator[index]));
            let repeats = entry.noise().is_none_or(|noise| noise[index] <= TOLERANCE);
            match (deviation <= TOLERANCE, repeats) {
                (true, _) => both,
                (false, true) => format!("**{both}**"),
                (false, false) => format!("*≈ {both}*"),
            }
        }));
        line(&cells)
    };
    let mut lines = head(&titles);
    lines.extend(record.entries.iter().map(row));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let figures = |time_us, switches| Figures {
            time_us,
            switches,
            migrations: 0.0,
            wakeup_p50_us: 5.0,
            wakeup_p99_us: 0.0,
        };
        let entry = |cpus, again, simulator| Entry {
            scenario: "chain".into(),
            cpus,
            scheduler: "eevdf".into(),
            plays: 3,
            seeds: 5,
            kernel: figures(1500.0, 300.0),
            again: Some(again),
            simulator,
        };
        Record {
            kernel: "6.18".into(),
            clock: "parallel".into(),
            entries: vec![
                entry(1, figures(1500.0, 300.0), figures(1500.0, 290.0)),
                entry(4, figures(1600.0, 400.0), figures(3000.0, 400.0)),
            ],
        }
    }

    #[test]
    fn counts_what_agrees() {
        let text = tally(&record());
        assert!(text.contains("| 1 | 1 | 1 (1) | 1 (1) | 1 (1) | 1 (1) | 1 (1) | 1 (1) |"), "{text}");
        assert!(text.contains("| 4 | 1 | 0 (0) | 0 (1) | 0 (0) | 1 (1) | 1 (1) | 1 (1) |"), "{text}");
        assert!(text.contains("| all | 2 | 1 (1) | 1 (2) | 1 (1) | 2 (2) | 2 (2) | 2 (2) |"), "{text}");
        assert!(text.contains("These are 1, and in 1 of them"), "{text}");
    }

    #[test]
    fn what_does_not_agree_is_bold() {
        let text = entries(&record());
        assert!(
            text.contains("| `chain` | 1 | `eevdf` | 1.5/1.5 | 300/290 | 0/0 | 5.0/5.0 | –/– |"),
            "{text}"
        );
        assert!(text.contains("| `chain` | 4 | `eevdf` | **1.5/3.0** | *≈ 300/400* |"), "{text}");
    }
}
