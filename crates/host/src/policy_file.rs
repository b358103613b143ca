//! `--policy FILE.bpf.c`: policies of the user's own, compiled and made known before names are read.
use anyhow::{Context, Result};
use flsched_compile::{Arch, Compiler, For};
use flsched_spec::{Policy, PolicyFile, PolicySpec, UsageError};
use std::io::Write;
use std::path::Path;

/// Where a policy is to run.
#[derive(Clone, Copy)]
pub enum On {
    /// Under a kernel of this processor.
    Kernel(Arch),
    /// In the simulator, too.
    Simulator,
}

/// Compiles these files and makes their policies known by the names of the files.
pub fn add_all(paths: &[String], on: On) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let names = paths.iter().map(|path| check(path)).collect::<Result<Vec<_>, _>>()?;
    let compiler = Compiler::of(match on {
        On::Kernel(arch) => arch,
        On::Simulator => Arch::HOST,
    })?;
    for (path, name) in paths.iter().zip(names) {
        add(&compiler, path, name, on)?;
    }
    Ok(())
}

/// `POLICY[:KNOB=VALUE,…]`, where the policy may be a file, for a kernel.
pub fn read(text: &str) -> Result<PolicySpec> {
    let (policy, settings) = text.split_once(':').unwrap_or((text, ""));
    if !PolicyFile::is_path(policy) {
        return Ok(text.parse()?);
    }
    let name = check(policy)?;
    add(&Compiler::new()?, policy, name, On::Kernel(Arch::HOST))?;
    Ok(format!("{name}:{settings}").parse()?)
}

/// Adds a policy from an object that was compiled elsewhere.
pub fn add_object(name: &str, version: &str, object: &Path) -> Result<()> {
    let bytes = std::fs::read(object).with_context(|| object.display().to_string())?;
    let policy = Policy::read(leak(name), bytes.leak()).with_context(|| object.display().to_string())?;
    Policy { version: leak(version), ..policy }.add()?;
    Ok(())
}

/// The policy's name. The file must be there.
fn check(path: &str) -> Result<&str, UsageError> {
    let name = PolicyFile::name_of(path)?;
    match std::fs::File::open(path) {
        Ok(_) => Ok(name),
        Err(error) => Err(UsageError(format!("policy file `{path}`: {error}"))),
    }
}

fn add(compiler: &Compiler, path: &str, name: &str, on: On) -> Result<()> {
    let compiled = compiler.compile(Path::new(path), For::Kernel)?;
    if !compiled.warnings.is_empty() {
        // A reader that has gone is no reason to end.
        let _ = std::io::stderr().write_all(compiled.warnings.as_bytes());
    }
    let policy =
        Policy::read(leak(name), compiled.object.leak()).with_context(|| format!("policy file `{path}`"))?;
    let native = match on {
        On::Simulator => Some(&*compiler.compile(Path::new(path), For::Simulator)?.object.leak()),
        On::Kernel(_) => None,
    };
    let file = PolicyFile { path: path.into(), sha256: compiled.sha256 };
    Policy { version: leak(file.version()), native, file: Some(file), ..policy }.add()?;
    Ok(())
}

/// Policies are known for as long as this program runs.
fn leak(text: &str) -> &'static str {
    text.to_owned().leak()
}
