//! Why a VM gave no exit code, each with its own message and exit code.
use crate::{Arch, EmulatorError, KernelError, TopologyError, qemu};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why there is no exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VmError {
    /// No QEMU on this machine.
    #[error(
        "QEMU is missing: there is no `{}` in PATH; install it (on Debian and Ubuntu: `apt-get install {}`){}",
        qemu::program(*.0), qemu::package(*.0), or_build(*.0)
    )]
    NoQemu(Arch),
    /// There is no `flsched` for the machine's processor, which is process 1 there.
    #[error(
        "there is no flsched for {arch}, which runs inside the VM: build it with `make {arch}` in FLSCHED's source, or name \
         it in {variable} (searched: {})",
        searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoGuestProgram {
        /// The machine's processor.
        arch: Arch,
        /// Names a program.
        variable: &'static str,
        /// Where there is none.
        searched: Vec<PathBuf>,
    },
    /// The machine asked for cannot be built.
    #[error("cannot build this VM: {0}")]
    BadMachine(String),
    /// There can be no such CPUs.
    #[error("cannot build this VM: {0}")]
    Topology(TopologyError),
    /// KVM was asked for by name and does not work here.
    #[error("KVM cannot run this guest: {0}; without --accel kvm the guest is emulated")]
    NoKvm(String),
    /// A program or file to be packed does not exist.
    #[error("`{}`, which the VM needs, does not exist", .0.display())]
    ProgramMissing(PathBuf),
    /// The disk is full.
    #[error("no space left in {} for the VM's files; free some, or set TMPDIR to a folder on a disk with more", .0.display())]
    NoSpace(PathBuf),
    /// No kernel to boot.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// No emulator for the parallel clock.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// The guest did not come up in time.
    #[error("the VM did not boot within {} s{log}", limit.as_secs())]
    BootTimeout {
        /// The time it was given.
        limit: Duration,
        /// What was kept of the guest's log.
        log: KeptLog,
    },
    /// The guest stopped answering.
    #[error("the VM hangs: it has sent nothing for {} s{log}", silence.as_secs())]
    Hung {
        /// How long it has been silent.
        silence: Duration,
        /// What was kept of the guest's log.
        log: KeptLog,
    },
    /// The guest's kernel crashed.
    #[error("the VM's kernel crashed: {message}{log}")]
    GuestPanic {
        /// The kernel's own message.
        message: String,
        /// What was kept of the guest's log.
        log: KeptLog,
    },
    /// QEMU or process 1 ended before the command did.
    #[error("the VM ended before the command did: {reason}{log}")]
    GuestDied {
        /// The messages of QEMU or of process 1.
        reason: String,
        /// What was kept of the guest's log.
        log: KeptLog,
    },
    /// The command took longer than allowed.
    #[error("the command in the VM was stopped: it ran longer than {} s{log}", limit.as_secs_f64())]
    RunTimeout {
        /// The time it was given.
        limit: Duration,
        /// What was kept of the guest's log, with the stacks of its tasks.
        log: KeptLog,
    },
    /// The caller's cancel flag was set, or the VM was dropped.
    #[error("interrupted")]
    Interrupted,
    /// The guest has no such command.
    #[error(
        "`{0}` was not found in the VM; it gets the programs that the command line names, so check the name or name the file with its path"
    )]
    CommandNotFound(String),
    /// The guest cannot execute the command.
    #[error("`{command}` cannot be executed in the VM: {reason}")]
    CommandNotExecutable {
        command: String,
        /// The guest kernel's reason.
        reason: String,
    },
    /// The folder with the VM's files could not be created.
    #[error("cannot create a folder in {}: {kind}; set TMPDIR to a folder you may write to", parent.display())]
    WorkFolder {
        /// The folder that was to contain it.
        parent: PathBuf,
        kind: io::ErrorKind,
    },
    /// A file of this program could not be read or written.
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io {
        /// `read`, `create`, …
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
}

