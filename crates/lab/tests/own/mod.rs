//! A test that is an `flsched`, too: what it runs is of the same build as the test, and no older program.
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Is an `flsched` where it is called so, and where it is the first program of a machine; else the tests.
pub fn main(tests: impl FnOnce() -> ExitCode) -> ExitCode {
    let name = std::env::args_os().next().unwrap_or_default();
    let is_flsched = Path::new(&name).file_name().is_some_and(|it| it == "flsched");
    if is_flsched || flsched_vm::guest::is_guest_init() { flsched_cli::main() } else { tests() }
}

/// This program as an `flsched`.
#[allow(dead_code, reason = "not all tests start it themselves")]
pub fn flsched() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.arg0("flsched");
    command
}
