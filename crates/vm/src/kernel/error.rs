//! Errors on the way to a kernel, each with its remedy.
use crate::Arch;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why no kernel was found. Every message ends with what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Neither host, cache nor package index has a kernel of that name.
    #[error("unknown kernel `{name}`{} (known: {})", hint(nearest), known.join(", "))]
    Unknown {
        name: String,
        /// The known series, or the known versions of the requested series.
        known: Vec<String>,
        /// The known name most like it.
        nearest: Option<String>,
    },
    /// The image is for another processor.
    #[error("{} is a kernel for {is}, and the virtual machine has a processor of {wanted}: add --arch {is}", path.display())]
    OtherProcessor {
        path: PathBuf,
        /// The image's processor.
        is: Arch,
        wanted: Arch,
    },
    /// Kernels are built for this machine's processor only.
    #[error(
        "kernels are built for this machine's own processor only, not for {arch}: name a packaged series (--kernel 6.18), \
         or the path of an image that you have built"
    )]
    NoCrossBuild {
        /// The machine's processor.
        arch: Arch,
    },
    /// The file named is no bootable kernel image.
    #[error("{} is not an image of a kernel (bzImage of x86, Image of arm64): {reason}", path.display())]
    NotAnImage {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This kernel would refuse sched_ext programs.
    #[error(
        "schedulers do not load on kernel {release}: its type information (BTF) declares the functions that they \
         call with one argument too many ({}){}",
        some_of(kfuncs),
        propose(proposal)
    )]
    MalformedBtf {
        release: String,
        /// The public scx kfuncs with a wrong prototype.
        kfuncs: Vec<String>,
        /// Another kernel, to be named with `--kernel`.
        proposal: Option<String>,
    },
    /// The kernel was built without `CONFIG_SCHED_CLASS_EXT`.
    #[error("kernel {release} is built without sched_ext (CONFIG_SCHED_CLASS_EXT){}", propose(proposal))]
    NoSchedExt {
        release: String,
        /// Another kernel, to be named with `--kernel`.
        proposal: Option<String>,
    },
    /// The name selects several kernels, and none of those that were tried works.
    #[error("no usable kernel {name}: {}{}", reasons(tried), propose(proposal))]
    NoneUsable {
        name: String,
        /// Each release that was checked, and why it cannot be used.
        tried: Vec<(String, String)>,
        /// Another kernel, to be named with `--kernel`.
        proposal: Option<String>,
    },
    /// `host` was requested, and the host's kernel cannot be used.
    #[error(
        "the host's kernel {release} cannot be used: {reason}; choose another one, as in `--kernel {}`",
        super::DEFAULT_SERIES
    )]
    NoHostKernel {
        /// As `uname -r` prints it.
        release: String,
        reason: String,
    },
    /// The mirror could not be reached.
    #[error(
        "no network: {doing} failed ({detail}); check the connection (apt's proxy settings are used){}",
        at_hand_hint(at_hand)
    )]
    NoNetwork {
        /// What was being done.
        doing: String,
        detail: String,
        /// Releases that need no download.
        at_hand: Vec<String>,
    },
    /// The disk is full.
    #[error(
        "no space left in {} ({detail}); free some, for example with `rm -r {}/kernels`, or set \
         FLSCHED_CACHE to a folder with 300 MB to spare",
        folder.display(), folder.display()
    )]
    NoSpace {
        folder: PathBuf,
        /// What was being done.
        detail: String,
    },
    /// The disk is too full for a build.
    #[error(
        "too little space in {} for {doing}; free {needed_gb} GB there, or set FLSCHED_CACHE to a folder with as much",
        folder.display()
    )]
    NoSpaceToBuild {
        folder: PathBuf,
        /// What was being done.
        doing: String,
        /// What it takes in all.
        needed_gb: u64,
    },
    /// A program is missing.
    #[error(
        "`{tool}` is needed to fetch a kernel and is not installed: kernels come from Debian's archive, by apt. On Debian \
         and Ubuntu install the package {package}; elsewhere give an image of your own with `--kernel /path/to/vmlinuz`"
    )]
    NoTool {
        tool: String,
        /// The Debian package that holds it.
        package: String,
    },
    /// Programs or headers that building a kernel needs are missing.
    #[error(
        "building a kernel needs {}; install them (on Debian and Ubuntu: `apt-get install {}`)",
        missing.iter().map(|(what, _)| *what).collect::<Vec<_>>().join(", "),
        missing.iter().map(|(_, package)| *package).collect::<Vec<_>>().join(" ")
    )]
    NoBuildTools {
        /// Each missing program or header, with its Debian package.
        missing: Vec<(&'static str, &'static str)>,
    },
    /// Debian has no source of this series.
    #[error(
        "Debian {suite} has no source of Linux {series} (no package linux-source-{series}); unpack one, and name its \
         folder: `--kernel build:/path/to/source`"
    )]
    NoSource {
        series: String,
        /// Debian's suite.
        suite: &'static str,
    },
    /// A source without sched_ext.
    #[error("{source_of} has no sched_ext (CONFIG_SCHED_CLASS_EXT), which is in Linux 6.12 and newer")]
    NoSchedExtInSource {
        /// What was to be built.
        source_of: String,
    },
    /// A source in which a kernel was built.
    #[error(
        "{doing} failed: a kernel was built in that folder. Run `make mrproper` there (it removes .config, too), or give \
         the built one as `--kernel …/arch/x86/boot/bzImage`"
    )]
    NotClean {
        /// What was being done.
        doing: String,
    },
    /// A folder in which a tool cannot work.
    #[error("{tool} cannot work in {}, whose path has {has}: {remedy}", path.display())]
    UnfitPath {
        path: PathBuf,
        tool: &'static str,
        /// What the tool does not take.
        has: &'static str,
        remedy: &'static str,
    },
    /// The user's apt has no Debian mirror.
    #[error(
        "apt on this machine has no Debian mirror to fetch a kernel from; on Debian run \
         `apt-get update` once, elsewhere set FLSCHED_DEBIAN_MIRROR to the address of a Debian mirror \
         (the folder that holds dists/ and pool/), or give an image with `--kernel /path/to/vmlinuz`"
    )]
    NoMirror,
    /// Debian's signing keys are missing, so nothing could be verified.
    #[error(
        "{} is missing, and without it Debian's packages cannot be verified; \
         `apt-get install debian-archive-keyring`", keyring.display()
    )]
    NoKeyring { keyring: PathBuf },
    /// apt refused what the mirror sent.
    #[error(
        "apt does not trust what the mirror sent ({detail}); check the clock, name another mirror in \
         FLSCHED_DEBIAN_MIRROR, or update the keys with `apt-get install debian-archive-keyring`"
    )]
    Untrusted { detail: String },
    /// A package that the index lists is not on the mirror, even after a refresh.
    #[error("the mirror no longer has {package} ({detail}); try again later or ask for another kernel")]
    Gone { package: String, detail: String },
    /// A program took too long and was killed.
    #[error("{doing} took longer than {} s and was stopped; try again with less other load on this machine", limit.as_secs())]
    TimedOut {
        /// What was being done.
        doing: String,
        limit: Duration,
    },
    /// A download took too long and was stopped.
    #[error("{doing} took longer than {} s and was stopped; try again, or set FLSCHED_DEBIAN_MIRROR to a nearer mirror", limit.as_secs())]
    SlowMirror {
        /// What was being done.
        doing: String,
        limit: Duration,
    },
    /// Another process held the cache for too long.
    #[error("another flsched has been writing to the cache for {} s; wait until it ends, or end it (it holds the lock {})", limit.as_secs(), lock.display())]
    Busy { lock: PathBuf, limit: Duration },
    /// The caller's cancel flag was set.
    #[error("interrupted")]
    Interrupted,
    /// There is no cache folder.
    #[error("no cache folder: neither FLSCHED_CACHE, XDG_CACHE_HOME nor HOME is set; set FLSCHED_CACHE")]
    NoCacheFolder,
    /// A program failed for a reason not listed above.
    #[error("{doing} failed: {detail}")]
    Failed {
        /// What was being done.
        doing: String,
        /// The program's own message.
        detail: String,
    },
    /// A file of this program could not be read or written.
    #[error("cannot {doing} {}: {cause}; set FLSCHED_CACHE to a folder you may write to", path.display())]
    Io {
        /// `read`, `create`, …
        doing: &'static str,
        path: PathBuf,
        cause: std::io::Error,
    },
}

