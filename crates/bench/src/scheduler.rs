//! Schedulers under test: the kernel's own classes, this build's policies, and peers from PATH.
use flsched_spec::{Policy, PolicySpec, UsageError, number};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What schedules the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// One of the kernel's own classes, set for the workload only.
    Class(KernelClass),
    /// The default class with another setting, for the whole machine.
    Eevdf {
        /// Which.
        setting: EevdfSetting,
    },
    /// A sched_ext policy of this build, attached to the whole machine.
    Policy(PolicySpec),
    /// A sched_ext scheduler that somebody else made: a program called `scx_…`.
    Peer {
        /// The program's name.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// One of the simulator's.
    Simulated {
        /// With its parameters, as the simulator reads and writes it.
        name: String,
    },
}

/// A setting of the default class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EevdfSetting {
    /// Its base slice, in microseconds: how long a task may run before others that are as entitled get
    /// their turn.
    SliceUs(u64),
    /// Cache-aware scheduling, which keeps the threads of a process in one last-level cache: on or off.
    LlcBalancing(bool),
}

impl FromStr for EevdfSetting {
    type Err = UsageError;

    fn from_str(text: &str) -> Result<Self, UsageError> {
        match text.split_once('=') {
            Some(("slice_us", value)) => number("eevdf:slice_us", value, SLICES_US).map(Self::SliceUs),
            Some(("llc_balancing", "on")) => Ok(Self::LlcBalancing(true)),
            Some(("llc_balancing", "off")) => Ok(Self::LlcBalancing(false)),
            _ => Err(UsageError(format!(
                "`eevdf:{text}`: eevdf has the settings slice_us=MICROSECONDS and llc_balancing=on|off"
            ))),
        }
    }
}

impl fmt::Display for EevdfSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SliceUs(slice_us) => write!(out, "slice_us={slice_us}"),
            Self::LlcBalancing(on) => write!(out, "llc_balancing={}", if *on { "on" } else { "off" }),
        }
    }
}

/// The kernel's own scheduling classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelClass {
    /// `SCHED_OTHER`, the default.
    Eevdf,
    /// `SCHED_BATCH`: the default without wake-up preemption.
    Batch,
    /// `SCHED_FIFO`, priority 1.
    Fifo,
    /// `SCHED_RR`, priority 1.
    Rr,
}

/// Slices that the kernel allows a task of the default class.
const SLICES_US: std::ops::RangeInclusive<u64> = 100..=100_000;

impl KernelClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Eevdf, Self::Batch, Self::Fifo, Self::Rr];

    /// The name users know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eevdf => "eevdf",
            Self::Batch => "batch",
            Self::Fifo => "fifo",
            Self::Rr => "rr",
        }
    }

    /// The kernel's number for it.
    pub(crate) fn policy(self) -> libc::c_int {
        match self {
            Self::Eevdf => libc::SCHED_OTHER,
            Self::Batch => libc::SCHED_BATCH,
            Self::Fifo => libc::SCHED_FIFO,
            Self::Rr => libc::SCHED_RR,
        }
    }

    /// Real-time classes start at priority 1, the others have none.
    pub(crate) fn priority(self) -> libc::c_int {
        i32::from(self.is_realtime())
    }

    /// Whether using it needs a privilege.
    pub fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr)
    }
}

impl Scheduler {
    /// Whether it is attached to the machine through sched_ext.
    pub fn is_sched_ext(&self) -> bool {
        matches!(self, Self::Policy(_) | Self::Peer { .. })
    }

    /// Whether it changes the machine, which takes root.
    pub fn needs_root(&self) -> bool {
        match self {
            Self::Class(class) => class.is_realtime(),
            _ => true,
        }
    }

    /// The kernel class a workload starts with under this scheduler. sched_ext takes over the normal
    /// tasks, so a workload for it is a normal task.
    pub(crate) fn class(&self) -> KernelClass {
        match self {
            Self::Class(class) => *class,
            _ => KernelClass::Eevdf,
        }
    }

    /// The program that must be found in PATH, for a peer.
    pub fn program(&self) -> Result<Option<PathBuf>, UsageError> {
        match self {
            Self::Peer { program, .. } => {
                which::which(program).map(Some).map_err(|_| UsageError(format!("`{program}` is not in PATH")))
            }
            _ => Ok(None),
        }
    }

    /// All names that can be given on this machine.
    pub fn names() -> Vec<String> {
        let classes = KernelClass::ALL.map(|class| class.name().to_string());
        let policies = Policy::all().iter().map(|policy| policy.name.to_string());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let peers = peers_in(std::env::split_paths(&path));
        classes.into_iter().chain(policies).chain(peers).collect()
    }
}

