//! The machine's tasks, as /proc shows them.
use std::fs;

/// All tasks: a process, and one of its threads.
pub(crate) fn all() -> impl Iterator<Item = (u32, u32)> {
    let threads = |process| numbers_in(&format!("/proc/{process}/task")).map(move |id| (process, id));
    numbers_in("/proc").flat_map(threads)
}

fn numbers_in(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What a file `stat` says of a process or thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub name: String,
    pub is_runnable: bool,
    /// 0 for a thread that is just ending.
    pub parent: u32,
    /// Time on a CPU, in ticks.
    pub ticks: u64,
    /// `SCHED_*`
    pub class: u32,
}

impl Stat {
    /// `None`: there is no such task any more.
    pub fn of_task(process: u32, id: u32) -> Option<Self> {
        Self::read(&format!("/proc/{process}/task/{id}/stat"))
    }

    pub fn of_process(process: u32) -> Option<Self> {
        Self::read(&format!("/proc/{process}/stat"))
    }

    fn read(path: &str) -> Option<Self> {
        // A task's name may be any bytes.
        Self::parse(&String::from_utf8_lossy(&fs::read(path).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        // The fields follow the name, which may contain anything; the first of them has the number 3.
        let (head, fields) = text.rsplit_once(") ")?;
        let fields: Vec<_> = fields.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let time = |number| field(number)?.parse::<u64>().ok();
        Some(Self {
            name: head.split_once('(')?.1.to_owned(),
            is_runnable: field(3)? == "R",
            parent: field(4)?.parse().ok()?,
            ticks: time(14)? + time(15)?,
            class: field(41)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let fields = "17 42 42 0 -1 4194304 1 2 3 4 50 6 7 8 20 0 1 0 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 3 1 5";
        let stat = Stat::parse(&format!("42 (a) R 7 (b) S {fields}")).unwrap();
        let expected = Stat { name: "a) R 7 (b".into(), is_runnable: false, parent: 17, ticks: 56, class: 5 };
        assert_eq!(stat, expected);
        assert!(Stat::parse("").is_none() && Stat::parse("1 (x) R").is_none());
    }

    #[test]
    fn this_process_has_a_task_that_runs() {
        let (process, id) = (std::process::id(), nix::unistd::gettid().as_raw() as u32);
        assert!(all().any(|task| task == (process, id)));
        let stat = Stat::of_task(process, id).unwrap();
        assert!(stat.is_runnable && stat.parent == std::os::unix::process::parent_id(), "{stat:?}");
        assert_eq!(Stat::of_process(process).unwrap().parent, stat.parent);
        assert_eq!(Stat::of_process(4_194_305), None);
    }
}
