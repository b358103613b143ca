//! The C world of a policy: its object, the kernel functions it calls, its maps and timers. All the
//! `unsafe` of the crate is here, in [`crate::core`]'s tasks, and where [`crate::ext`] calls.
pub(crate) mod abi;
pub(crate) mod context;
mod cpus;
pub(crate) mod instance;
mod iter;
mod kfuncs;
pub(crate) mod maps;
pub(crate) mod objects;
pub(crate) mod timers;