impl FromStr for Scheduler {
    type Err = UsageError;

    /// `eevdf`, `batch`, `fifo`, `rr`; `eevdf:SETTING=VALUE`; `POLICY` or `POLICY:KNOB=VALUE,…`; `scx_NAME` or
    /// `scx_NAME:ARGUMENTS` with arguments as in a shell.
    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, Some(settings)),
            None => (text, None),
        };
        if let Some(class) = KernelClass::ALL.into_iter().find(|class| class.name() == name) {
            return match settings {
                None => Ok(Self::Class(class)),
                Some(settings) if class == KernelClass::Eevdf => {
                    settings.parse().map(|setting| Self::Eevdf { setting })
                }
                Some(_) => Err(UsageError(format!("`{text}`: the kernel's own {name} has no settings here"))),
            };
        }
        if Policy::all().iter().any(|policy| policy.name == name) {
            let spec: PolicySpec = text.parse()?;
            if let Some(list) = spec.pids().keys().next() {
                return Err(UsageError(format!(
                    "`{text}`: {list} is for attach and run, whose processes are there before the scheduler"
                )));
            }
            return Ok(Self::Policy(spec));
        }
        if name.starts_with("scx_") && which::which(name).is_ok() {
            let arguments = shell_words::split(settings.unwrap_or(""))
                .map_err(|error| UsageError(format!("arguments of `{name}`: {error}")))?;
            return Ok(Self::Peer { program: name.into(), arguments });
        }
        let UsageError(message) = UsageError::unknown("scheduler", name, &Self::names());
        Err(UsageError(format!("{message}; peers are programs called scx_… in PATH")))
    }
}

/// Executable files called `scx_…` in these folders, sorted.
fn peers_in(folders: impl Iterator<Item = PathBuf>) -> BTreeSet<String> {
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    folders
        .filter_map(|folder| folder.read_dir().ok())
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"scx_"))
        .filter(|entry| executable(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

impl fmt::Display for Scheduler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(class) => out.write_str(class.name()),
            Self::Eevdf { setting } => write!(out, "eevdf:{setting}"),
            Self::Policy(spec) => spec.fmt(out),
            Self::Simulated { name } => out.write_str(name),
            Self::Peer { program, arguments } if arguments.is_empty() => out.write_str(program),
            Self::Peer { program, arguments } => {
                write!(out, "{program}:{}", shell_words::join(arguments))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_classes() {
        for class in KernelClass::ALL {
            assert_eq!(class.name().parse(), Ok(Scheduler::Class(class)));
        }
        assert!("rr:x=1".parse::<Scheduler>().unwrap_err().to_string().contains("no settings"));
    }

    #[test]
    fn eevdf_with_another_setting() {
        let scheduler: Scheduler = "eevdf:slice_us=20000".parse().unwrap();
        assert_eq!(scheduler, Scheduler::Eevdf { setting: EevdfSetting::SliceUs(20_000) });
        assert_eq!(scheduler.to_string(), "eevdf:slice_us=20000");
        let error = |text: &str| text.parse::<Scheduler>().unwrap_err().to_string();
        assert!(error("eevdf:slice_us=99").contains("from 100 to 100000"));
        assert!(error("eevdf:slice=99").contains("slice_us=MICROSECONDS"));
        assert!(error("eevdf:llc_balancing=1").contains("llc_balancing=on|off"));
    }

    #[test]
    fn unknown_says_what_would_do() {
        let error = "evedf".parse::<Scheduler>().unwrap_err().to_string();
        assert!(error.contains("unknown scheduler `evedf`; did you mean `eevdf`?"), "{error}");
        assert!(error.contains("eevdf, batch, fifo, rr"), "{error}");
    }

    #[test]
    fn policies_with_knobs() {
        let scheduler: Scheduler = "flsched:slice_us=5000,max_delay_us=20000".parse().unwrap();
        assert_eq!(scheduler.to_string(), "flsched:max_delay_us=20000,slice_us=5000");
        for wrong in ["flsched:slice_us", "flsched:slice_us=1", "flsched:no_such_knob=1"] {
            assert!(wrong.parse::<Scheduler>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn peers_are_executable_files() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("scx_good", 0o755), ("scx_text", 0o644), ("other", 0o755)] {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let found = peers_in([folder.path().to_path_buf()].into_iter());
        assert_eq!(found, BTreeSet::from(["scx_good".to_string()]));
    }
}
