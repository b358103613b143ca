//! A scheduler as the user names it: one of the kernel's own, a policy of this build, or another project's
//! program.
use crate::policy::{KNOWN_PEERS, PEERS};
use crate::{Kernel, KernelSpec, Policy, PolicyFile, PolicySpec, Target, UsageError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What schedules the workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Scheduler {
    /// One of the kernel's own schedulers.
    Kernel(KernelSpec),
    /// A sched_ext policy of this build.
    Policy(PolicySpec),
    /// A sched_ext scheduler of another project.
    Peer(Peer),
}

/// A program called `scx_…`, which attaches its scheduler for as long as it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The program, as it is found in PATH.
    pub program: String,
    /// What is passed on to it, unchanged.
    pub arguments: Vec<String>,
}

impl Scheduler {
    /// Reads a scheduler that can be used on this target.
    pub fn read(text: &str, target: Target) -> Result<Self, UsageError> {
        let (name, _) = split(text);
        if !name.starts_with(PEERS) && Kernel::find(name).is_none() && Policy::find(name).is_err() {
            return Err(Self::unknown(name, target));
        }
        let scheduler = text.parse()?;
        match &scheduler {
            Self::Kernel(spec) => spec.check(target)?,
            Self::Policy(spec) => check_lists(spec, target)?,
            Self::Peer(_) if target == Target::Sim => {
                return Err(UsageError(format!("`{text}` is a program, which the simulator cannot run")));
            }
            Self::Peer(peer) => drop(peer.find().map_err(|_| Self::unknown(name, target))?),
        }
        Ok(scheduler)
    }

    /// All names that can be given on this target. Peers are those in PATH.
    pub fn names(target: Target) -> Vec<String> {
        let kernels = Kernel::ALL.into_iter().filter(|kernel| kernel.is_at(target));
        let policies = Policy::all().into_iter().map(|policy| policy.name.to_owned());
        let path = std::env::var_os("PATH").filter(|_| target != Target::Sim).unwrap_or_default();
        let peers = peers_in(std::env::split_paths(&path));
        kernels.map(|kernel| kernel.name().to_owned()).chain(policies).chain(peers).collect()
    }

    fn unknown(name: &str, target: Target) -> UsageError {
        if let Err(error) = PolicyFile::refuse_path(name) {
            return error;
        }
        if target != Target::Sim && KNOWN_PEERS.contains(&name) {
            return UsageError(format!(
                "`{name}` is not in PATH: install it, for example with `cargo install {name}`, or leave it out"
            ));
        }
        let mut names = Self::names(target);
        if target != Target::Sim && name.starts_with(PEERS) {
            let known = KNOWN_PEERS.iter().filter(|peer| !names.iter().any(|name| name == *peer));
            names.extend(known.map(|peer| (*peer).to_owned()).collect::<Vec<_>>());
        }
        let UsageError(message) = UsageError::unknown("scheduler", name, &names);
        UsageError(match target {
            Target::Sim => message,
            Target::Host | Target::Vm => {
                format!("{message}; or a program in PATH whose name begins with {PEERS}")
            }
        })
    }

    /// The policy, if it is one.
    pub fn policy(&self) -> Option<&'static Policy> {
        match self {
            Self::Policy(spec) => Some(spec.policy),
            Self::Kernel(_) | Self::Peer(_) => None,
        }
    }

    /// Whether it is attached to the machine through sched_ext.
    pub fn is_sched_ext(&self) -> bool {
        matches!(self, Self::Policy(_) | Self::Peer(_))
    }

    /// Whether tasks have a real-time priority under it.
    pub fn is_realtime(&self) -> bool {
        matches!(self, Self::Kernel(spec) if spec.kernel.is_realtime())
    }

    /// Whether it changes the machine, which takes root.
    pub fn needs_root(&self) -> bool {
        match self {
            Self::Kernel(spec) => spec.kernel.is_realtime() || !spec.settings().is_empty(),
            Self::Policy(_) | Self::Peer(_) => true,
        }
    }

    /// The program that it needs; `None`: none.
    pub fn program(&self) -> Result<Option<PathBuf>, UsageError> {
        match self {
            Self::Peer(peer) => peer.find().map(Some),
            Self::Kernel(_) | Self::Policy(_) => Ok(None),
        }
    }
}

impl Peer {
    /// Where its program is.
    pub fn find(&self) -> Result<PathBuf, UsageError> {
        which::which(&self.program).map_err(|_| UsageError(format!("`{}` is not in PATH", self.program)))
    }
}

