//! Child processes: they end with this program, and are waited for with a time limit.
mod end_with_parent;
mod wait;

pub use end_with_parent::end_with_parent;
pub use wait::{wait_for, wait_or_terminate};
