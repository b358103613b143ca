//! What a process must be allowed to do, and a kernel be built with, so that it takes BPF programs. This is checked before
//! libbpf tries: of a missing capability it says that a limit of memory may be too small.
use crate::config::{has_btf, missing_options, of_this_kernel, release};
use crate::{Error, log, processes};
use caps::{CapSet, Capability};
use nix::unistd::geteuid;
use std::fmt;
use std::fs;

/// What BPF programs are loaded for.
pub struct Purpose {
    /// As the subject of a sentence.
    what: &'static str,
    capabilities: &'static [Capability],
    /// Of the kernel's configuration.
    options: &'static [&'static str],
    /// Processes are told by their numbers, in the kernel and here.
    needs_numbers: bool,
}

impl Purpose {
    /// A policy of sched_ext.
    pub const ATTACH: Self = Self {
        what: "attaching a scheduler",
        capabilities: &[Capability::CAP_BPF, Capability::CAP_PERFMON],
        options: &["CONFIG_SCHED_CLASS_EXT", "CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_DEBUG_INFO_BTF"],
        needs_numbers: false,
    };

    /// The probe of `record`, which has the kernel time it (`BPF_ENABLE_STATS`).
    pub const RECORD: Self = Self {
        what: "record",
        capabilities: &[Capability::CAP_SYS_ADMIN],
        options: &["CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_DEBUG_INFO_BTF", "CONFIG_BPF_EVENTS"],
        needs_numbers: true,
    };

    /// The probe of `top`, and the statistics of a policy that another process has attached.
    pub const TOP: Self = Self {
        what: "top",
        options: &[
            "CONFIG_BPF_SYSCALL",
            "CONFIG_BPF_JIT",
            "CONFIG_DEBUG_INFO_BTF",
            "CONFIG_BPF_EVENTS",
            // For the run queues' clock.
            "CONFIG_KALLSYMS_ALL",
        ],
        ..Self::RECORD
    };

    /// The probe of `compare --why`.
    pub const WHY: Self = Self { what: "--why", needs_numbers: false, ..Self::RECORD };

    /// The probes of `locks` and `costs`, which watch functions of the kernel and programs of a policy.
    pub const FUNCTIONS: Self = Self {
        what: "watching the scheduler's functions",
        capabilities: &[Capability::CAP_SYS_ADMIN],
        options: &[
            "CONFIG_BPF_SYSCALL",
            "CONFIG_BPF_JIT",
            "CONFIG_DEBUG_INFO_BTF",
            "CONFIG_BPF_EVENTS",
            "CONFIG_FPROBE",
        ],
        needs_numbers: false,
    };

    /// Detaching a scheduler before real-time tasks stop the machine.
    pub const GUARD: Self = Self {
        what: "a guard against real-time tasks that do not sleep",
        capabilities: &[Capability::CAP_SYS_NICE],
        options: &[],
        needs_numbers: false,
    };

    /// A real-time class, for `fifo` and `rr` in comparisons.
    pub const REAL_TIME: Self = Self { what: "a real-time class", ..Self::GUARD };

    /// Whether this process and this kernel allow it; if not, what is missing. From then on libbpf's messages are kept
    /// for errors instead of being printed.
    pub fn check(&self) -> Result<(), Error> {
        log::capture();
        if let Some(lack) = self.lack() {
            return Err(Error::Privileges(lack));
        }
        self.check_numbers(processes::are_of_machine())?;
        if !self.options.contains(&"CONFIG_DEBUG_INFO_BTF") {
            return Ok(());
        }
        let missing =
            of_this_kernel().map(|config| missing_options(&config, self.options)).unwrap_or_default();
        if !missing.is_empty() {
            return Err(Error::KernelOptions { what: self.what, release: release(), missing });
        }
        if !has_btf() {
            return Err(Error::NoBtf { what: self.what, release: release() });
        }
        Ok(())
    }

    fn check_numbers(&self, are_of_machine: bool) -> Result<(), Error> {
        match self.needs_numbers && !are_of_machine {
            true => Err(Error::OtherNumbers { what: self.what }),
            false => Ok(()),
        }
    }

    /// What this process is not allowed to do.
    pub fn lack(&self) -> Option<Lack> {
        // What cannot be read is left to the kernel to refuse.
        let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(true);
        let missing = missing_capabilities(self.capabilities, has);
        let in_user_namespace = is_mapped(&fs::read_to_string("/proc/self/uid_map").unwrap_or_default());
        let lacks = !missing.is_empty() || in_user_namespace;
        lacks.then(|| Lack { what: self.what, missing, in_user_namespace, user: geteuid().as_raw() })
    }

    /// The options that this kernel's configuration lacks, and those that it has.
    pub(crate) fn options(&self) -> &'static [&'static str] {
        self.options
    }
}

/// CAP_SYS_ADMIN includes the capabilities for BPF, as it did before there were any.
fn missing_capabilities(wanted: &[Capability], has: impl Fn(Capability) -> bool) -> Vec<Capability> {
    let included = [Capability::CAP_BPF, Capability::CAP_PERFMON];
    let is_held = |capability: &Capability| {
        has(*capability) || included.contains(capability) && has(Capability::CAP_SYS_ADMIN)
    };
    wanted.iter().copied().filter(|capability| !is_held(capability)).collect()
}

