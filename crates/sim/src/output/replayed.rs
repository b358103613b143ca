//! A replay beside the recording.
use crate::core::{Before, Core};
use crate::workload::World;
use flsched_recording::Figures;
use serde::Serialize;

/// A load as it was recorded, and as the simulator has done it again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replayed {
    /// The scheduler under which it was recorded.
    pub recorded_under: String,
    pub recorded: Figures,
    /// What the simulator made of it.
    pub simulated: Figures,
}

impl Replayed {
    pub(super) fn of(recorded: (&str, &Figures), core: &Core, world: &World) -> Self {
        let before = &core.before;
        let end = core.cpus.iter().map(|cpu| cpu.clock).max().unwrap_or(0);
        let span = world.stopped_at.unwrap_or(end).saturating_sub(world.started_at.unwrap_or(0)).max(1);
        let ran = Before::now(core).ran - before.ran;
        let latency = core.counts.latency.since(&before.counts.latency);
        let us = |share| latency.percentile(share).unwrap_or(0) as f64 / 1000.0;
        Self {
            recorded_under: recorded.0.to_owned(),
            recorded: recorded.1.clone(),
            simulated: Figures {
                elapsed_s: world.own_time_s.unwrap_or(span as f64 / 1e9),
                switches: core.counts.switches - before.counts.switches,
                migrations: core.counts.migrations - before.counts.migrations,
                utilisation: ran as f64 / (span as f64 * core.nr_cpus() as f64),
                latency_p50_us: us(0.5),
                latency_p99_us: us(0.99),
            },
        }
    }

    /// Name, recorded, simulated, and the second over the first.
    pub(super) fn rows(&self) -> Vec<[String; 4]> {
        let (recorded, simulated) = (&self.recorded, &self.simulated);
        let row = |name: &str, of: &dyn Fn(&Figures) -> f64, digits: usize| {
            let (recorded, simulated) = (of(recorded), of(simulated));
            let ratio = if recorded > 0.0 { format!("{:.2}", simulated / recorded) } else { "-".into() };
            [name.to_owned(), format!("{recorded:.digits$}"), format!("{simulated:.digits$}"), ratio]
        };
        vec![
            row("elapsed time, s", &|it| it.elapsed_s, 6),
            row("context switches", &|it| it.switches as f64, 0),
            row("migrations", &|it| it.migrations as f64, 0),
            row("utilisation, %", &|it| it.utilisation * 100.0, 2),
            row("wake-up latency p50, µs", &|it| it.latency_p50_us, 1),
            row("wake-up latency p99, µs", &|it| it.latency_p99_us, 1),
        ]
    }
}
