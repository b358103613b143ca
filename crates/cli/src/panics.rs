//! A panic is a defect, of ours or of a library.
use flsched_compare::exit::FAILURE;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// Runs the program. A panic is said in one line, all that was attached is detached while the stack unwinds, and the exit
/// code is that of a failure.
pub fn without_panics(program: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!(" ({place})")).unwrap_or_default();
        let what = info.payload_as_str().unwrap_or("no reason given").replace('\n', " ");
        eprintln!("flsched: internal error{place}: {what}; please report this with the command line");
    }));
    panic::catch_unwind(AssertUnwindSafe(program)).unwrap_or(FAILURE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure() {
        let code = without_panics(|| panic!("of a library"));
        let _ = panic::take_hook();
        assert_eq!(code, FAILURE.into());
        assert_eq!(without_panics(|| 0.into()), 0.into());
        let _ = panic::take_hook();
    }
}
