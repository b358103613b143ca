//! Runs the `flsched` beside this program: what is measured is what users run.
use anyhow::{Context, Result, bail};
use flsched_base::process::wait_or_terminate;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;

/// Unfinished reports, under the project's folder: nothing there is published.
pub const UNFINISHED: &str = "target/results";

/// How the program gives its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// To the file that its words name; what it prints is shown.
    Named,
    /// The same; what it prints is not shown.
    NamedQuietly,
    /// To standard output, which is the file then.
    Output,
}

#[derive(Debug)]
pub struct Reported {
    pub bytes: Vec<u8>,
    /// How it ended, if that is no success: a comparison in which a scheduler hangs or is ejected fails, and its report may
    /// be complete.
    pub failed: Option<ExitStatus>,
}

/// An `flsched`.
#[derive(Debug)]
pub struct Program(PathBuf);

impl Program {
    /// In this program's folder, else in PATH.
    pub fn find() -> Result<Self> {
        let beside = std::env::current_exe().ok().map(|it| it.with_file_name("flsched"));
        match beside.filter(|it| it.is_file()) {
            Some(program) => Ok(Self(program)),
            None => which::which("flsched").map(Self).context(
                "flsched is neither beside this program nor in PATH; build it: cargo build --release --locked -p flsched",
            ),
        }
    }

    #[cfg(test)]
    pub fn at(path: &Path) -> Self {
        Self(path.into())
    }

    /// Runs it in the project's folder. What it reported is in [`unfinished`] then.
    pub fn run(
        &self,
        root: &Path,
        words: &[String],
        gives: Gives,
        file: &str,
        stop: &AtomicBool,
    ) -> Result<Reported> {
        let unfinished = unfinished(file);
        let path = root.join(&unfinished);
        std::fs::create_dir_all(root.join(UNFINISHED))
            .with_context(|| format!("cannot make {UNFINISHED}"))?;
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", unfinished.display()))?;
        }
        let mut command = Command::new(&self.0);
        command.arg0("flsched").args(words).current_dir(root);
        // A machine that it boots contains programs of this folder by their names.
        command.env("PATH", with_own_folder()?);
        command.stdout(match gives {
            Gives::Named => Stdio::inherit(),
            Gives::NamedQuietly => Stdio::null(),
            Gives::Output => {
                File::create(&path).with_context(|| format!("cannot write {}", unfinished.display()))?.into()
            }
        });
        let mut child = command.spawn().with_context(|| format!("cannot start {}", self.0.display()))?;
        // Also after a signal: `flsched` takes its machine down first.
        let status = wait_or_terminate(&mut child, stop).context("cannot wait for flsched")?;
        let may_be_complete = gives == Gives::Named && status.code() == Some(1) && path.exists();
        if !status.success() && !may_be_complete {
            bail!("flsched ended with {status}");
        }
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", unfinished.display()))?;
        Ok(Reported { bytes, failed: Some(status).filter(|status| !status.success()) })
    }
}

/// The file of a report while it is written. Relative, as the report has the command line and is published.
pub fn unfinished(file: &str) -> PathBuf {
    Path::new(UNFINISHED).join(file)
}

/// `PATH` in which this program comes first.
fn with_own_folder() -> Result<OsString> {
    let own = std::env::current_exe().ok().and_then(|it| it.parent().map(Path::to_path_buf));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))
        .context("this program's folder cannot be added to PATH")
}