impl KernelError {
    /// Whether the user asked for something that does not exist (exit 2); any other failure is exit
    /// 1.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. }
                | Self::NotAnImage { .. }
                | Self::OtherProcessor { .. }
                | Self::NoCrossBuild { .. }
                | Self::NoSource { .. }
                | Self::NoSchedExtInSource { .. }
                | Self::NotClean { .. }
                | Self::UnfitPath { .. }
        )
    }

    /// What happened, without the remedy: for failures after which the program continues by itself.
    pub(super) fn brief(&self) -> String {
        match self {
            Self::NoNetwork { .. } => "no network".into(),
            Self::Untrusted { detail } | Self::Failed { detail, .. } => detail.clone(),
            other => other.to_string().split("; ").next().unwrap_or_default().to_owned(),
        }
    }

    /// Converts an error of the system. A full disk has its own variant.
    pub(crate) fn io(doing: &'static str, path: &Path, cause: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        if matches!(cause.kind(), StorageFull | QuotaExceeded) {
            let folder = path.parent().unwrap_or(path).to_owned();
            return Self::NoSpace { folder, detail: format!("to {doing} {}", path.display()) };
        }
        Self::Io { doing, path: path.to_owned(), cause }
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

fn propose(proposal: &Option<String>) -> String {
    proposal.as_ref().map(|name| format!("; use `--kernel {name}` instead")).unwrap_or_default()
}

