//! The `flsched` command: parse, dispatch, print; nothing else.
//!
//! A library, so that `flsched-manual` can read the command line's definition.
#[macro_use]
mod stderr;

mod args;
mod commands;
mod exit;
mod files;
mod machine;
mod metrics;
mod overhead;
mod policy_file;
mod progress;
mod service_manager;
mod signals;
mod top;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    if flsched_vm::guest::is_guest_init() {
        flsched_vm::guest::main();
    }
    exit::without_panics(dispatch)
}

fn dispatch() -> ExitCode {
    let outcome = match args::Cli::parse().command {
        args::Command::Doctor(args) => commands::doctor::run(&args),
        args::Command::Attach(args) => commands::attach::run(args),
        args::Command::Run(args) => commands::run::run(&args),
        args::Command::Status(args) => commands::status::run(&args),
        args::Command::Top(args) => commands::top::run(&args),
        args::Command::Vm(args) => commands::vm::run(&args),
        args::Command::Emulator(args) => commands::emulator::run(&args),
        args::Command::Advise(args) => commands::advise::run(args),
        args::Command::Compare(args) => commands::compare::run(&args),
        args::Command::Apps(args) => commands::apps::run(&args),
        args::Command::Campaign(args) => commands::campaign::run(&args),
        args::Command::Locks(args) => commands::locks::run(&args),
        args::Command::Costs(args) => commands::costs::run(&args),
        args::Command::Reproduce(args) => commands::reproduce::run(&args),
        args::Command::Calibrate(args) => commands::calibrate::run(&args),
        args::Command::Record(args) => commands::record::run(&args),
        args::Command::Sim(args) => commands::sim::run(&args),
        args::Command::MeasureAgent(args) => commands::compare::agent(&args),
        args::Command::KeepServers => commands::run::keep_servers(),
        args::Command::Workload(args) => commands::compare::workload(&args),
    };
    exit::report(outcome)
}

/// The command line as it is documented: each policy of `attach` is a subcommand with its knobs, and commands that only
/// flsched itself calls are left out.
pub fn documented() -> clap::Command {
    let whole = args::Cli::command();
    let shown: Vec<_> = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let about = whole.get_about().cloned().unwrap_or_default();
    let command = clap::Command::new("flsched").about(about).version(env!("CARGO_PKG_VERSION"));
    command
        .subcommand_required(true)
        .subcommands(shown)
        .mut_subcommand("attach", commands::attach::documented)
}
