//! Why there is no emulator, each with the remedy.
use crate::{Arch, KernelError};
use std::path::PathBuf;

/// Why there is no emulator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// It has not been built.
    #[error(
        "the parallel clock needs FLSCHED's own build of QEMU, which is not there: build it with `flsched \
         emulator build{}` (about 4 minutes), or use another clock: `--clock work` shows work, `--clock wall` \
         real time", option(*arch)
    )]
    NotBuilt {
        /// The processor that it emulates.
        arch: Arch,
    },
    /// The program that the user named is not one.
    #[error("{variable}={} cannot be used: {reason}; unset {variable} to use FLSCHED's own build", path.display())]
    Unfit {
        path: PathBuf,
        /// The variable that names it.
        variable: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Programs or libraries that the build needs are missing.
    #[error(
        "building the emulator needs {}; install what is missing (on Debian: `apt-get install {}`{})",
        names(missing),
        packages(missing),
        newer_meson(missing)
    )]
    Missing {
        /// Each with the Debian package that holds it.
        missing: Vec<(&'static str, &'static str)>,
    },
    /// The source could not be fetched, or a file of the cache not be written.
    #[error("{}", cause(.0))]
    Source(KernelError),
    /// A step of the build failed.
    #[error("{doing} failed: {detail}; the whole output is in {}", log.display())]
    Failed {
        doing: String,
        /// The program's own message.
        detail: String,
        /// What the program wrote.
        log: PathBuf,
    },
    /// The disk is full.
    #[error(
        "too little space in {} for {doing}; free 1 GB there, or set FLSCHED_CACHE to a folder with as much",
        folder.display()
    )]
    NoSpace { folder: PathBuf, doing: String },
}

impl EmulatorError {
    /// Whether the caller asked for the end.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Source(KernelError::Interrupted))
    }
}

impl From<KernelError> for EmulatorError {
    fn from(error: KernelError) -> Self {
        Self::Source(error)
    }
}

/// Without advice that is about kernels.
fn cause(error: &KernelError) -> String {
    match error {
        KernelError::Interrupted => error.to_string(),
        KernelError::NoNetwork { doing, detail, .. } => format!(
            "cannot fetch the emulator's source: no network: {doing} failed ({detail}); check the connection \
             (apt's proxy settings are used)"
        ),
        other => format!("cannot build the emulator: {other}"),
    }
}

/// What the command needs for a processor that is not this machine's.
fn option(arch: Arch) -> String {
    if arch.is_foreign() { format!(" --arch {arch}") } else { String::new() }
}

fn names(missing: &[(&str, &str)]) -> String {
    missing.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn packages(missing: &[(&str, &str)]) -> String {
    missing.iter().map(|(_, package)| *package).collect::<Vec<_>>().join(" ")
}

fn newer_meson(missing: &[(&str, &str)]) -> &'static str {
    if missing.iter().any(|(_, package)| *package == "meson") {
        "; Debian 12 has a new enough meson in its backports: `-t bookworm-backports`"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_kernels_is_left_out() {
        let (doing, detail, at_hand) = ("fetching".into(), "refused".into(), Vec::new());
        let text = EmulatorError::from(KernelError::NoNetwork { doing, detail, at_hand }).to_string();
        assert!(
            text.contains("no network: fetching failed (refused)") && !text.contains("--kernel"),
            "{text}"
        );
        assert_eq!(EmulatorError::from(KernelError::Interrupted).to_string(), "interrupted");
    }

    #[test]
    fn what_is_missing_is_named_with_its_packages() {
        let missing = vec![("ninja", "ninja-build"), ("meson 1.5 or newer", "meson")];
        let text = EmulatorError::Missing { missing }.to_string();
        assert!(text.contains("needs ninja, meson 1.5 or newer"), "{text}");
        assert!(text.contains("apt-get install ninja-build meson`"), "{text}");
        assert!(text.contains("bookworm-backports"), "{text}");
        let text = EmulatorError::Missing { missing: vec![("ninja", "ninja-build")] }.to_string();
        assert!(!text.contains("backports"), "{text}");
    }
}
