//! Simulated time, the queue of events, and random numbers: everything that makes a run repeatable.
mod dice;
mod queue;
mod work;

pub(crate) use dice::Dice;
pub use queue::{Event, EventQueue};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Nanoseconds of simulated time since the start of the run.
pub type Ns = u64;

/// A task's number, from 0; its pid is one more.
pub type TaskId = usize;

pub use flsched_recording::timeline::display_ns;

/// A small and fast generator with the same numbers in every version of its library. Not for secrets.
pub type Random = rand::rngs::Xoshiro256PlusPlus;

/// The generator of one purpose: those of different `stream` are independent of each other.
pub fn random(seed: u64, stream: u64) -> Random {
    let mut source = ChaCha8Rng::seed_from_u64(seed);
    source.set_stream(stream);
    Random::from_rng(&mut source)
}
