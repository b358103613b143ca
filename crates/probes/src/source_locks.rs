//! Counts the places in the source of the kernel's scheduler that take a lock (table 1 of the paper of FLSCHED).
//!
//! A place is a call in the text: in a function that is called a million times it counts once, and in one that is not
//! compiled it counts, too. A function that takes a lock is a place where it calls another one that does.
use glob::{Pattern, glob};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The folder of the scheduler's source, in a kernel's.
pub const FOLDER: &str = "kernel/sched";

/// The parts of the scheduler, by the paper's table, and patterns of their files in a kernel of today. `core`: what was
/// `sched.c` in the paper's kernel.
const PARTS: [(&str, &[&str]); 5] = [
    (
        "core",
        &[
            "completion.c",
            "core.c",
            "core_sched.c",
            "cpuacct.c",
            "loadavg.c",
            "sched.h",
            "swait.c",
            "syscalls.c",
            "topology.c",
            "wait.c",
            "wait_bit.c",
        ],
    ),
    ("fair", &["fair.c", "pelt.c"]),
    ("rt", &["cpupri.c", "rt.c"]),
    ("deadline", &["cpudeadline.c", "deadline.c"]),
    ("ext", &["ext.c", "ext_*.c", "ext/*.c", "ext/*.h"]),
];

/// Kinds of locks, and the functions that take one. A guard takes the lock of its name until the end of a block.
const KINDS: [(&str, &str); 7] = [
    (
        "a run queue's lock",
        r"(?:raw_spin_rq_(?:try)?lock|rq_lock|_?double_(?:rq_)?lock|(?:__)?task_rq_lock|this_rq_lock)(?:_balance|_nested|_irq|_irqsave)?",
    ),
    ("raw_spin_lock", r"raw_spin(?:lock|_lock|_trylock)(?:_nested|_irq|_irqsave)?"),
    ("spin_lock", r"spin(?:lock|_lock|_trylock)(?:_nested|_irq|_irqsave|_bh)?"),
    ("read_lock, write_lock", r"(?:read|write)_lock(?:_irq|_irqsave)?"),
    ("mutex", r"mutex(?:_lock|_trylock)?(?:_interruptible|_killable|_nested)?"),
    ("cpus_read_lock", r"cpus_read_(?:try)?lock"),
    ("rcu_read_lock", r"rcu(?:_read_lock(?:_sched|_bh)?)?"),
];

/// The places of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartLocks {
    /// `core`, `fair`, `rt`, `deadline` or `ext`.
    pub part: String,
    /// Its files that the kernel has.
    pub files: Vec<String>,
    /// The places, by kind of lock.
    pub places: BTreeMap<String, usize>,
}

/// The places of the whole scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLocks {
    /// The kernel's version, as its Makefile has it.
    pub source_of: String,
    /// The version of flsched that counted.
    pub version: String,
    /// The parts in the paper's order.
    pub parts: Vec<PartLocks>,
}

/// Why the places could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file is missing or unreadable.
    #[error("{}: {cause}; it should be a file of a kernel's source", path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    /// The Makefile names no version.
    #[error("{} names no kernel version; is this the top folder of a kernel's source?", path.display())]
    NoVersion { path: PathBuf },
}

impl PartLocks {
    pub fn total(&self) -> usize {
        self.places.values().sum()
    }
}

impl SourceLocks {
    /// Counts in the source of a kernel, of which this is the top folder.
    pub fn count(top: &Path) -> Result<Self, SourceError> {
        let makefile = top.join("Makefile");
        let text = read(&makefile)?;
        let source_of = version(&text).ok_or(SourceError::NoVersion { path: makefile })?;
        let parts = PARTS.iter().map(|(part, files)| of_part(&top.join(FOLDER), part, files));
        Ok(Self {
            source_of,
            version: env!("CARGO_PKG_VERSION").into(),
            parts: parts.collect::<Result<_, _>>()?,
        })
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&PartLocks> {
        self.parts.iter().find(|it| it.part == name)
    }

    /// All kinds of locks, in the order of the table.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(kind, _)| *kind)
    }
}

fn read(path: &Path) -> Result<String, SourceError> {
    fs::read_to_string(path).map_err(|cause| SourceError::Unreadable { path: path.into(), cause })
}

/// `VERSION = 7`, `PATCHLEVEL = 3`, `SUBLEVEL = 4`.
fn version(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        let lines = makefile.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next()
    };
    Some(format!("{}.{}.{}", value("VERSION")?, value("PATCHLEVEL")?, value("SUBLEVEL")?))
}

/// Kernels differ in their files. Each has `ext` or not, and one file at least of the other parts.
fn of_part(folder: &Path, part: &str, patterns: &[&str]) -> Result<PartLocks, SourceError> {
    let mut counted = PartLocks { part: part.into(), files: Vec::new(), places: BTreeMap::new() };
    for pattern in patterns {
        let path = Pattern::escape(&folder.to_string_lossy()) + "/" + pattern;
        for file in glob(&path).expect("a pattern of ours").flatten() {
            for (kind, number) in places_in(&read(&file)?) {
                *counted.places.entry(kind.to_string()).or_default() += number;
            }
            let name = file.strip_prefix(folder).unwrap_or(&file);
            counted.files.push(name.display().to_string());
        }
    }
    if counted.files.is_empty() && part != "ext" {
        read(&folder.join(patterns[0]))?;
    }
    Ok(counted)
}

