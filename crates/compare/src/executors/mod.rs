//! The places where runs are done: this machine, a VM, the simulator. Each is an [`Executor`](crate::Executor).
pub mod host;
pub mod sim;
pub mod vm;
