//! `locks` and `costs`: what scheduling itself costs, the default scheduler beside a policy; and `locks --source`: the
//! places in the kernel's source that take a lock.
use crate::args::{Locks, Overhead};
use anyhow::{Context, Result};
use flsched_base::reports::{self, Kept};
use flsched_base::signals::stop_flag;
use flsched_compare::exit::{self, INTERRUPTED};
use flsched_host::policy_file;
use flsched_lab::papers::results::CountedInSource;
use flsched_probes::source_locks::FOLDER;
use flsched_probes::{Error, Request, SourceLocks, default_command, render_locks, render_source_locks};
use flsched_spec::UsageError;
use flsched_vm::kernel::is_series;
use flsched_vm::{Catalog, VmError};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub fn locks(args: &Locks) -> Result<u8> {
    match &args.source {
        None => watch(&args.overhead, flsched_probes::locks, render_locks),
        Some(source) => {
            let counted = count(source, &stop_flag().context("cannot catch signals")?)?;
            let command_line = format!("flsched-lab locks --source {}", shell_words::quote(source));
            print(&CountedInSource { command_line, counted }, args.overhead.json, |it, columns| {
                render_source_locks(&it.counted, columns)
            })?;
            Ok(0)
        }
    }
}

/// Measures while the command runs, and prints the report.
pub fn watch<R: Kept>(
    args: &Overhead,
    measure: fn(&Request<'_>) -> Result<R, Error>,
    render: fn(&R, u16) -> String,
) -> Result<u8> {
    let stop = stop_flag().context("cannot catch signals")?;
    let spec = policy_file::read(&args.policy)?;
    let command = if args.command.is_empty() { default_command()? } else { args.command.clone() };
    let request = Request { spec, command, stop: &stop };
    let report = match measure(&request) {
        Ok(report) => report,
        Err(Error::Interrupted) => {
            eprintln!("flsched-lab: {}", Error::Interrupted);
            return Ok(INTERRUPTED);
        }
        Err(Error::Start { program, cause }) => {
            eprintln!("flsched-lab: {program}: {cause}");
            return Ok(exit::of_start(&cause));
        }
        Err(error) => return Err(error.into()),
    };
    print(&report, args.json, render)?;
    Ok(0)
}

/// The places in the source of a kernel, which is a folder or a series.
pub fn count(source: &str, cancel: &Arc<AtomicBool>) -> Result<SourceLocks> {
    let top = if is_series(source) {
        let catalog = Catalog::open(Box::new(|line| eprintln!("{line}"))).map_err(VmError::from)?;
        catalog.with_cancel(cancel.clone()).source(source, FOLDER).map_err(VmError::from)?
    } else {
        Some(PathBuf::from(source)).filter(|folder| folder.is_dir()).ok_or_else(|| {
            UsageError(format!(
                "--source {source}: there is no such folder; name the top folder of a kernel's source, or a series, such as 7.3"
            ))
        })?
    };
    Ok(SourceLocks::count(&top)?)
}

fn print<R: Kept>(report: &R, json: bool, render: fn(&R, u16) -> String) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        out.write_all(&reports::bytes(report)?)?;
    } else {
        let (_, columns) = console::Term::stdout().size();
        let columns = if console::user_attended() { columns.max(80) } else { 110 };
        write!(out, "{}", render(report, columns))?;
    }
    Ok(())
}