/// Whether this `uid_map` is that of a user namespace other than the first.
fn is_mapped(uid_map: &str) -> bool {
    let mut numbers = uid_map.split_whitespace();
    let whole = numbers.by_ref().take(3).eq(["0", "0", "4294967295"]) && numbers.next().is_none();
    !uid_map.is_empty() && !whole
}

/// What a process is not allowed to do, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    what: &'static str,
    missing: Vec<Capability>,
    in_user_namespace: bool,
    user: u32,
}

impl Lack {
    /// `CAP_BPF and CAP_PERFMON`.
    fn names(&self) -> String {
        let names: Vec<String> = self.missing.iter().map(Capability::to_string).collect();
        names.join(" and ")
    }

    /// Names the user and the missing capabilities, without the purpose.
    pub(crate) fn found(&self) -> String {
        let who = if self.user == 0 { "root".to_owned() } else { format!("user {}", self.user) };
        match self.missing.is_empty() {
            true => format!("{who} of a user namespace only, which the kernel does not accept here"),
            false => format!("{who}, without {}", self.names()),
        }
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> String {
        if self.in_user_namespace {
            return "this process is in a user namespace, as in a rootless container, and capabilities count only \
                    outside it: run it outside, as root"
                .into();
        }
        if self.user != 0 {
            return "run it with sudo".into();
        }
        let options: Vec<String> = self
            .missing
            .iter()
            .map(|capability| format!("--cap-add {}", capability.to_string().trim_start_matches("CAP_")))
            .collect();
        format!(
            "a container or a service has dropped this from root: add it (docker run {}; CapabilityBoundingSet= of a \
             unit), or run it outside",
            options.join(" ")
        )
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs = match (self.missing.is_empty(), self.user) {
            (true, _) => "capabilities outside a user namespace".to_owned(),
            (false, 0) => format!("{}, which this process lacks although it is root", self.names()),
            (false, _) => format!("root ({})", self.names()),
        };
        write!(out, "{} needs {needs}: {}", self.what, self.remedy())
    }
}

/// The error for bpf() if this one of libbpf says that the kernel has answered EPERM: the capabilities were checked before.
pub fn forbidden_by(cause: &str) -> Option<Error> {
    // EACCES, which libbpf-rs has the same kind for, is the verifier's; so the text decides.
    cause.contains(&std::io::Error::from_raw_os_error(nix::libc::EPERM).to_string()).then(forbidden)
}

fn forbidden() -> Error {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Error::Forbidden { is_filtered: status.lines().any(|line| line == "Seccomp:\t2") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN};

    #[test]
    fn capabilities_are_missing_one_by_one() {
        let missing = |held: &[Capability]| {
            missing_capabilities(&[CAP_BPF, CAP_PERFMON], |capability| held.contains(&capability))
        };
        assert_eq!(missing(&[]), [CAP_BPF, CAP_PERFMON]);
        assert_eq!(missing(&[CAP_BPF]), [CAP_PERFMON]);
        assert_eq!(missing(&[CAP_SYS_ADMIN]), []);
        assert_eq!(missing_capabilities(&[CAP_SYS_ADMIN], |held| held == CAP_BPF), [CAP_SYS_ADMIN]);
    }

    #[test]
    fn a_lack_names_the_capability_and_the_remedy() {
        let lack = |missing: &[Capability], user, in_user_namespace| Lack {
            what: "attaching a scheduler",
            missing: missing.to_vec(),
            in_user_namespace,
            user,
        };
        let container = lack(&[CAP_PERFMON], 0, false).to_string();
        assert!(container.contains("needs CAP_PERFMON, which this process lacks although it is root"));
        assert!(container.contains("docker run --cap-add PERFMON;"), "{container}");
        let user = lack(&[CAP_BPF, CAP_PERFMON], 1000, false).to_string();
        assert!(user.ends_with("needs root (CAP_BPF and CAP_PERFMON): run it with sudo"), "{user}");
        let rootless = lack(&[], 0, true).to_string();
        assert!(rootless.contains("rootless container"), "{rootless}");
    }

    #[test]
    fn what_tells_processes_by_their_numbers_needs_those_of_the_machine() {
        let refused = |purpose: Purpose, are_of_machine| purpose.check_numbers(are_of_machine).is_err();
        assert!(refused(Purpose::RECORD, false) && refused(Purpose::TOP, false));
        assert!(!refused(Purpose::RECORD, true) && !refused(Purpose::ATTACH, false));
        // It compares numbers with each other only.
        assert!(!refused(Purpose::WHY, false));
    }

    #[test]
    fn knows_a_user_namespace() {
        assert!(!is_mapped("         0          0 4294967295\n"));
        assert!(is_mapped("         0       1000          1\n         1     100000      65536\n"));
        assert!(!is_mapped(""), "a kernel without user namespaces");
    }
}
