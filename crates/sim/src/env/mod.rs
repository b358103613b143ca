//! A policy in memory: its object, its variables, its maps and its timers.
//!
//! The crate's `unsafe` code is here, in the tasks of [`crate::core`], where [`crate::ext`] calls the policy, and in
//! [`crate::kfuncs`].
pub(crate) mod abi;
pub(crate) mod instance;
pub(crate) mod maps;
pub(crate) mod objects;
pub(crate) mod timers;
