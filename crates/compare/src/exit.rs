//! How our programs end: 2 what was asked for does not exist or makes no sense, 1 it failed, 128 + N signal N ended it; a
//! command that was run passes on its own.
use crate::workload::BuildError;
use flsched_spec::UsageError;
use flsched_vm::VmError;
use std::error::Error;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// As in `docs/reference/exit-codes.md`.
pub const FAILURE: u8 = 1;
/// The command line, or a file that it names, must be corrected.
pub const USAGE: u8 = 2;
/// Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Prints the error, if any, and returns the exit code of `program`.
pub fn report(program: &str, outcome: anyhow::Result<u8>) -> ExitCode {
    let error = match outcome {
        Ok(code) => return code.into(),
        Err(error) => error,
    };
    // A reader that has closed the pipe (`| head`) is not an error.
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_gone)) {
        return FAILURE.into();
    }
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(BuildError::is_interruption)) {
        flsched_base::eprintln!("{program}: interrupted");
        return INTERRUPTED.into();
    }
    flsched_base::eprintln!("{program}: {error:#}");
    code_of(&error).into()
}

fn code_of(error: &anyhow::Error) -> u8 {
    let code = |cause: &(dyn Error + 'static)| match cause.downcast_ref::<VmError>() {
        Some(error) => Some(u8::try_from(error.exit_code()).unwrap_or(FAILURE)),
        None => is_usage(cause).then_some(USAGE),
    };
    error.chain().find_map(code).unwrap_or(FAILURE)
}

fn is_usage(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<UsageError>()
        || cause.is::<flsched_machine::Error>()
        || cause.downcast_ref::<flsched_host::Error>().is_some_and(|it| it.is_usage())
        || cause.downcast_ref::<flsched_sim::Error>().is_some_and(|it| it.is_usage())
        || cause.downcast_ref::<flsched_recording::Error>().is_some_and(|it| it.is_usage())
}

/// The exit code that a shell would show for a command that ended so.
pub fn of_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(FAILURE.into());
    u8::try_from(code & 0xff).unwrap_or(FAILURE)
}

/// The exit code that a shell would show for a command that this signal has ended.
pub fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(FAILURE)
}

/// The exit code that a shell would show for a command that could not be started.
pub fn of_start(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        io::ErrorKind::PermissionDenied => 126,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_codes_and_signals() {
        assert_eq!(of_status(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(of_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(of_status(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn usage_errors_and_failures_have_different_codes() {
        assert_eq!(code_of(&UsageError("x".into()).into()), 2);
        assert_eq!(code_of(&anyhow::Error::from(UsageError("x".into())).context("a file")), 2);
        assert_eq!(code_of(&"nosuch".parse::<flsched_spec::PolicySpec>().unwrap_err().into()), 2);
        assert_eq!(code_of(&flsched_host::Error::Forbidden { is_filtered: true }.into()), 1);
        assert_eq!(code_of(&anyhow::anyhow!("x")), 1);
    }

    #[test]
    fn a_command_that_cannot_be_started_has_the_code_of_shells() {
        let code = |path| of_start(&std::process::Command::new(path).status().unwrap_err());
        assert_eq!((code("/nosuch"), code("/dev/null")), (127, 126));
    }
}
