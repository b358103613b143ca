//! From errors to exit codes: 2 what was asked for does not exist or makes no sense, 1 it failed, 130 Ctrl-C ended it.
use flsched_spec::UsageError;
use flsched_vm::VmError;
use std::io;
use std::process::ExitCode;

pub const FAILURE: u8 = 1;
const USAGE: u8 = 2;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
pub const INTERRUPTED: u8 = 130;

/// Prints the error, if any, and returns the exit code.
pub fn report(outcome: anyhow::Result<u8>) -> ExitCode {
    match outcome {
        Ok(code) => code.into(),
        // A reader that has closed the pipe (`| head`) is not an error.
        Err(error) if is_broken_pipe(&error) => FAILURE.into(),
        Err(error) => {
            eprintln!("flsched-lab: {error:#}");
            code_of(&error).into()
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_it = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_it))
}

fn code_of(error: &anyhow::Error) -> u8 {
    let usage = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<UsageError>()
            || cause.downcast_ref::<flsched_host::Error>().is_some_and(|it| it.is_usage())
    };
    if error.chain().any(usage) {
        return USAGE;
    }
    let of_vm = error.chain().find_map(|cause| cause.downcast_ref::<VmError>());
    of_vm.and_then(|error| u8::try_from(error.exit_code()).ok()).unwrap_or(FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_and_failures_have_different_codes() {
        assert_eq!(code_of(&UsageError("x".into()).into()), 2);
        assert_eq!(code_of(&"nosuch".parse::<flsched_spec::PolicySpec>().unwrap_err().into()), 2);
        assert_eq!(code_of(&flsched_host::Error::Forbidden { is_filtered: true }.into()), 1);
        assert_eq!(code_of(&anyhow::anyhow!("x")), 1);
        assert!(is_broken_pipe(&io::Error::from(io::ErrorKind::BrokenPipe).into()));
    }
}
