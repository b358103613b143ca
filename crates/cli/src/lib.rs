//! The `flsched` command: parse, dispatch, print; nothing else.
//!
//! A library, so that `flsched-manual` can read the command line's definition, and tests of other crates can be an `flsched`.
#[macro_use(eprintln)]
extern crate flsched_base;

mod args;
mod commands;
mod files;
mod machine;
mod metrics;
mod panics;
mod progress;
mod service_manager;
mod signals;
mod top;

use clap::{CommandFactory, Parser};
use flsched_compare::exit;
use flsched_compare::workload::Making;
use std::process::ExitCode;

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    if flsched_vm::guest::is_guest_init() {
        flsched_vm::guest::main();
    }
    panics::without_panics(dispatch)
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
        args::Command::Calibrate(args) => commands::calibrate::run(&args),
        args::Command::Record(args) => commands::record::run(&args),
        args::Command::Sim(args) => commands::sim::run(&args),
        args::Command::MeasureAgent(args) => commands::compare::agent(&args),
        args::Command::KeepServers => commands::run::keep_servers(),
        args::Command::Workload(args) => commands::compare::workload(&args),
        args::Command::Locks(args) => commands::moved::refuse("locks", &args),
        args::Command::Costs(args) => commands::moved::refuse("costs", &args),
        args::Command::Reproduce(args) => commands::moved::refuse("reproduce", &args),
    };
    exit::report("flsched", outcome)
}

/// Checks a command line of `compare` or `sim` that a file contains: reads and plans it, and runs nothing.
pub fn check(words: &[String]) -> anyhow::Result<()> {
    match args::Cli::try_parse_from(words)?.command {
        args::Command::Compare(args) => commands::compare::plan(&args, words, &Making::quietly()).map(drop),
        args::Command::Sim(args) => commands::sim::setup(&args).map(drop),
        _ => anyhow::bail!("neither `compare` nor `sim`"),
    }
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
