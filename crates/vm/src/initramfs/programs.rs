//! Which host programs a command line names.
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Shells whose scripts are searched for programs.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Larger scripts are searched only up to this size.
const SCRIPT_LIMIT: u64 = 64 << 10;

/// Every host program and file that a command line names: its program, arguments that are files or
/// names of programs (`timeout 5 hackbench`), and the same for each word of a shell script, be it
/// an argument (`sh -c 'hackbench; uname'`) or a file. A word too many only costs a little memory.
pub fn programs_in(argv: &[OsString]) -> Vec<PathBuf> {
    let mut found = Found::default();
    for word in argv {
        found.add_word(word);
        for part in words(word.as_bytes()) {
            found.add_word(part);
        }
    }
    found.files
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    seen: BTreeSet<OsString>,
}

impl Found {
    fn add_word(&mut self, word: &OsStr) {
        if !self.seen.insert(word.to_owned()) {
            return;
        }
        let Some(file) = which(word) else { return };
        if self.files.contains(&file) {
            return;
        }
        self.files.push(file.clone());
        if let Some(script) = shell_script(&file) {
            for part in words(&script) {
                self.add_word(part);
            }
        }
    }
}

/// The host file a word means: a path to a file, or the name of a program in PATH.
pub(super) fn which(word: &OsStr) -> Option<PathBuf> {
    if word.is_empty() || word.as_bytes().starts_with(b"-") {
        return None;
    }
    let path = Path::new(word);
    // As in a shell, a bare name is a program if there is one; otherwise it is a file in the
    // current folder.
    let file = match which::which(word) {
        Ok(program) if !word.as_bytes().contains(&b'/') => program,
        _ => std::path::absolute(path).ok()?,
    };
    let foreign = ["/proc", "/sys", "/dev"].iter().any(|folder| file.starts_with(folder));
    // Unreadable files cannot be copied; a command that needs one will report it.
    (!foreign && file.is_file() && File::open(&file).is_ok()).then_some(file)
}

/// The words of a shell script, split at every character that is special to a shell.
fn words(script: &[u8]) -> impl Iterator<Item = &OsStr> {
    let special = |byte: &u8| byte.is_ascii_whitespace() || b";|&()<>${}`'\"=!".contains(byte);
    script
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.trim_ascii_start().starts_with(b"#"))
        .flat_map(move |line| line.split(special))
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes)
}

/// The text of a shell script; `None` if the file is none.
fn shell_script(file: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut file = File::open(file).ok()?;
    // Two bytes first: most files are large programs.
    file.by_ref().take(2).read_to_end(&mut text).ok()?;
    if text != b"#!" {
        return None;
    }
    file.take(SCRIPT_LIMIT).read_to_end(&mut text).ok()?;
    let is_shell = interpreters(&text).iter().any(|interpreter| {
        Path::new(interpreter).file_name().is_some_and(|name| SHELLS.iter().any(|shell| name == *shell))
    });
    is_shell.then_some(text)
}

/// The programs in a script's first line: the interpreter, and the program that `env` finds.
pub(super) fn interpreters(script: &[u8]) -> Vec<OsString> {
    let line = script.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return Vec::new() };
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| OsStr::from_bytes(word).to_owned());
    let Some(interpreter) = words.next() else { return Vec::new() };
    let mut programs = vec![interpreter];
    if programs[0].as_bytes().ends_with(b"/env") {
        programs.extend(words.find(|word| !word.as_bytes().starts_with(b"-")));
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(argv: &[&str]) -> Vec<PathBuf> {
        programs_in(&argv.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn program(name: &str) -> PathBuf {
        which::which(name).unwrap()
    }

    #[test]
    fn finds_program_wrapped_program_and_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = names(&[
            "env",
            "X=1",
            "ls",
            "-l",
            file.path().to_str().unwrap(),
            "/proc/version",
            "no-such-program",
        ]);
        assert_eq!(found, [program("env"), program("ls"), file.path().into()]);
    }

    #[test]
    fn finds_words_of_a_shell_script() {
        let found = names(&["sh", "-c", "x=$(uname -r);cat<'/etc/hostname'|wc -l&&no_such_thing"]);
        for expected in
            [program("sh"), program("uname"), program("cat"), program("wc"), "/etc/hostname".into()]
        {
            assert!(found.contains(&expected), "{expected:?} in {found:?}");
        }
    }

    #[test]
    fn scripts_are_searched_for_the_scripts_they_call() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        let inner = script("inner", "#!/usr/bin/env bash\nseq 3\n# who\n");
        let outer = script("outer", &format!("#!/bin/sh\n{} && expr 1\n", inner.display()));
        let found = names(&[outer.to_str().unwrap()]);
        for expected in [&outer, &inner, &program("seq"), &program("expr")] {
            assert!(found.contains(expected), "{expected:?} in {found:?}");
        }
        assert!(!found.contains(&program("who")), "a comment is not a command");
    }

    #[test]
    fn reads_interpreter_lines() {
        let line = |text: &str| interpreters(text.as_bytes());
        assert_eq!(line("#!/bin/sh -e\nx"), ["/bin/sh"]);
        assert_eq!(line("#! /usr/bin/env -S python3 -u\n"), ["/usr/bin/env", "python3"]);
        assert!(line("#!\n").is_empty());
        assert!(line("ELF").is_empty());
    }
}
