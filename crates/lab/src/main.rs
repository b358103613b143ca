//! `flsched-lab`: measures what is published, keeps the documentation's figures true, and counts what scheduling costs.
//! It is for a checkout; packages do not have it.
#[macro_use(eprintln)]
extern crate flsched_base;

mod args;
mod commands;

use args::{Cli, Command};
use clap::Parser;
use flsched_compare::exit;
use flsched_probes::{costs, render_costs};
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::report(
        "flsched-lab",
        match Cli::parse().command {
            Command::Measure(args) => commands::measure(args),
            Command::Render(args) => commands::render(&args),
            Command::Format(args) => commands::format(&args),
            Command::Site(args) => commands::site(&args),
            Command::Reproduce(args) => commands::reproduce(args),
            Command::Locks(args) => commands::locks(&args),
            Command::Costs(args) => commands::watch(&args, costs, render_costs),
        },
    )
}
