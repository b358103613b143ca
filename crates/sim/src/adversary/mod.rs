//! The adversary: draws what users and administrators do, changes what comes closest to breaking a rule, generation by
//! generation, and shrinks what breaks one.
mod draw;
mod mutate;
mod search;
mod smaller;

pub use draw::Ingredient;
pub use search::{Finding, Search, Told};
