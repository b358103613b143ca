//! Arithmetic of a known length, which programs do in steps.
use crate::engine::Ns;

/// How long a step takes, in ns. It is about ten instructions on x86-64 (`step` in `work.rs` of
/// `flsched-compare`), at one instruction a nanosecond, as on the parallel clock.
pub(super) const STEP_NS: Ns = 10;
