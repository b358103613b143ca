//! What went wrong with a script, in one line: what it printed last, or the line that says most and what to do.
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How many lines of an output an error shows.
const SHOWN: usize = 3;

/// What programs print, and the remedy.
const KNOWN: [(&str, &str); 6] = [
    ("No space left on device", "free space there, or give a virtual machine more by --memory"),
    ("Cannot allocate memory", MEMORY),
    ("not enough slots available", "mpirun starts more processes than cores with --oversubscribe"),
    (
        "attempt to run as root",
        "mpirun runs as root with OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    ),
    ("running mpirun as root", "mpirun runs as root with --allow-run-as-root"),
    ("more processes than allowed", "mpirun starts more processes than cores with --oversubscribe"),
];
const MEMORY: &str = "use smaller parameters, or give a virtual machine more by --memory";

/// How a script ended, what it printed, and the remedy if one is known.
pub(super) fn complaint(status: ExitStatus, printed: &[u8]) -> String {
    let printed = String::from_utf8_lossy(printed);
    let lines: Vec<_> = printed.lines().map(str::trim).filter(|line| has_words(line)).collect();
    for (text, remedy) in KNOWN {
        if let Some(line) = lines.iter().find(|line| line.contains(text)) {
            return format!("{status}: {line}; {remedy}");
        }
    }
    let last = lines[lines.len().saturating_sub(SHOWN)..].join(" | ");
    let said = if last.is_empty() { String::new() } else { format!(": {last}") };
    match was_killed(status) {
        true => format!("{status}{said}; something was killed, perhaps for lack of memory: {MEMORY}"),
        false => format!("{status}{said}"),
    }
}

/// Not only a rule drawn with dashes.
fn has_words(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

/// By SIGKILL: the shell, or a program that it waited for.
fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn the_last_lines_are_shown_without_rules() {
        let text = complaint(exit(3), b"one\ntwo\nthree\n-----\n  four \n\n");
        assert_eq!(text, "exit status: 3: two | three | four");
        assert_eq!(complaint(exit(3), b""), "exit status: 3");
    }

    #[test]
    fn what_is_known_comes_with_its_remedy() {
        let refusal =
            b"----\nThere are not enough slots available in the system to satisfy the 9\nslots\nthat were\n\
                        requested by the application:\n----\n";
        let text = complaint(exit(1), refusal);
        assert!(text.starts_with("exit status: 1: There are not enough slots available"), "{text}");
        assert!(text.ends_with("; mpirun starts more processes than cores with --oversubscribe"), "{text}");
        let text = complaint(exit(2), b"cp: error writing 'x': No space left on device\nmore\n");
        assert!(text.contains("writing 'x': No space left on device; free space there"), "{text}");
    }

    #[test]
    fn a_kill_is_told_from_a_failure() {
        assert!(complaint(exit(137), b"Killed\n").contains("lack of memory"));
        assert!(complaint(ExitStatus::from_raw(9), b"").starts_with("signal: 9 (SIGKILL); something was"));
        assert!(!complaint(exit(1), b"x").contains("memory"));
    }
}