fn at_hand_hint(at_hand: &[String]) -> String {
    match at_hand.first() {
        Some(name) => format!(", or use one that is downloaded: {} (`--kernel {name}`)", at_hand.join(", ")),
        None => ", or give an image with `--kernel /path/to/vmlinuz`".into(),
    }
}

/// The first names of kfuncs, and the number of the others.
fn some_of(kfuncs: &[String]) -> String {
    let shown = kfuncs.len().min(3);
    let mut text = kfuncs[..shown].join(", ");
    if kfuncs.len() > shown {
        text += &format!(" and {} more kfuncs", kfuncs.len() - shown);
    }
    text
}

fn reasons(tried: &[(String, String)]) -> String {
    let parts: Vec<_> = tried.iter().map(|(release, reason)| format!("{release} {reason}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_remedy() {
        let error = KernelError::Unknown {
            name: "6.81".into(),
            known: vec!["6.16".into(), "6.18".into()],
            nearest: Some("6.18".into()),
        };
        assert_eq!(error.to_string(), "unknown kernel `6.81`; did you mean `6.18`? (known: 6.16, 6.18)");
        assert!(error.is_usage());

        let error = KernelError::MalformedBtf {
            release: "7.1.13".into(),
            kfuncs: ["a", "b", "c", "d"].map(String::from).to_vec(),
            proposal: Some("6.18".into()),
        };
        let text = error.to_string();
        assert!(text.contains("a, b, c and 1 more"), "{text}");
        assert!(text.ends_with("use `--kernel 6.18` instead"), "{text}");
        assert!(!error.is_usage());
    }

    #[test]
    fn a_full_disk_is_distinguished() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        assert!(matches!(KernelError::io("create", Path::new("/x/y"), full), KernelError::NoSpace { .. }));
        let denied = std::io::Error::from_raw_os_error(libc::EACCES);
        assert!(matches!(KernelError::io("create", Path::new("/x/y"), denied), KernelError::Io { .. }));
    }
}
