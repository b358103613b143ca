//! What `flsched locks` and `flsched costs` have in common.
use crate::args::Overhead;
use crate::exit::{self, INTERRUPTED};
use crate::policy_file;
use crate::signals;
use anyhow::{Context, Result};
use flsched_base::reports::{self, Kept};
use flsched_probes::{Error, Request, default_command};
use std::io::{ErrorKind, Write};

/// Measures as asked for and prints the report.
pub fn measure<R: Kept>(
    args: &Overhead,
    measure: fn(&Request<'_>) -> Result<R, Error>,
    render: fn(&R, u16) -> String,
) -> Result<u8> {
    let stop = signals::stop_flag().context("cannot catch signals")?;
    let spec = policy_file::read(&args.policy)?;
    let command = if args.command.is_empty() { default_command()? } else { args.command.clone() };
    let request = Request { spec, command, stop: &stop };
    let report = match measure(&request) {
        Ok(report) => report,
        Err(Error::Interrupted) => {
            eprintln!("flsched: {}", Error::Interrupted);
            return Ok(INTERRUPTED);
        }
        Err(Error::Start { program, cause }) => {
            eprintln!("flsched: {program}: {cause}");
            return Ok(match cause.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                ErrorKind::PermissionDenied => exit::NOT_EXECUTABLE,
                _ => exit::FAILURE,
            });
        }
        Err(error) => return Err(error.into()),
    };
    print(&report, args.json.then_some(reports::bytes), render)?;
    Ok(0)
}

/// What makes a report's JSON.
pub type ToBytes<R> = fn(&R) -> std::io::Result<Vec<u8>>;

/// Prints a report as asked for.
pub fn print<R>(report: &R, json: Option<ToBytes<R>>, render: fn(&R, u16) -> String) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if let Some(bytes) = json {
        out.write_all(&bytes(report)?)?;
    } else {
        let (_, columns) = console::Term::stdout().size();
        let columns = if console::user_attended() { columns.max(80) } else { 110 };
        write!(out, "{}", render(report, columns))?;
    }
    Ok(())
}
