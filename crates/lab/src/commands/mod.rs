//! The commands: results and documents, and what scheduling costs.
mod cost;
mod publish;

pub use cost::{locks, watch};
pub use publish::{format, measure, render, reproduce, site};
