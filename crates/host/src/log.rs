//! Collects libbpf's messages for error messages instead of printing them to the terminal.
use libbpf_rs::{PrintLevel, set_print};
use std::sync::Mutex;

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Of the end of the messages, what an error shows.
const LINES: usize = 30;

/// Forgets what was collected, and collects from now on.
pub fn capture() {
    LOG.lock().unwrap_or_else(|e| e.into_inner()).clear();
    set_print(Some((PrintLevel::Warn, |_, message| {
        let mut log = LOG.lock().unwrap_or_else(|e| e.into_inner());
        log.extend(message.lines().map(|line| line.trim_end().to_owned()));
    })));
}

/// The end of what was collected.
pub fn tail() -> Vec<String> {
    let log = LOG.lock().unwrap_or_else(|e| e.into_inner());
    log[log.len().saturating_sub(LINES)..].to_vec()
}

/// These lines below an error's first.
pub fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}
