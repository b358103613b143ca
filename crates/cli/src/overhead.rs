//! What `flsched locks` and `flsched costs` have in common.
use crate::args::Overhead;
use crate::exit::{self, INTERRUPTED, Usage};
use crate::policy_file;
use crate::signals;
use anyhow::{Context, Result};
use flsched_probes::{Error, Request};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};

/// Without a command: what the paper's table was made with, small enough for any machine.
const DEFAULT_COMMAND: [&str; 6] = ["hackbench", "-p", "-g", "4", "-l", "100"];

/// Measures as asked for and prints the report.
pub fn measure<R: Serialize>(
    args: &Overhead,
    measure: fn(&Request<'_>) -> Result<R, Error>,
    render: fn(&R, u16) -> String,
) -> Result<u8> {
    let stop = signals::stop_flag().context("cannot catch signals")?;
    let request = Request { spec: policy_file::read(&args.policy)?, command: command(args)?, stop: &stop };
    let report = match measure(&request) {
        Ok(report) => report,
        Err(Error::Interrupted) => {
            eprintln!("flsched: {}", Error::Interrupted);
            return Ok(INTERRUPTED);
        }
        Err(Error::Start { program, source }) => {
            eprintln!("flsched: {program}: {source}");
            return Ok(match source.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                ErrorKind::PermissionDenied => exit::NOT_EXECUTABLE,
                _ => exit::FAILURE,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        let (_, columns) = console::Term::stdout().size();
        let columns = if console::user_attended() { columns.max(80) } else { 110 };
        write!(out, "{}", render(&report, columns))?;
    }
    Ok(0)
}

fn command(args: &Overhead) -> Result<Vec<OsString>, Usage> {
    if !args.command.is_empty() {
        return Ok(args.command.clone());
    }
    let in_path = |folder: std::path::PathBuf| folder.join(DEFAULT_COMMAND[0]).is_file();
    if std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(in_path)) {
        Ok(DEFAULT_COMMAND.map(Into::into).into())
    } else {
        Err(Usage(
            "hackbench is not installed (package rt-tests): install it, or name a command after --".into(),
        ))
    }
}
