//! One file a command.
pub mod attach;
pub mod compare;
pub mod doctor;
pub mod run;
pub mod status;
pub mod vm;
