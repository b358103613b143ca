//! What can go wrong, each with its remedy.

/// Why a policy is not running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such policy in this build.
    #[error("unknown policy '{name}': valid are {}{}", valid.join(", "), nearest(name, valid))]
    UnknownPolicy {
        /// As given.
        name: String,
        /// All there are.
        valid: Vec<String>,
    },
    /// No such knob in this policy.
    #[error("policy {policy} has no knob '{name}': valid are {}{}", valid.join(", "), nearest(name, valid))]
    UnknownKnob {
        /// The policy.
        policy: String,
        /// As given.
        name: String,
        /// All there are.
        valid: Vec<String>,
    },
    /// Not `KNOB=VALUE`.
    #[error("'{text}' is not KNOB=VALUE with a whole number, as in slice_us=5000")]
    KnobSyntax {
        /// As given.
        text: String,
    },
    /// A word that stands for itself, and is not a value of any choice.
    #[error(
        "'{text}' is neither KNOB=VALUE, as in slice_us=5000, nor one of {}{}",
        valid.join(", "), nearest(text, valid)
    )]
    NoSuchValue {
        /// As given.
        text: String,
        /// The values that have names.
        valid: Vec<String>,
    },
    /// A knob outside its range.
    #[error("{name} = {value} is out of range {min}..={max} ({doc})")]
    KnobRange {
        /// The knob.
        name: String,
        /// As given.
        value: u64,
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// What the knob is.
        doc: String,
    },
    /// Not one of the names that a knob's values have.
    #[error("{name} = '{value}': valid are {}{} ({doc})", valid.join(", "), nearest(value, valid))]
    KnobChoice {
        /// The knob.
        name: String,
        /// As given.
        value: String,
        /// All there are.
        valid: Vec<String>,
        /// What the knob is.
        doc: String,
    },
    /// A list of processes that makes no sense.
    #[error("{name}: {why} ({doc})")]
    Pids {
        /// The list.
        name: String,
        /// What is wrong with it.
        why: String,
        /// What the list is.
        doc: String,
    },
    /// This kernel cannot run any policy.
    #[error(
        "this kernel ({release}) has no sched_ext: boot one built with CONFIG_SCHED_CLASS_EXT=y \
         (6.16 or newer), or try it in a VM: flsched vm -- CMD"
    )]
    NoSchedExt {
        /// `uname -r`.
        release: String,
    },
    /// Not root.
    #[error("attaching a scheduler needs root (CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON): run it with sudo")]
    Privileges,
    /// Somebody else schedules this machine.
    #[error(
        "scheduler '{ops}' is attached already{}: stop it first, one sched_ext scheduler runs a machine at a time",
        holder.as_ref().map(|h| format!(" (by {h})")).unwrap_or_default()
    )]
    Busy {
        /// Its name as the kernel knows it.
        ops: String,
        /// The process that seems to hold it.
        holder: Option<String>,
    },
    /// Known-bad kernel builds.
    #[error(
        "this kernel ({release}) describes {} of its scx kfuncs wrongly (built with pahole older than \
         1.26; first: {}): no sched_ext scheduler loads on it; boot another build of the kernel, or try \
         it in a VM: flsched vm --kernel 6.18 -- CMD",
        kfuncs.len(), kfuncs.first().map(String::as_str).unwrap_or("")
    )]
    MalformedBtf {
        /// `uname -r`.
        release: String,
        /// The kfuncs with a malformed prototype.
        kfuncs: Vec<String>,
    },
    /// The CPUs changed between opening and attaching; trying again is right.
    #[error("CPUs went on- or offline while the scheduler was being attached")]
    HotplugRace,
    /// The kernel refused the program.
    #[error("the kernel refused policy {policy}: {source}{}", indent(log))]
    Load {
        /// The policy.
        policy: String,
        /// libbpf's error.
        source: anyhow::Error,
        /// The end of libbpf's and the verifier's words.
        log: Vec<String>,
    },
    /// The object file is not what this loader expects: a defect of the build.
    #[error("policy {policy}'s object is malformed: {what}")]
    Object {
        /// The policy.
        policy: String,
        /// What is missing.
        what: String,
    },
    /// Ejected again and again; the machine stays on the default scheduler.
    #[error(
        "the kernel ejected {policy} {count} times within {} s: the machine stays on the default scheduler \
         (last reason: {last})", window.as_secs()
    )]
    EjectedRepeatedly {
        /// The policy.
        policy: String,
        /// How often.
        count: usize,
        /// Within this time.
        window: std::time::Duration,
        /// The kernel's last reason.
        last: String,
    },
}

impl Error {
    /// True if the caller asked for something that does not exist (exit code 2).
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownPolicy { .. }
                | Self::UnknownKnob { .. }
                | Self::KnobSyntax { .. }
                | Self::NoSuchValue { .. }
                | Self::KnobRange { .. }
                | Self::KnobChoice { .. }
                | Self::Pids { .. }
        )
    }
}

fn nearest(name: &str, valid: &[String]) -> String {
    valid
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("; did you mean {candidate}?"))
        .unwrap_or_default()
}

fn indent(log: &[String]) -> String {
    log.iter().map(|line| format!("\n  {line}")).collect()
}
