//! The policies of this build, and those that the user has as files.
use crate::describe::{Description, describe};
use crate::{Kernel, Knob, Malformed, PidList, Statistic, UsageError};
use serde::{Deserialize, Serialize};
use std::sync::{LazyLock, PoisonError, RwLock};

/// A scheduler for sched_ext, and how its source describes it.
#[derive(Debug)]
pub struct Policy {
    /// As in `NAME.bpf.c`.
    pub name: &'static str,
    /// The version of the build; for a policy from a file, the first digits of the file's hash.
    pub version: &'static str,
    /// What may be set, in the order of the source.
    pub knobs: Vec<Knob>,
    /// Lists of processes that may be given.
    pub lists: Vec<PidList>,
    /// The events that the policy counts, in the order of its map.
    pub statistics: Vec<Statistic>,
    /// It is a control for comparisons, not for use: what does not have it ejected. It promises nothing else.
    pub control: Option<String>,
    /// The policy compiled for BPF.
    pub object: &'static [u8],
    /// Compiled for the simulator. `None`: a policy of this build (the simulator has its object), or a policy that
    /// has not been compiled for it.
    pub native: Option<&'static [u8]>,
    /// The file that it is from; `None`: a policy of this build.
    pub file: Option<PolicyFile>,
}

/// A file that `--policy` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFile {
    /// The path as the user gave it.
    pub path: String,
    /// SHA-256 of the file, followed by the headers of the author's own that it includes, in hexadecimal.
    pub sha256: String,
}

/// What the name of a policy's file ends with.
const EXTENSION: &str = ".bpf.c";
/// Names of other projects' schedulers begin with this.
pub(crate) const PEERS: &str = "scx_";

/// Those that `cargo install` brings. Any other name may be a program of anybody: it must not be advised to install it.
pub(crate) const KNOWN_PEERS: [&str; 6] =
    ["scx_bpfland", "scx_cosmos", "scx_flash", "scx_lavd", "scx_p2dq", "scx_rusty"];
/// Digits of the hash that are the version of a policy from a file.
const VERSION_DIGITS: usize = 12;

/// Name and object of each policy.
static OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let read = |(name, object): &(&'static str, &'static [u8])| {
        Policy::read(name, object).unwrap_or_else(|error| panic!("{name} of this build: {error}"))
    };
    OBJECTS.iter().map(read).collect()
});

/// Policies that were added.
static ADDED: RwLock<Vec<&'static Policy>> = RwLock::new(Vec::new());

impl Policy {
    /// All policies of this build, by name, and those that were added.
    pub fn all() -> Vec<&'static Policy> {
        let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
        POLICIES.iter().chain(added.iter().copied()).collect()
    }

    /// The policy of that name.
    pub fn find(name: &str) -> Result<&'static Policy, UsageError> {
        PolicyFile::refuse_path(name)?;
        let all = Self::all();
        let names = || all.iter().map(|policy| policy.name).collect::<Vec<_>>();
        let found = all.iter().find(|policy| policy.name == name);
        found.copied().ok_or_else(|| UsageError::unknown("policy", name, &names()))
    }

    /// Adds a policy to those of this build, for as long as this program runs.
    pub fn add(self) -> Result<&'static Policy, UsageError> {
        let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
        if POLICIES.iter().chain(added.iter().copied()).any(|other| other.name == self.name) {
            return Err(UsageError(format!(
                "there is a policy `{}` already: give the file another name",
                self.name
            )));
        }
        let policy: &'static Policy = Box::leak(Box::new(self));
        added.push(policy);
        Ok(policy)
    }

    /// Reads a policy from an object that was compiled for BPF.
    pub fn read(name: &'static str, object: &'static [u8]) -> Result<Self, Malformed> {
        let Description { knobs, lists, statistics, control } = describe(object)?;
        let version = env!("CARGO_PKG_VERSION");
        Ok(Self { name, version, knobs, lists, statistics, control, object, native: None, file: None })
    }

    /// Its name in the kernel.
    pub fn ops_name(&self) -> String {
        format!("{}_{}", self.name, self.version)
    }

    /// The knob of that name.
    pub fn knob(&self, name: &str) -> Result<&Knob, UsageError> {
        let names = || self.knobs.iter().map(|knob| &knob.name).collect::<Vec<_>>();
        self.knobs
            .iter()
            .find(|knob| knob.name == name)
            .ok_or_else(|| UsageError::unknown(&format!("knob of {}", self.name), name, &names()))
    }

    /// The knob that has a value named `word`, and that value.
    pub fn choice(&self, word: &str) -> Result<(&Knob, u64), UsageError> {
        let found = self.knobs.iter().find_map(|knob| Some((knob, knob.value_of(word)?)));
        let names = || self.knobs.iter().flat_map(|knob| &knob.names).collect::<Vec<_>>();
        found.ok_or_else(|| {
            let what = format!("setting of {}, neither KNOB=VALUE nor the name of a value:", self.name);
            UsageError::unknown(&what, word, &names())
        })
    }

    /// The list of that name; `None`: there is none.
    pub(crate) fn list(&self, name: &str) -> Option<&PidList> {
        self.lists.iter().find(|list| list.name == name)
    }
}

