//! A run with the probe that breaks down its CPU time by cause.
use super::Measurement;
use crate::environment::online_cpus;
use flsched_probes::why::{Error, Recording, Why};
use flsched_spec::workload::Program;
use std::ops::Range;

/// Calls `run` while the probe is attached.
pub(super) fn recorded<T>(run: impl FnOnce() -> T) -> Result<(T, Recording), Error> {
    flsched_probes::why::recorded(&online_cpus(), run).map(|(recording, done)| (done, recording))
}

/// Whether this kernel accepts the probe.
pub(super) fn check() -> Result<(), Error> {
    recorded(|| ()).map(drop)
}

/// The breakdown of the time that the workload measured. That time ends with the run, unless the workload printed when
/// it ended. If the workload's figure is not a duration of the run, the breakdown is of the whole run.
pub(super) fn of(recording: &Recording, program: &Program, measured: &Measurement) -> Option<Why> {
    span(program, measured).map(|span| recording.why(span))
}

/// That time, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) fn span(program: &Program, measured: &Measurement) -> Option<Range<u64>> {
    let elapsed_s = measured.elapsed_s?;
    let of_workload = measured.result.as_ref().ok()?;
    let span_s = if program.time_is().is_none() { of_workload.time_s.min(elapsed_s) } else { elapsed_s };
    let end = of_workload.ended_at.unwrap_or(measured.ended_at).as_nanos() as u64;
    Some(end.saturating_sub((span_s * 1e9) as u64)..end)
}
