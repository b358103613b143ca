//! What can go wrong, each with its remedy.
use crate::ExitReport;
use crate::access::Lack;
use crate::doctor::boot::{DEADLINES_REMEDY, ISOLATED_REMEDY, REAL_TIME_REMEDY};
use crate::log::indented;
use crate::partial::{Obstacle, REMEDY};
use flsched_spec::UsageError;

/// What to do if libbpf finds no configuration of the kernel.
pub(crate) const NO_CONFIG_REMEDY: &str = "copy it there from the kernel's package (Fedora, RHEL: cp /lib/modules/$(uname \
                                           -r)/config /boot/config-$(uname -r)), or, if the kernel has it as a module: \
                                           modprobe configs";

/// Why a policy is not running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not exist or makes no sense here.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// This kernel cannot run any policy.
    #[error(
        "this kernel ({release}) has no sched_ext: boot one built with CONFIG_SCHED_CLASS_EXT=y \
         (6.12 or newer), or try it in a VM: flsched vm -- CMD"
    )]
    NoSchedExt {
        /// `uname -r`.
        release: String,
    },
    /// Not root, or root without a capability.
    #[error("{0}")]
    Privileges(Lack),
    /// The kernel refuses bpf() to a process with the capabilities.
    #[error(
        "the kernel refused bpf() (EPERM) to this process, which has the capabilities: {}, or a security module such as \
         SELinux: allow bpf() there, or run it outside",
        if *is_filtered { "its seccomp filter forbids it, as those of containers and services do" } else { "lockdown" }
    )]
    Forbidden {
        /// It has a seccomp filter.
        is_filtered: bool,
    },
    /// A container with a PID namespace of its own.
    #[error(
        "{what} tells processes by their numbers, which in this container are others than on the machine: share the host's \
         PID namespace (docker run --pid host; hostPID: true), or run it outside"
    )]
    OtherNumbers {
        /// As the subject of a sentence.
        what: &'static str,
    },
    /// No type information of the kernel.
    #[error(
        "{what} needs the kernel's type information (BTF), and this kernel ({release}) shows none in \
         /sys/kernel/btf/vmlinux: boot one built with CONFIG_DEBUG_INFO_BTF=y, or, in a container, mount the host's \
         /sys; or try it in a VM: flsched vm -- CMD"
    )]
    NoBtf {
        /// As the subject of a sentence.
        what: &'static str,
        /// `uname -r`.
        release: String,
    },
    /// The kernel was built without these.
    #[error(
        "{what} needs options that this kernel ({release}) was built without: {}; boot one that has them, or try it in a \
         VM: flsched vm -- CMD", missing.join(", ")
    )]
    KernelOptions {
        /// As the subject of a sentence.
        what: &'static str,
        /// `uname -r`.
        release: String,
        /// Of its configuration.
        missing: Vec<&'static str>,
    },
    /// Another scheduler is attached to this machine.
    #[error(
        "scheduler '{ops}' is attached already{}: stop it first, one sched_ext scheduler runs a machine at a time{}",
        holder.as_ref().map(|h| format!(" (by {h})")).unwrap_or_default(),
        no_sub_scheduler.map(|why| format!("; {why}")).unwrap_or_default()
    )]
    Busy {
        /// Its name in the kernel.
        ops: String,
        /// The process that seems to hold it.
        holder: Option<String>,
        /// Why the kernel's sub-schedulers do not help, if it has them.
        no_sub_scheduler: Option<&'static str>,
    },
    /// Known-bad kernel builds.
    #[error(
        "no sched_ext scheduler loads on this kernel ({release}): its type information (BTF) describes {} of its \
         functions wrongly (first: {}), as if built with pahole older than 1.26; boot another build of the kernel, \
         or try it in a VM: flsched vm --kernel 6.18 -- CMD",
        kfuncs.len(), kfuncs.first().map(String::as_str).unwrap_or("")
    )]
    MalformedBtf {
        /// `uname -r`.
        release: String,
        /// The kfuncs with a malformed prototype.
        kfuncs: Vec<String>,
    },
    /// A policy asks libbpf for options that the kernel was built with.
    #[error(
        "this kernel's configuration cannot be read (neither /boot/config-{release} nor /proc/config.gz), and policies ask for it: \
         {NO_CONFIG_REMEDY}"
    )]
    NoKernelConfig {
        /// `uname -r`.
        release: String,
    },
    /// The tables of the policies are too small.
    #[error(
        "this machine has a CPU {cpu}, and policies know CPUs 0 to {}: take the CPUs above offline \
         (echo 0 > /sys/devices/system/cpu/cpuN/online)", flsched_machine::MAX_CPUS - 1
    )]
    TooManyCpus {
        /// The highest that is online.
        cpu: usize,
    },
    /// `isolcpus=` was given at boot.
    #[error(
        "sched_ext refuses to attach, as isolcpus= keeps CPUs {cpus} out of scheduling: {ISOLATED_REMEDY}"
    )]
    Isolated { cpus: String },
    /// A kernel with PREEMPT_RT.
    #[error(
        "sched_ext refuses to attach on this kernel ({release}), which is built with PREEMPT_RT: {REAL_TIME_REMEDY}"
    )]
    RealTimeKernel {
        /// `uname -r`.
        release: String,
    },
    /// Tasks of SCHED_DEADLINE have reserved too much.
    #[error("{found}: {DEADLINES_REMEDY}")]
    NoRoom { found: String },
    /// Real-time tasks that do not sleep, on a kernel whose sched_ext has no deadline server.
    #[error(
        "real-time tasks keep all {cpus} CPUs busy, and beside such tasks a scheduler stops this machine, as its sched_ext \
         has no deadline server: attach it after they have ended, or keep one CPU free of them, or boot Linux 7.0 or newer"
    )]
    RealTimeHogs { cpus: usize },
    /// The CPUs changed between opening and attaching; the caller should try again.
    #[error("CPUs went on- or offline while the scheduler was being attached")]
    HotplugRace,
    /// The kernel refused the program.
    #[error("the kernel refused policy {policy}: {cause:#}{}", indented(log))]
    Load {
        policy: String,
        /// libbpf's error.
        cause: anyhow::Error,
        /// The end of libbpf's and the verifier's messages.
        log: Vec<String>,
    },
    /// The object file is not what this loader expects: a defect of the build.
    #[error("policy {policy}'s object is malformed: {what}")]
    Object { policy: String, what: String },
    /// A share was asked for where nobody gives it.
    #[error(
        "--share sets the kernel's deadline server for sched_ext, and this kernel has none: boot 7.0 or newer, or schedule \
         the whole machine (no --partial)"
    )]
    NoDeadlineServer,
    /// The kernel's deadline server cannot be set.
    #[error("the kernel's deadline servers cannot be set to {percent} %: {cause}; {remedy}")]
    Share { percent: u64, cause: std::io::Error, remedy: &'static str },
    /// In partial mode its tasks would starve.
    #[error("{0}; {REMEDY}; to attach nevertheless: --force")]
    CpusBusy(Obstacle),
    /// Ejected while it was being attached.
    #[error(
        "the kernel ejected {policy} as soon as it was attached: {}{}", report.reason,
        indented(&report.dump.iter().flat_map(|dump| dump.lines().take(20)).map(str::to_owned).collect::<Vec<_>>())
    )]
    EjectedAtOnce { policy: String, report: Box<ExitReport> },
}

impl Error {
    /// True if the caller asked for something that does not exist (exit code 2).
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}