impl PolicyFile {
    /// The name of the policy in a file: `my` of `path/my.bpf.c`.
    pub fn name_of(path: &str) -> Result<&str, UsageError> {
        let wrong = |why: &str| UsageError(format!("policy file `{path}`: {why}"));
        let file = path.rsplit('/').next().unwrap_or(path);
        let name = file.strip_suffix(EXTENSION).ok_or_else(|| wrong("its name must end in .bpf.c"))?;
        let is_word = |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        if !is_word(name) || !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(wrong(
                "the policy is named like the file, in letters, digits and _: rename it, as to my.bpf.c",
            ));
        }
        if Kernel::find(name).is_some()
            || name.starts_with(PEERS)
            || POLICIES.iter().any(|it| it.name == name)
        {
            return Err(wrong(&format!(
                "there is a scheduler `{name}` already: rename the file, as to my_{name}.bpf.c"
            )));
        }
        Ok(name)
    }

    /// Whether this word is the path of a policy's file rather than a policy's name.
    pub fn is_path(word: &str) -> bool {
        word.ends_with(".c") || word.contains('/')
    }

    /// An error for a path where only a name is accepted.
    pub(crate) fn refuse_path(word: &str) -> Result<(), UsageError> {
        match Self::is_path(word) {
            true => {
                Err(UsageError(format!("`{word}` is the file of a policy: name it with the option --policy")))
            }
            false => Ok(()),
        }
    }

    /// The version of the policy in the file.
    pub fn version(&self) -> &str {
        &self.sha256[..VERSION_DIGITS.min(self.sha256.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn finds_flsched_and_refuses_others() {
        assert_eq!(Policy::find("flsched").unwrap().name, "flsched");
        let message = Policy::find("flshced").unwrap_err().to_string();
        assert!(message.contains("`flshced`; did you mean `flsched`?"), "{message}");
    }

    #[test]
    fn flsched_describes_itself() {
        let flsched = Policy::find("flsched").unwrap();
        let slice = flsched.knob("slice_us").unwrap();
        assert_eq!((slice.default, slice.min, slice.max), (100_000, 1000, 10_000_000));
        assert!(slice.doc.contains("microseconds"), "{}", slice.doc);
        assert_eq!(flsched.statistics[0].name, "idle_own");
        assert!(flsched.statistics.iter().any(|it| it.name == "queued_tail"));
        assert_eq!(Policy::find("rr2").unwrap().lists[0].name, "pids");
        let error = flsched.knob("slice").unwrap_err().to_string();
        assert!(error.contains("knob of flsched `slice`; did you mean `slice_us`?"), "{error}");
    }

    #[test]
    fn a_file_is_named_like_its_policy() {
        assert_eq!(PolicyFile::name_of("a/b.c/my_2.bpf.c").unwrap(), "my_2");
        for (path, why) in [
            ("my.c", "must end in .bpf.c"),
            (".bpf.c", "letters, digits and _"),
            ("my-own.bpf.c", "letters, digits and _"),
            ("./flsched.bpf.c", "a scheduler `flsched` already: rename the file, as to my_flsched.bpf.c"),
            ("eevdf.bpf.c", "a scheduler `eevdf` already"),
            ("scx_mine.bpf.c", "a scheduler `scx_mine` already"),
        ] {
            let error = PolicyFile::name_of(path).unwrap_err().to_string();
            assert!(error.contains(path) && error.contains(why), "{error}");
        }
        let error = Policy::find("my.bpf.c").unwrap_err().to_string();
        assert!(error.contains("--policy"), "{error}");
    }

    #[test]
    fn an_added_policy_is_known_once() {
        let flsched = Policy::find("flsched").unwrap();
        let copy = || Policy { version: "x", ..Policy::read("a_copy", flsched.object).unwrap() };
        assert!(Policy::find("a_copy").is_err());
        copy().add().unwrap();
        assert_eq!(Policy::find("a_copy").unwrap().ops_name(), "a_copy_x");
        assert!(copy().add().unwrap_err().to_string().contains("a policy `a_copy` already"));
    }

    #[test]
    fn the_source_says_which_policy_is_a_control() {
        let control = |name| Policy::find(name).unwrap().control.as_deref();
        assert_eq!(control("flsched_paper"), Some("up to 16 tasks a CPU that block now and then"));
        assert!(["flsched", "smove", "rr2"].into_iter().all(|name| control(name).is_none()));
    }

    #[test]
    fn every_policy_has_documented_knobs_in_range() {
        for policy in Policy::all() {
            for knob in &policy.knobs {
                assert!((knob.min..=knob.max).contains(&knob.default), "{}: {knob:?}", policy.name);
                assert!(!knob.doc.is_empty(), "{}: {knob:?}", policy.name);
            }
        }
    }

    #[test]
    fn a_name_stands_for_one_value() {
        for policy in Policy::all() {
            let names: Vec<&String> = policy.knobs.iter().flat_map(|knob| &knob.names).collect();
            let different: BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), different.len(), "{}: {names:?}", policy.name);
        }
    }
}
