//! From errors to exit codes: 2 what was asked for does not exist or makes no sense, 1 it failed, 128 + N signal N ended it;
//! a command that was run passes on its own.
use flsched_compare::workload::BuildError;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// An error that the caller can correct: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Codes of `flsched` itself, as in `docs/reference/exit-codes.md`.
pub const FAILURE: u8 = 1;
pub const USAGE: u8 = 2;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
pub const INTERRUPTED: u8 = 130;

/// Runs the program. A panic is a defect, of ours or of a library: it is said in one line, all that was attached is
/// detached while the stack unwinds, and the exit code is that of a failure.
pub fn without_panics(program: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
        let what = info.payload_as_str().unwrap_or("no reason given").replace('\n', " ");
        eprintln!("flsched: internal error{place}: {what}; please report this with the command line");
    }));
    panic::catch_unwind(AssertUnwindSafe(program)).unwrap_or(FAILURE.into())
}

/// Prints the error, if any, and returns the exit code.
pub fn report(outcome: anyhow::Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            // A reader that has closed the pipe (`| head`) is not an error.
            let gone = error.chain().any(|cause| {
                cause
                    .downcast_ref::<std::io::Error>()
                    .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            });
            if gone {
                return FAILURE.into();
            }
            let is_interruption = |cause: &(dyn std::error::Error + 'static)| {
                cause.downcast_ref().is_some_and(BuildError::is_interruption)
            };
            if error.chain().any(is_interruption) {
                eprintln!("flsched: interrupted");
                return INTERRUPTED.into();
            }
            eprintln!("flsched: {error:#}");
            code_of(&error).into()
        }
    }
}

fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        let usage = cause.is::<Usage>()
            || cause.is::<flsched_spec::UsageError>()
            || cause.downcast_ref::<flsched_host::Error>().is_some_and(|e| e.is_usage())
            || cause.is::<flsched_machine::Error>()
            || cause.downcast_ref::<flsched_campaign::Error>().is_some_and(|e| e.is_usage())
            || cause.downcast_ref::<flsched_sim::Error>().is_some_and(|e| e.is_usage());
        if usage {
            return USAGE;
        }
        if let Some(error) = cause.downcast_ref::<flsched_vm::VmError>() {
            return u8::try_from(error.exit_code()).unwrap_or(FAILURE);
        }
    }
    FAILURE
}

/// The exit code that a shell would show for a command that ended so.
pub fn of_status(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(FAILURE.into());
    u8::try_from(code & 0xff).unwrap_or(FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn a_panic_is_a_failure() {
        let code = without_panics(|| panic!("of a library"));
        let _ = panic::take_hook();
        assert_eq!(code, FAILURE.into());
        assert_eq!(without_panics(|| 0.into()), 0.into());
        let _ = panic::take_hook();
    }

    #[test]
    fn passes_codes_and_signals() {
        assert_eq!(of_status(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(of_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(of_status(ExitStatus::from_raw(9)), 137);
    }

    #[test]
    fn usage_errors_and_failures_have_different_codes() {
        assert_eq!(code_of(&Usage("x".into()).into()), 2);
        assert_eq!(code_of(&"nosuch".parse::<flsched_spec::PolicySpec>().unwrap_err().into()), 2);
        assert_eq!(code_of(&flsched_host::Error::Forbidden { is_filtered: true }.into()), 1);
    }
}
