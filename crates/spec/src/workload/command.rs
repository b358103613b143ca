//! Any command as a workload.
use crate::UsageError;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// A program and its arguments; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine(Vec<OsString>);

impl CommandLine {
    /// The words after `--`.
    pub(super) fn new(argv: Vec<OsString>) -> Result<Self, UsageError> {
        match argv.first() {
            Some(program) if !program.is_empty() => Ok(Self(argv)),
            _ => Err(UsageError("no command after `--`".into())),
        }
    }

    /// Program and arguments.
    pub fn words(&self) -> &[OsString] {
        &self.0
    }

    /// Where the program is.
    pub fn program(&self) -> Result<PathBuf, UsageError> {
        let name = self.0.first().map_or(OsStr::new(""), OsString::as_os_str);
        which::which(name).map_err(|_| {
            let name = name.display();
            UsageError(format!("`{name}` is not in PATH, or is not an executable file"))
        })
    }
}

impl fmt::Display for CommandLine {
    /// As one would type it in a shell.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&shell_words::join(self.0.iter().map(|word| word.to_string_lossy())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_needs_it() {
        let command = CommandLine::new(vec!["echo".into(), "a b".into()]).unwrap();
        assert_eq!(command.to_string(), "echo 'a b'");
    }

    #[test]
    fn needs_a_program() {
        assert!(CommandLine::new(vec![]).is_err());
        assert!(CommandLine::new(vec!["".into()]).is_err());
        let missing = CommandLine::new(vec!["/no/such/program".into()]).unwrap();
        assert!(missing.program().unwrap_err().to_string().contains("/no/such/program"));
    }
}