/// The places in one file, by kind.
fn places_in(source: &str) -> BTreeMap<&'static str, usize> {
    static PLACE: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
        let kinds = KINDS.iter().map(|(kind, name)| {
            let place = format!(r"\b(?:(?:(?:scoped_)?guard|CLASS) ?\({name}\b|{name}\()");
            (*kind, Regex::new(&place).expect("a pattern of ours"))
        });
        kinds.collect()
    });
    let code = code(source);
    let mut places = BTreeMap::new();
    for line in code.lines() {
        // A definition and a declaration begin in the first column, a call does not.
        if !line.starts_with([' ', '\t']) {
            continue;
        }
        for (kind, place) in PLACE.iter() {
            let number = place.find_iter(line).filter(|found| is_call(found.as_str())).count();
            if number > 0 {
                *places.entry(*kind).or_default() += number;
            }
        }
    }
    places
}

/// `mutex(` and `rcu(` are names of guards, not functions.
fn is_call(text: &str) -> bool {
    !matches!(text, "mutex(" | "rcu(" | "spinlock(" | "raw_spinlock(")
}

/// Without comments and strings; lines stay lines.
fn code(source: &str) -> String {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*""#).expect("a pattern of ours")
    });
    let blank = |found: &regex::Captures<'_>| "\n".repeat(found[0].matches('\n').count());
    OTHER.replace_all(source, blank).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(source: &str) -> Vec<(&'static str, usize)> {
        places_in(source).into_iter().collect()
    }

    #[test]
    fn a_call_is_a_place_and_a_definition_is_none() {
        let source = "\
void raw_spin_rq_lock_nested(struct rq *rq, int subclass)
{
\traw_spin_lock_nested(lock, subclass);
\tif (raw_spin_trylock(&a) && spin_trylock(&b)) /* raw_spin_lock(&c); */
\t\tpr_info(\"mutex_lock(%d)\", 1); // rcu_read_lock();
\trq_lock_irqsave(rq, &rf); rq = task_rq_lock(p, &rf);
\tdouble_lock_balance(this, that);
\traw_spin_unlock(lock);
}
";
        assert_eq!(counted(source), [("a run queue's lock", 3), ("raw_spin_lock", 2), ("spin_lock", 1)]);
    }

    #[test]
    fn a_guard_is_a_place() {
        let source = "\
\tguard(rcu)();
\tscoped_guard (raw_spinlock_irqsave, &p->pi_lock) {
\tCLASS(task_rq_lock, rq_guard)(p);
\tguard(mutex)(&m);
\tguard(preempt)();
\tscoped_guard(cpus_read_lock) {
";
        let all = [
            ("a run queue's lock", 1),
            ("cpus_read_lock", 1),
            ("mutex", 1),
            ("raw_spin_lock", 1),
            ("rcu_read_lock", 1),
        ];
        assert_eq!(counted(source), all);
    }

    #[test]
    fn what_only_sounds_like_a_lock_is_none() {
        let source = "\
\tlockdep_assert(rcu_read_lock_held());
\tlock = __rq_lockp(rq);
\trcu(x); mutex(y);
\tDEFINE_RAW_SPINLOCK(z);
\ttask_rq_unlock(rq, p, &rf);
\t/* two lines
\t   rcu_read_lock();
\t */
";
        assert_eq!(counted(source), []);
    }

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        top
    }

    const MAKEFILE: &str = "# SPDX\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\nEXTRAVERSION =\n";

    #[test]
    fn parts_are_added_up_over_their_files() {
        let lock = "\trcu_read_lock();\n";
        let top = tree(&[
            ("Makefile", MAKEFILE),
            ("kernel/sched/core.c", lock),
            ("kernel/sched/wait.c", "\tspin_lock_irqsave(&a, flags);\n\trcu_read_lock();\n"),
            ("kernel/sched/fair.c", lock),
            ("kernel/sched/rt.c", ""),
            ("kernel/sched/deadline.c", ""),
            ("kernel/sched/idle.c", lock),
        ]);
        let counted = SourceLocks::count(top.path()).unwrap();
        assert_eq!(counted.source_of, "7.3.4");
        let core = counted.part("core").unwrap();
        assert_eq!((core.files.len(), core.total()), (2, 3));
        assert_eq!(core.places["rcu_read_lock"], 2);
        let totals: Vec<usize> = counted.parts.iter().map(PartLocks::total).collect();
        assert_eq!(totals, [3, 1, 0, 0, 0]);
    }

    #[test]
    fn another_folder_is_refused_by_name() {
        let error = |files: &[(&str, &str)]| SourceLocks::count(tree(files).path()).unwrap_err().to_string();
        assert!(error(&[]).contains("/Makefile: "));
        assert!(error(&[("Makefile", "all:\n")]).contains("names no kernel version"));
        assert!(error(&[("Makefile", MAKEFILE)]).contains("/kernel/sched/completion.c: "));
    }
}
