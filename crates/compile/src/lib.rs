//! Compiles a policy's C file: to BPF for a kernel, and to this machine's code for the simulator.
//!
//! The build compiles `policies/` with it (see [`build`]), and `--policy FILE.bpf.c` compiles the user's file at
//! run time. The headers that policies include are part of this crate, so no checkout is needed; clang is.
#![warn(missing_docs)]
pub mod build;
mod clang;
mod headers;

use clang::Clang;
pub use flsched_base::Arch;
use headers::Headers;
use libbpf_rs::PrintLevel;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

/// What to compile for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum For {
    /// The kernel's BPF.
    Kernel,
    /// The simulator: a shared object of this machine.
    Simulator,
}

/// Why a file was not compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no clang that is new enough.
    #[error(
        "compiling a policy's file needs clang 18 or newer, which was found neither under the name in BPF_CLANG nor \
         in PATH: install clang-19, or set BPF_CLANG to another one"
    )]
    NoClang,
    /// The compiler refuses the file.
    #[error("{} does not compile for {target}:\n{message}", .path.display())]
    Refused {
        /// The path as given.
        path: PathBuf,
        /// The target's name in messages.
        target: &'static str,
        /// The compiler's messages, with file and line.
        message: String,
    },
    /// A temporary file cannot be written or read.
    #[error("{what}")]
    Io {
        /// What could not be done, with the path.
        what: String,
        /// The system's reason, in its words.
        source: io::Error,
    },
    /// The compiled object cannot be linked.
    #[error("{}: the object cannot be linked: {message}", .path.display())]
    Link {
        /// The path as given.
        path: PathBuf,
        /// What libbpf said, with the path as given.
        message: String,
    },
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// A compiler with the headers that policies include. Dropping it removes its temporary folder.
#[derive(Debug)]
pub struct Compiler {
    clang: Clang,
    headers: Headers,
    arch: Arch,
}

/// A policy's file, compiled.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// For what was asked for.
    pub object: Vec<u8>,
    /// Of the file, followed by headers of the author's own that it includes; in hexadecimal.
    pub sha256: String,
    /// What the compiler warns of.
    pub warnings: String,
}

impl Compiler {
    /// With the clang that BPF_CLANG names, else the best one in PATH.
    pub fn new() -> Result<Self, Error> {
        Self::of(Arch::HOST)
    }

    /// The same for kernels of another processor.
    pub fn of(arch: Arch) -> Result<Self, Error> {
        Ok(Self { clang: Clang::find().ok_or(Error::NoClang)?, headers: Headers::unpack()?, arch })
    }

    /// Compiles a file; warnings are no errors.
    pub fn compile(&self, source: &Path, target: For) -> Result<Compiled, Error> {
        let scratch = self.headers.scratch()?;
        let (object, included) = (scratch.path().join("policy.o"), scratch.path().join("included"));
        let mut command = self.clang.command(target, self.arch);
        command.args(self.headers.options(target, self.arch)).arg("-MMD").arg("-MF").arg(&included);
        let libraries = if target == For::Simulator { &["-lc"][..] } else { &[] };
        let run = command.arg(source).arg("-o").arg(&object).args(libraries).output();
        let run = run.map_err(Error::io("cannot run clang"))?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        if !run.status.success() {
            let target = match target {
                For::Kernel => "BPF",
                For::Simulator => "the simulator",
            };
            return Err(Error::Refused { path: source.into(), target, message: said.trim_end().into() });
        }
        let object = match target {
            For::Kernel => link(source, &object)?,
            For::Simulator => object,
        };
        let object = fs::read(&object).map_err(Error::io("cannot read the object"))?;
        Ok(Compiled { object, sha256: self.hash(&included)?, warnings: said })
    }

    /// Of all files that are the author's.
    fn hash(&self, included: &Path) -> Result<String, Error> {
        let rule = fs::read_to_string(included).map_err(Error::io("cannot read the list of headers"))?;
        let mut hash = Sha256::new();
        for path in prerequisites(&rule).into_iter().filter(|path| !self.headers.contain(path)) {
            hash.update(fs::read(&path).map_err(Error::io(format!("cannot read {}", path.display())))?);
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Brings the type information into the form in which libbpf loads it, and leaves out debugging information.
fn link(source: &Path, object: &Path) -> Result<PathBuf, Error> {
    let linked = object.with_extension("bpf.o");
    let link = || {
        let mut linker = libbpf_rs::Linker::new(&linked)?;
        linker.add_file(object)?;
        linker.link()
    };
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| linker_messages().push(message))));
    let result = link();
    libbpf_rs::set_print(before);
    let messages = std::mem::take(&mut *linker_messages());
    result.map_err(|error| {
        let reason = if messages.is_empty() { error.to_string() } else { messages.concat() };
        let [object, path] = [object, source].map(|path| path.display().to_string());
        Error::Link { path: source.into(), message: reason.trim_end().replace(&object, &path) }
    })?;
    Ok(linked)
}

/// Why libbpf refuses an object: it prints the reason, and its error is only a number.
fn linker_messages() -> MutexGuard<'static, Vec<String>> {
    static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files on the right of a rule as compilers write it for make.
fn prerequisites(rule: &str) -> Vec<PathBuf> {
    let mut words = vec![String::new()];
    let mut rest = rule.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek()) {
            ('\\', Some('\n')) => drop(rest.next()),
            ('\\', Some(' ' | '#')) | ('$', Some('$')) => words.last_mut().unwrap().extend(rest.next()),
            (next, _) if next.is_whitespace() => words.push(String::new()),
            (next, _) => words.last_mut().unwrap().push(next),
        }
    }
    let files = words.into_iter().filter(|word| !word.is_empty()).skip_while(|word| !word.ends_with(':'));
    files.skip(1).map(|word| OsString::from(word).into()).collect()
}

#[cfg(test)]
mod tests;