/// A comparison starts its processes later, so they have no pids yet.
fn check_lists(spec: &PolicySpec, target: Target) -> Result<(), UsageError> {
    let Some(list) = spec.pids().keys().next() else { return Ok(()) };
    let why = match target {
        Target::Sim => "names processes, and a simulated run has none before it begins",
        Target::Host | Target::Vm => "is for attach and run, whose processes are there before the scheduler",
    };
    Err(UsageError(format!("`{spec}`: {list} {why}")))
}

fn split(text: &str) -> (&str, &str) {
    text.split_once(':').unwrap_or((text, ""))
}

impl FromStr for Scheduler {
    type Err = UsageError;

    /// `NAME` or `NAME:SETTING=VALUE,…` of a kernel scheduler or a policy; `scx_NAME` or `scx_NAME:ARGUMENTS` with
    /// arguments as in a shell. [`Scheduler::read`] checks whether it can be used on a target.
    fn from_str(text: &str) -> Result<Self, UsageError> {
        let (name, rest) = split(text);
        if Policy::all().iter().any(|policy| policy.name == name) {
            return text.parse().map(Self::Policy);
        }
        if name.starts_with(PEERS) {
            let arguments = shell_words::split(rest)
                .map_err(|error| UsageError(format!("arguments of `{name}`: {error}")))?;
            return Ok(Self::Peer(Peer { program: name.into(), arguments }));
        }
        text.parse().map(Self::Kernel)
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(spec) => spec.fmt(out),
            Self::Policy(spec) => spec.fmt(out),
            Self::Peer(Peer { program, arguments }) if arguments.is_empty() => out.write_str(program),
            Self::Peer(Peer { program, arguments }) => {
                write!(out, "{program}:{}", shell_words::join(arguments))
            }
        }
    }
}

impl From<Scheduler> for String {
    fn from(scheduler: Scheduler) -> Self {
        scheduler.to_string()
    }
}

impl TryFrom<String> for Scheduler {
    type Error = UsageError;

    fn try_from(text: String) -> Result<Self, UsageError> {
        text.parse()
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
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PEERS.as_bytes()))
        .filter(|entry| executable(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, target: Target) -> String {
        Scheduler::read(text, target).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_it_prints() {
        for text in ["eevdf", "rr", "flsched:max_delay_us=20000,slice_us=5000", "eevdf:slice_us=20000"] {
            for target in [Target::Host, Target::Vm, Target::Sim] {
                assert_eq!(Scheduler::read(text, target).unwrap().to_string(), text);
            }
        }
        let peer: Scheduler = "scx_x:--slice 'a b'".parse().unwrap();
        assert_eq!(peer.to_string(), "scx_x:--slice 'a b'");
        let line = serde_json::to_string(&peer).unwrap();
        assert_eq!(serde_json::from_str::<Scheduler>(&line).unwrap(), peer);
    }

    #[test]
    fn unknown_says_what_would_do() {
        let message = error("evedf", Target::Vm);
        assert!(message.contains("unknown scheduler `evedf`; did you mean `eevdf`?"), "{message}");
        assert!(
            message.contains("eevdf, batch, fifo, rr") && message.ends_with("begins with scx_"),
            "{message}"
        );
        let message = error("flshced", Target::Sim);
        assert!(message.contains("did you mean `flsched`?") && !message.contains("PATH"), "{message}");
    }

    #[test]
    fn only_known_programs_are_advised() {
        let message = error("scx_nope", Target::Host);
        assert!(
            message.contains("unknown scheduler `scx_nope`") && !message.contains("install"),
            "{message}"
        );
        let message = error("scx_rustie", Target::Vm);
        assert!(message.contains("did you mean `scx_rusty`?") && message.contains("scx_lavd"), "{message}");
        if which::which("scx_lavd").is_err() {
            let message = error("scx_lavd", Target::Host);
            assert!(
                message.contains("not in PATH: install it") && message.contains("`cargo install scx_lavd`")
            );
        }
    }

    #[test]
    fn some_are_for_one_target_only() {
        assert!(error("scx_rusty", Target::Sim).contains("simulator cannot run"));
        assert!(error("cfs", Target::Vm).contains("since Linux 6.6"));
        assert!(Scheduler::read("cfs", Target::Sim).is_ok());
        assert!(error("rr2:pids=1", Target::Vm).contains("pids is for attach and run"));
        assert!(error("rr2:pids=12+34", Target::Sim).contains("pids names processes"));
        assert!(Scheduler::read("rr2:group_by=cgroup", Target::Sim).is_ok());
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
