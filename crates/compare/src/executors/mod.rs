//! Where runs are done: each is an [`Executor`](crate::Executor).
pub mod host;
pub mod sim;
pub mod vm;
