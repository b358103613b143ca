//! See the library.
use std::process::ExitCode;

fn main() -> ExitCode {
    flsched_cli::main()
}
