//! Draws for scenarios: small numbers are as likely as large ones.
use super::{Random, random};
use rand::RngExt;

/// A source of draws.
#[derive(Debug)]
pub(crate) struct Dice(Random);

impl Dice {
    /// Those of a seed, for one purpose.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(random(seed, stream))
    }

    /// From 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.random_range(0..limit)
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// True once in this number of times, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// From 1 to `most`, small ones as likely as large ones.
    pub fn up_to(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(most.ilog2()) + 1);
        (self.below(1 << bits) + (1 << bits)).min(most)
    }
}
