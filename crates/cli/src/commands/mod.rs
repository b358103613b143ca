//! One file a command.
pub mod advise;
pub mod attach;
pub mod calibrate;
pub mod campaign;
pub mod compare;
pub mod costs;
pub mod doctor;
pub mod emulator;
pub mod fuzz;
pub mod locks;
pub mod record;
pub mod reproduce;
pub mod run;
pub mod sim;
pub mod status;
pub mod sweep;
pub mod vm;