impl VmError {
    /// The exit code, by which a script can find out what happened.
    ///
    /// | code | meaning |
    /// |---|---|
    /// | 2 | bad input: no such kernel, program or machine |
    /// | 120 | the guest did not boot in time |
    /// | 121 | the guest hangs |
    /// | 122 | the guest's kernel crashed |
    /// | 123 | QEMU or the guest's process 1 ended too early |
    /// | 124 | the command ran longer than allowed (as `timeout` says) |
    /// | 125 | the VM could not be set up: no QEMU or not ours, no KVM, no kernel, no disk space (as `env` says) |
    /// | 126 | the command cannot be executed (as the shell says) |
    /// | 127 | the command was not found (as the shell says) |
    /// | 130 | interrupted |
    ///
    /// A command that ended gives its own code, or 128 + the signal that killed it.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::BadMachine(_) | Self::Topology(_) | Self::ProgramMissing(_) => 2,
            Self::Kernel(error) if error.is_usage() => 2,
            Self::Kernel(KernelError::Interrupted) => 130,
            Self::Emulator(EmulatorError::Unfit { .. }) => 2,
            Self::Emulator(error) if error.is_interruption() => 130,
            Self::BootTimeout { .. } => 120,
            Self::Hung { .. } => 121,
            Self::GuestPanic { .. } => 122,
            Self::GuestDied { .. } => 123,
            Self::RunTimeout { .. } => 124,
            Self::NoQemu(_)
            | Self::NoGuestProgram { .. }
            | Self::NoKvm(_)
            | Self::NoSpace(_)
            | Self::Kernel(_)
            | Self::Emulator(_)
            | Self::WorkFolder { .. }
            | Self::Io { .. } => 125,
            Self::CommandNotExecutable { .. } => 126,
            Self::CommandNotFound(_) => 127,
            Self::Interrupted => 130,
        }
    }

    /// Converts the system's error; a full disk gets its own variant.
    pub(crate) fn io(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        if matches!(cause.kind(), StorageFull | QuotaExceeded) {
            // All that a VM writes goes there; the log for the user may fail silently.
            return Self::NoSpace(std::env::temp_dir());
        }
        Self::Io { doing, path: path.to_owned(), cause }
    }

    /// Converts the system's error about a new folder in TMPDIR.
    pub(crate) fn work_folder(parent: PathBuf, cause: io::Error) -> Self {
        match Self::io("create", &parent, cause) {
            // The system's own text would name a folder that does not exist.
            Self::Io { path, cause, .. } => Self::WorkFolder { parent: path, kind: cause.kind() },
            other => other,
        }
    }
}

/// Another way to a QEMU for a processor that is not this machine's.
fn or_build(arch: Arch) -> String {
    if arch.is_foreign() {
        format!(", or build FLSCHED's own: `flsched emulator build --arch {arch}`")
    } else {
        String::new()
    }
}

/// Where the guest's log was kept, if it could be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptLog(pub Option<PathBuf>);

impl fmt::Display for KeptLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(path) => write!(f, "; its log is kept in {}", path.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct() {
        let log = KeptLog::default;
        let limit = Duration::from_secs(1);
        let errors = [
            VmError::BootTimeout { limit, log: log() },
            VmError::Hung { silence: limit, log: log() },
            VmError::GuestPanic { message: String::new(), log: log() },
            VmError::GuestDied { reason: String::new(), log: log() },
            VmError::RunTimeout { limit, log: log() },
            VmError::NoQemu(Arch::HOST),
            VmError::CommandNotExecutable { command: String::new(), reason: String::new() },
            VmError::CommandNotFound(String::new()),
            VmError::Interrupted,
            VmError::ProgramMissing("/x".into()),
        ];
        let codes: std::collections::BTreeSet<_> = errors.iter().map(VmError::exit_code).collect();
        assert_eq!(codes.len(), errors.len());
    }

    #[test]
    fn a_full_disk_names_the_folder_and_the_remedy() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let text = VmError::io("write", Path::new("/tmp/vm/initramfs"), full).to_string();
        let folder = std::env::temp_dir();
        assert!(text.contains(folder.to_str().unwrap()) && text.contains("TMPDIR"), "{text}");
    }

    #[test]
    fn a_missing_tmpdir_is_named_with_the_remedy() {
        let missing = io::Error::from_raw_os_error(libc::ENOENT);
        let text = VmError::work_folder("/no/such".into(), missing).to_string();
        let expected =
            "cannot create a folder in /no/such: entity not found; set TMPDIR to a folder you may write to";
        assert_eq!(text, expected);
        let full = VmError::work_folder("/no/such".into(), io::Error::from_raw_os_error(libc::ENOSPC));
        assert!(matches!(full, VmError::NoSpace(_)));
    }

    #[test]
    fn the_kept_log_is_named() {
        let log = KeptLog(Some("/logs/1.log".into()));
        let text = VmError::Hung { silence: Duration::from_secs(60), log }.to_string();
        assert_eq!(text, "the VM hangs: it has sent nothing for 60 s; its log is kept in /logs/1.log");
    }
}
