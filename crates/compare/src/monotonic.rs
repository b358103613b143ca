//! A clock that all processes share.
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// `CLOCK_MONOTONIC`: the time since a moment that is the same for all processes.
pub(crate) fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}
