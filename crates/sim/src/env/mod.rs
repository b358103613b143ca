//! What a policy consists of: its object, and the memory that its code works on: variables, maps and timers. All the
//! `unsafe` of the crate is here, in [`crate::core`]'s tasks, where [`crate::ext`] calls, and in [`crate::kfuncs`].
pub(crate) mod abi;
pub(crate) mod instance;
pub(crate) mod maps;
pub(crate) mod objects;
pub(crate) mod timers;
