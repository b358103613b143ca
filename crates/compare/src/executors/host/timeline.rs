//! A run that is recorded, for its timeline.
use super::Measurement;
use crate::timeline::Recorded;
use flsched_probes::record::{Error, Limits, recorded as record};
use flsched_recording::Recording;
use flsched_spec::workload::Program;
use std::time::Duration;

/// Whether this process and this kernel allow it.
pub(super) fn check() -> Result<(), Error> {
    record(Limits { mib: Some(16) }, |_| ()).map(drop)
}

/// Calls `run` and records what all tasks do.
pub(super) fn recorded<T>(run: impl FnOnce() -> T) -> Result<(T, Recording), Error> {
    record(Limits { mib: None }, |_| run()).map(|(recording, done)| (done, recording))
}

/// The part in which the workload measured its time, as with the breakdown of the CPU time. `began`: when the recording did.
pub(super) fn of(
    recording: &Recording,
    began: Duration,
    program: &Program,
    measured: &Measurement,
) -> Option<Recorded> {
    let span = super::why::span(program, measured)?;
    let began = began.as_nanos() as u64;
    let part = span.start.saturating_sub(began)..span.end.saturating_sub(began);
    Recorded::new(recording, part).ok()
}
