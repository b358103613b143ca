//! `flsched-manual FOLDER`: writes the manual pages and the completions of bash, zsh and fish, for packages and
//! `make install`.
mod pages;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write flsched's manual pages and shell completions
#[derive(Debug, Parser)]
#[command(name = "flsched-manual", version)]
struct Cli {
    /// Folder to write to: man/flsched.1, …, completions/flsched.bash, completions/_flsched, completions/flsched.fish
    folder: PathBuf,
}

fn main() -> ExitCode {
    match pages::write(&flsched_cli::documented(), &Cli::parse().folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flsched-manual: {error:#}");
            ExitCode::FAILURE
        }
    }
}
