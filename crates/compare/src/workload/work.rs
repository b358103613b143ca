//! Arithmetic of a known length.

/// `steps` times [`step`]. Each step depends on the one before, so neither compiler nor CPU can shorten the work.
#[inline(never)]
pub(super) fn compute(mut state: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        state = step(state);
    }
    state
}

/// One step of work: Marsaglia's xorshift, three shifts and three exclusive ors, with the moves
/// between them and the loop around them about ten instructions on x86-64.
#[inline(always)]
fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    state
}
