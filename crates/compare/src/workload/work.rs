//! Arithmetic that takes its time.

/// `steps` steps of [`step`], each needing the one before: no compiler and no CPU can shorten it.
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
