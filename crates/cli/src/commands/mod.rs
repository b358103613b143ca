//! One file a command.
pub mod attach;
pub mod compare;
pub mod costs;
pub mod doctor;
pub mod locks;
pub mod run;
pub mod status;
pub mod vm;
