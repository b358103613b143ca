//! `conformance`: the simulator's figures beside a kernel's, as the test of conformance has recorded them.
use super::table::{head, line};
use super::{Context, Rendered, required};
use crate::markers::Request;
use flsched_sim::conformance::{Entry, Figures, Record, TOLERANCE};
use flsched_spec::UsageError;

/// `show=tally`: how many entries agree; `show=entries`: each one.
pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let record = context.store.read(required(request, "file")?, |bytes| {
        serde_json::from_slice::<Record>(bytes)
            .map_err(|error| format!("is no record of conformance: {error}"))
    })?;
    let text = match required(request, "show")? {
        "tally" => tally(&record),
        "entries" => entries(&record),
        other => return Err(UsageError::unknown("part", other, &["tally", "entries"]).to_string()),
    };
    Ok(Rendered { text, pictures: Vec::new() })
}

/// A row for each number of CPUs.
fn tally(record: &Record) -> String {
    let mut sizes: Vec<usize> = record.entries.iter().map(|entry| entry.cpus).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut titles = vec!["CPUs".to_owned(), "entries".to_owned(), "all figures".to_owned()];
    titles.extend(Figures::NAMES.map(str::to_owned));
    let row = |name: String, entries: Vec<&Entry>| {
        let count =
            |is: &dyn Fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count().to_string();
        let mut cells = vec![name, entries.len().to_string(), count(&Entry::agrees)];
        cells.extend(
            (0..titles.len() - 3).map(|index| count(&|entry| entry.deviations()[index] <= TOLERANCE)),
        );
        line(&cells)
    };
    let mut lines = head(&titles);
    for cpus in sizes {
        lines.push(row(cpus.to_string(), record.entries.iter().filter(|entry| entry.cpus == cpus).collect()));
    }
    lines.push(row("all".into(), record.entries.iter().collect()));
    let source = format!(
        "Entries that agree. Clock: {}; kernel {}; medians of {} runs on the kernel and of {} seeds in the simulator.",
        record.clock, record.kernel, record.plays, record.seeds
    );
    lines.extend([String::new(), source]);
    lines.join("\n")
}

/// Kernel/simulator of each figure; in bold what does not agree.
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
            if deviation <= TOLERANCE { both } else { format!("**{both}**") }
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
        let entry = |cpus, simulator| Entry {
            scenario: "chain".into(),
            cpus,
            scheduler: "eevdf".into(),
            kernel: figures(1500.0, 300.0),
            simulator,
        };
        Record {
            kernel: "6.18".into(),
            clock: "parallel".into(),
            plays: 3,
            seeds: 5,
            entries: vec![entry(1, figures(1500.0, 290.0)), entry(4, figures(3000.0, 300.0))],
        }
    }

    #[test]
    fn counts_what_agrees() {
        let text = tally(&record());
        assert!(text.contains("| 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |"), "{text}");
        assert!(text.contains("| 4 | 1 | 0 | 0 | 1 | 1 | 1 | 1 |"), "{text}");
        assert!(text.contains("| all | 2 | 1 | 1 | 2 | 2 | 2 | 2 |"), "{text}");
    }

    #[test]
    fn what_does_not_agree_is_bold() {
        let text = entries(&record());
        assert!(
            text.contains("| `chain` | 1 | `eevdf` | 1.5/1.5 | 300/290 | 0/0 | 5.0/5.0 | –/– |"),
            "{text}"
        );
        assert!(text.contains("| `chain` | 4 | `eevdf` | **1.5/3.0** |"), "{text}");
    }
}
