//! `recordings`: what loads came to, recorded and replayed, as the test of recordings has found it.
use super::table::{head, line};
use super::{Context, Rendered, required};
use crate::markers::Request;
use crate::store::kept;
use flsched_recording::replays::{Entry, Replays, TOLERANCE};

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let replays = context.store.read(required(request, "file")?, kept::<Replays>)?;
    Ok(Rendered { text: table(&replays), pictures: Vec::new() })
}

/// A row for each load and scheduler.
fn table(replays: &Replays) -> String {
    let titles = [
        "load",
        "scheduler",
        "time, s",
        "times as fast as EEVDF",
        "switches",
        "migrations",
        "utilisation, %",
        "p50, µs",
        "p99, µs",
    ];
    let mut lines = head(&titles.map(str::to_owned));
    lines.extend(replays.entries.iter().map(|entry| row(replays, entry)));
    let commands: Vec<String> = replays
        .entries
        .iter()
        .filter(|entry| entry.scheduler == "eevdf")
        .map(|entry| format!("{}: `{}`", entry.load, shown(&entry.command)))
        .collect();
    let source = format!(
        "Recorded/replayed. Clock: {}; kernel {}; {} CPUs; medians of {} recordings and of {} replays of each recording \
         under EEVDF. {}.",
        replays.clock,
        replays.kernel,
        replays.cpus,
        replays.recordings,
        replays.seeds,
        commands.join("; ")
    );
    lines.extend([String::new(), source]);
    lines.join("\n")
}

/// Of the recorded scheduler, figures of which replays do not agree with their own recordings are bold.
fn row(replays: &Replays, entry: &Entry) -> String {
    let (recorded, simulated) = (&entry.recorded, &entry.simulated);
    let both =
        |of: &dyn Fn(&flsched_recording::Figures) -> String| format!("{}/{}", of(recorded), of(simulated));
    let judged = |name: &str, text: String| {
        let is_far =
            |(judged, ratio): (&str, f64)| judged == name && ratio.max(1.0 / ratio) - 1.0 > TOLERANCE;
        match entry.scheduler == "eevdf" && entry.ratios().named().into_iter().any(is_far) {
            true => format!("**{text}**"),
            false => text,
        }
    };
    let gain = match replays.find(&entry.load, "eevdf") {
        Some(base) if base != entry => format!(
            "{:.2}/{:.2}",
            base.recorded.elapsed_s / recorded.elapsed_s,
            base.simulated.elapsed_s / simulated.elapsed_s
        ),
        _ => "–".into(),
    };
    line(&[
        entry.load.clone(),
        format!("`{}`", entry.scheduler),
        both(&|it| format!("{:.3}", it.elapsed_s)),
        gain,
        judged("switches", both(&|it| it.switches.to_string())),
        both(&|it| it.migrations.to_string()),
        judged("utilisation", both(&|it| format!("{:.0}", 100.0 * it.utilisation))),
        both(&|it| format!("{:.0}", it.latency_p50_us)),
        judged("p99", both(&|it| format!("{:.0}", it.latency_p99_us))),
    ])
}

/// Without folders, which only the test knows.
fn shown(command: &str) -> String {
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let is_path = |word: &&str| !word.starts_with("/tmp");
    let words = command
        .split(' ')
        .filter(is_path)
        .map(|word| if word.starts_with('/') { name(word) } else { word.into() });
    words.collect::<Vec<_>>().join(" ").replace(" -C", "").replace(" -h", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flsched_recording::Figures;
    use flsched_recording::replays::Ratios;

    fn entry(scheduler: &str, recorded: (f64, u64), simulated: (f64, u64)) -> Entry {
        let figures = |(elapsed_s, switches)| Figures {
            elapsed_s,
            switches,
            migrations: 7,
            utilisation: 0.5,
            latency_p50_us: 4.6,
            latency_p99_us: 100.0,
        };
        Entry {
            load: "build".into(),
            command: "/usr/bin/make -j8 -C /tmp/x/src".into(),
            scheduler: scheduler.into(),
            recorded: figures(recorded),
            simulated: figures(simulated),
            ratios: None,
        }
    }

    #[test]
    fn shows_both_and_the_gain_and_what_is_far_off() {
        let replays = Replays {
            kernel: "6.18".into(),
            clock: "parallel".into(),
            cpus: 4,
            recordings: 3,
            seeds: 5,
            entries: vec![
                entry("eevdf", (1.2, 1000), (1.1, 1200)),
                entry("flsched", (1.0, 1000), (1.0, 5000)),
            ],
        };
        let text = table(&replays);
        assert!(
            text.contains(
                "| build | `eevdf` | 1.200/1.100 | – | **1000/1200** | 7/7 | 50/50 | 5/5 | 100/100 |"
            ),
            "{text}"
        );
        assert!(text.contains("| build | `flsched` | 1.000/1.000 | 1.20/1.10 | 1000/5000 |"), "{text}");
        assert!(text.ends_with("build: `make -j8`."), "{text}");
        // Replays that match their own recordings are not far off, however the medians differ.
        let ratios = Some(Ratios { switches: 1.1, utilisation: 1.0, p99: 1.2 });
        let entries = vec![Entry { ratios, ..replays.entries[0].clone() }];
        let text = table(&Replays { entries, ..replays });
        assert!(text.contains("| 1000/1200 | 7/7 | 50/50 | 5/5 | **100/100** |"), "{text}");
    }
}
