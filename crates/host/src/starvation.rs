//! Detects a starving command: it has runnable tasks, and none of them gets a CPU.
use nix::libc;
use std::fs;
use std::time::{Duration, Instant};

/// It starves after this time without progress …
const LIMIT: Duration = Duration::from_secs(2);
/// … and this number of samples: a pause of the whole machine does not count.
const SAMPLES: u32 = 4;
/// Time between two samples.
const EVERY: Duration = Duration::from_millis(400);
/// Sampling may take at most 1 / `COST` of the time.
const COST: u32 = 100;

/// Watches the descendants of this process.
pub struct StarvationWatch {
    due: Instant,
    since: Instant,
    samples: u32,
    last: Vec<Task>,
}

/// What shows whether a task has run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    id: u32,
    /// `schedstat` without the time spent waiting: time on a CPU, and number of timeslices.
    ran: (u64, u64),
    runnable: bool,
}

impl Default for StarvationWatch {
    fn default() -> Self {
        let now = Instant::now();
        Self { due: now + EVERY, since: now, samples: 0, last: Vec::new() }
    }
}

impl StarvationWatch {
    /// Takes a sample if it is due. True: the command has made no progress for 2 s.
    pub fn is_starving(&mut self) -> bool {
        let began = Instant::now();
        if began < self.due {
            return false;
        }
        let found = self.add(tasks(), began);
        self.due = Instant::now() + EVERY.max(began.elapsed() * COST);
        found
    }

    /// A task that has started or ended since the last sample counts as progress.
    fn add(&mut self, tasks: Vec<Task>, now: Instant) -> bool {
        if tasks != self.last || !tasks.iter().any(|task| task.runnable) {
            self.last = tasks;
            self.since = now;
            self.samples = 0;
            return false;
        }
        self.samples += 1;
        self.samples >= SAMPLES && now - self.since >= LIMIT
    }
}

/// Moves all tasks of the command into the default class, where they run at once. Call this before the
/// scheduler is detached: the kernel then waits for tasks in the middle of a fork, and those may starve, too.
pub fn release_children() {
    let none = libc::sched_param { sched_priority: 0 };
    for task in tasks() {
        // SAFETY: the parameter outlives the call. A task that has ended needs no class, so the
        // result does not matter.
        unsafe { libc::sched_setscheduler(task.id as libc::pid_t, libc::SCHED_OTHER, &none) };
    }
}

/// All tasks of all descendants of this process.
fn tasks() -> Vec<Task> {
    let mut processes = children(std::process::id());
    let mut tasks = Vec::new();
    while let Some(process) = processes.pop() {
        processes.extend(children(process));
        tasks.extend(threads(process).filter_map(|thread| task(process, thread)));
    }
    tasks.sort_by_key(|task| task.id);
    tasks
}

fn threads(process: u32) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn children(process: u32) -> Vec<u32> {
    let of_thread = |thread| fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).ok();
    let lists: Vec<String> = threads(process).filter_map(of_thread).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|word| word.parse().ok()).collect()
}

/// `None`: the task has just ended.
fn task(process: u32, id: u32) -> Option<Task> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{process}/task/{id}/{file}")).ok();
    let schedstat = read("schedstat")?;
    let mut numbers = schedstat.split_whitespace().map_while(|word| word.parse().ok());
    let (time, _waited, turns) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let stat = read("stat")?;
    // The fields follow the name, which may contain anything.
    let runnable = stat.rsplit_once(") ")?.1.starts_with('R');
    Some(Task { id, ran: (time, turns), runnable })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u32, time: u64, runnable: bool) -> Task {
        Task { id, ran: (time, 1), runnable }
    }

    /// Whether it starves at the last of these samples, which are 500 ms apart.
    fn starves_at_last(samples: &[Vec<Task>]) -> bool {
        let mut watch = StarvationWatch::default();
        let mut last = false;
        for (number, tasks) in (0..).zip(samples) {
            last = watch.add(tasks.clone(), watch_began(&watch) + number * Duration::from_millis(500));
        }
        last
    }

    fn watch_began(watch: &StarvationWatch) -> Instant {
        watch.due - EVERY
    }

    #[test]
    fn runnable_and_not_run_for_two_seconds() {
        let still = vec![task(1, 7, false), task(2, 9, true)];
        assert!(!starves_at_last(&vec![still.clone(); 4]));
        assert!(starves_at_last(&vec![still.clone(); 5]));
        let mut samples = vec![still; 9];
        samples[4][1].ran.0 = 10;
        assert!(!starves_at_last(&samples[..6]), "it ran in between");
    }

    #[test]
    fn sleeping_tasks_do_not_starve() {
        assert!(!starves_at_last(&vec![vec![task(1, 7, false)]; 20]));
        assert!(!starves_at_last(&vec![Vec::new(); 20]));
    }

    #[test]
    fn one_that_runs_is_enough() {
        let samples: Vec<_> = (0..20).map(|time| vec![task(1, 7, true), task(2, time, true)]).collect();
        assert!(!starves_at_last(&samples));
    }

    #[test]
    fn a_pause_of_the_whole_machine_is_not_starvation() {
        let mut watch = StarvationWatch::default();
        let began = watch_began(&watch);
        assert!(!watch.add(vec![task(1, 7, true)], began));
        assert!(!watch.add(vec![task(1, 7, true)], began + Duration::from_secs(60)));
    }

    #[test]
    fn finds_the_tasks_of_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = tasks().iter().any(|task| task.id == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found || !std::path::Path::new("/proc/self/task/1/children").exists());
    }
}
