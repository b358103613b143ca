//! Simulated time, the queue of events, and random numbers: everything that makes a run repeatable.
mod queue;
mod work;

pub use queue::{Event, EventQueue};

/// Nanoseconds of simulated time since the start of the run.
pub type Ns = u64;

/// A task's number, from 0; its pid is one more.
pub type TaskId = usize;

/// For messages: `1.234567890 s`.
pub fn display_ns(ns: Ns) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// A small and fast generator (xorshift64*); each purpose has a stream of its own. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Streams of different `stream` are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        use rand_chacha::rand_core::{Rng, SeedableRng};
        let mut source = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        source.set_stream(stream);
        Self(source.next_u64() | 1)
    }

    /// Any 64 bits, not all zero.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to `limit` - 1; `limit` is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}
