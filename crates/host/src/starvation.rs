//! Detects tasks of partial mode that starve: runnable, and not given a CPU. The kernel prefers tasks of the default class,
//! and after 30 s without a CPU for one task of SCHED_EXT it takes the scheduler from all.
use crate::Waiter;
use crate::class::SCHED_EXT;
use crate::tasks::{self, Stat};
use nix::errno::Errno;
use nix::libc;
use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// A command starves after this time in which none of its tasks has run …
const COMMAND_LIMIT: Duration = Duration::from_secs(2);
/// … and a task after this one: half of what the kernel's watchdog allows.
const TASK_LIMIT: Duration = Duration::from_secs(15);
/// It takes this number of samples, too: a pause of the whole machine does not count.
const SAMPLES: u32 = 4;
/// Time between two samples.
const EVERY: Duration = Duration::from_millis(400);
/// Sampling may take at most 1 / `COST` of a CPU's time …
const COST: u32 = 100;
/// … unless a starved task would be found too late.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
const _: () = assert!(LONGEST_PAUSE.as_secs() * (SAMPLES as u64 + 1) <= TASK_LIMIT.as_secs());

/// Watches each task of SCHED_EXT on the machine, and whether one of the command's runs, if there is a command.
pub struct StarvationWatch {
    is_of_command: bool,
    due: Instant,
    seen: BTreeMap<u32, Seen>,
    command: Still,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Starving {
    /// The command: it has runnable tasks, and none has run for 2 s.
    Command,
    /// These tasks, while others of the command, or of the machine, run.
    Tasks(Vec<StarvedTask>),
}

/// A task of SCHED_EXT that is runnable and has not run for 15 s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarvedTask {
    who: Waiter,
    waited: Duration,
}

impl fmt::Display for StarvedTask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} has not run for {} s", self.who, self.waited.as_secs())
    }
}

/// What shows whether a task has run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    id: u32,
    name: String,
    /// `schedstat` without the time spent waiting: time on a CPU, and number of timeslices.
    ran: (u64, u64),
    runnable: bool,
    /// It is watched for the command: a descendant of this process.
    is_of_command: bool,
}

/// A task at the last sample, and since when it has been like that.
struct Seen {
    task: Task,
    still: Still,
}

/// For how long nothing has changed.
#[derive(Debug, Clone, Copy)]
struct Still {
    since: Instant,
    samples: u32,
}

impl Still {
    fn from(now: Instant) -> Self {
        Self { since: now, samples: 0 }
    }

    /// One more sample without a change. Whether that is enough for this limit.
    fn go_on(&mut self, now: Instant, limit: Duration) -> bool {
        self.samples += 1;
        self.samples >= SAMPLES && now - self.since >= limit
    }
}

impl StarvationWatch {
    /// Watches the descendants of this process as the command, and all other tasks of SCHED_EXT: the kernel ejects the
    /// scheduler for any of them.
    pub fn of_command() -> Self {
        Self::new(true)
    }

    /// Watches all tasks of SCHED_EXT.
    pub fn of_machine() -> Self {
        Self::new(false)
    }

    fn new(is_of_command: bool) -> Self {
        let now = Instant::now();
        Self { is_of_command, due: now + EVERY, seen: BTreeMap::new(), command: Still::from(now) }
    }

    /// Takes a sample if it is due. A task is returned once; it is watched anew if it goes on starving.
    pub fn check(&mut self) -> Option<Starving> {
        let began = Instant::now();
        if began < self.due {
            return None;
        }
        let cost_before = own_cpu_time();
        let found = self.add(tasks(), began);
        self.due = Instant::now() + pause_after(own_cpu_time().saturating_sub(cost_before));
        found
    }

    fn add(&mut self, tasks: Vec<Task>, now: Instant) -> Option<Starving> {
        let mut starved = Vec::new();
        // A task that has started or ended since the last sample counts as progress of the command.
        let of_command = |task: &&Task| task.is_of_command;
        let before = self.seen.values().map(|seen| &seen.task).filter(of_command).count();
        let mut progress = tasks.iter().filter(of_command).count() != before;
        let mut runnable = false;
        let mut seen = BTreeMap::new();
        for task in tasks {
            let before = self.seen.remove(&task.id).filter(|before| before.task == task);
            progress |= task.is_of_command && before.is_none();
            runnable |= task.is_of_command && task.runnable;
            let mut still = before.map_or(Still::from(now), |before| before.still);
            if still.since < now && task.runnable && still.go_on(now, TASK_LIMIT) {
                let waited = now - still.since;
                starved.push(StarvedTask { who: Waiter::named(task.id, &task.name), waited });
                still = Still::from(now);
            }
            seen.insert(task.id, Seen { task, still });
        }
        self.seen = seen;
        if progress || !runnable {
            self.command = Still::from(now);
        } else if self.is_of_command && self.command.go_on(now, COMMAND_LIMIT) {
            return Some(Starving::Command);
        }
        (!starved.is_empty()).then_some(Starving::Tasks(starved))
    }
}

/// The time between a sample that took this much CPU time and the next one.
fn pause_after(cost: Duration) -> Duration {
    (cost * COST).clamp(EVERY, LONGEST_PAUSE)
}

/// CPU time of the calling thread. The tasks for which others starve delay this thread, too, so that elapsed time says
/// nothing about the cost of a sample.
fn own_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Moves all tasks of the command into the default class, where they run at once. Call this before the
/// scheduler is detached: the kernel then waits for tasks in the middle of a fork, and those may starve, too.
pub fn release_children() {
    for task in tasks().iter().filter(|task| task.is_of_command) {
        // A task that has ended needs no class.
        let _ = into_default_class(task.id);
    }
}

/// Moves these tasks into the default class, where they run at once. An error if the kernel refuses one of them, as it does
/// without CAP_SYS_NICE for tasks of other users.
pub fn release(tasks: &[StarvedTask]) -> Result<(), Errno> {
    tasks.iter().try_for_each(|task| match into_default_class(task.who.pid) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error),
    })
}

fn into_default_class(task: u32) -> Result<(), Errno> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter outlives the call.
    let outcome = unsafe { libc::sched_setscheduler(task as libc::pid_t, libc::SCHED_OTHER, &none) };
    Errno::result(outcome).map(drop)
}

/// All tasks of SCHED_EXT on the machine.
fn tasks() -> Vec<Task> {
    let mut descendants = Descendants::of_this_process();
    tasks::all().filter_map(|(process, id)| task(process, id, &mut descendants)).collect()
}

/// `None`: the task has just ended, or is of another class.
fn task(process: u32, id: u32, descendants: &mut Descendants) -> Option<Task> {
    // Nearly all tasks are of another class, and this call takes far less time than opening a file.
    // SAFETY: takes an integer.
    if unsafe { libc::sched_getscheduler(id as libc::pid_t) } & !libc::SCHED_RESET_ON_FORK
        != SCHED_EXT as libc::c_int
    {
        return None;
    }
    let Stat { name, is_runnable, parent, ticks, .. } = Stat::of_task(process, id)?;
    let schedstat = fs::read_to_string(format!("/proc/{process}/task/{id}/schedstat")).ok()?;
    let parent = Some(parent).filter(|parent| *parent > 0);
    let is_of_command = process != std::process::id() && descendants.include(process, parent);
    let mut numbers = schedstat.split_whitespace().map_while(|word| word.parse().ok());
    let mut ran: (u64, u64) = (numbers.next()?, numbers.nth(1)?);
    if ran == (0, 0) {
        // A kernel that does not count (no CONFIG_SCHEDSTATS, and delayacct off).
        ran.0 = ticks;
    }
    Some(Task { id, name, ran, runnable: is_runnable, is_of_command })
}

/// Which processes descend from this one.
struct Descendants {
    known: BTreeMap<u32, bool>,
}

impl Descendants {
    fn of_this_process() -> Self {
        // The parent of the first process is 0.
        Self { known: BTreeMap::from([(std::process::id(), true), (0, false)]) }
    }

    /// Return true if this process, whose parent is given if it is known, descends from this one, or is it.
    fn include(&mut self, mut process: u32, mut parent: Option<u32>) -> bool {
        let mut line = Vec::new();
        let is_included = loop {
            if let Some(known) = self.known.get(&process) {
                break *known;
            }
            // So that a number that returns, because it is used again, ends the walk.
            self.known.insert(process, false);
            line.push(process);
            // The child of a process that has just ended has another parent now.
            let adopted = |child: &u32| parent_of(*child).filter(|parent| *parent != process);
            let next = parent.take().or_else(|| parent_of(process));
            let Some(next) = next.or_else(|| line.iter().rev().nth(1).and_then(adopted)) else { break false };
            process = next;
        };
        self.known.extend(line.into_iter().map(|process| (process, is_included)));
        is_included
    }
}

fn parent_of(process: u32) -> Option<u32> {
    Some(Stat::of_process(process)?.parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    fn task(id: u32, time: u64, runnable: bool) -> Task {
        Task { id, name: "x".into(), ran: (time, 1), runnable, is_of_command: true }
    }

    /// The starving task, if any, after each of these samples, which are 500 ms apart.
    fn found_at(mut watch: StarvationWatch, samples: &[Vec<Task>]) -> Vec<Option<Starving>> {
        let began = Instant::now();
        let at = |number| began + number * Duration::from_millis(500);
        (0..).zip(samples).map(|(number, tasks)| watch.add(tasks.clone(), at(number))).collect()
    }

    fn starves_at_last(samples: &[Vec<Task>]) -> bool {
        found_at(StarvationWatch::of_command(), samples).pop().unwrap().is_some()
    }

    #[test]
    fn a_command_that_does_not_run_for_two_seconds() {
        let still = vec![task(1, 7, false), task(2, 9, true)];
        assert!(!starves_at_last(&vec![still.clone(); 4]));
        assert!(starves_at_last(&vec![still.clone(); 5]));
        let mut samples = vec![still; 9];
        samples[4][1].ran.0 = 10;
        assert!(!starves_at_last(&samples[..6]), "it ran in between");
    }

    #[test]
    fn tasks_of_others_are_no_progress_of_the_command() {
        let other = |time| Task { is_of_command: false, ..task(2, time, true) };
        let samples: Vec<_> = (0..5).map(|time| vec![task(1, 7, true), other(time)]).collect();
        assert!(starves_at_last(&samples));
        let samples: Vec<_> = (0..31).map(|time| vec![task(1, time, true), other(7)]).collect();
        let found = found_at(StarvationWatch::of_command(), &samples).pop().unwrap();
        assert!(matches!(found, Some(Starving::Tasks(tasks)) if tasks[0].who.pid == 2));
    }

    #[test]
    fn sleeping_tasks_do_not_starve() {
        assert!(!starves_at_last(&vec![vec![task(1, 7, false)]; 40]));
        assert!(!starves_at_last(&vec![Vec::new(); 40]));
    }

    /// Half of what the kernel's watchdog allows, though others run.
    #[test]
    fn a_task_that_does_not_run_for_fifteen_seconds() {
        let samples: Vec<_> = (0..62).map(|time| vec![task(1, 7, true), task(2, time, true)]).collect();
        for watch in [StarvationWatch::of_command(), StarvationWatch::of_machine()] {
            let found = found_at(watch, &samples);
            let times: Vec<usize> = (0..62).filter(|number| found[*number].is_some()).collect();
            assert_eq!(times, [30, 60], "once in 15 s");
            let Some(Starving::Tasks(tasks)) = &found[30] else { panic!("{found:?}") };
            assert_eq!((tasks.len(), tasks[0].who.pid, tasks[0].waited.as_secs()), (1, 1, 15));
        }
    }

    #[test]
    fn a_task_that_slept_in_between_has_not_starved() {
        let samples: Vec<_> =
            (0..60).map(|time| vec![task(1, 7, time % 20 != 19), task(2, time, true)]).collect();
        assert!(found_at(StarvationWatch::of_machine(), &samples).iter().all(Option::is_none));
    }

    #[test]
    fn a_pause_of_the_whole_machine_is_not_starvation() {
        let mut watch = StarvationWatch::of_command();
        let began = Instant::now();
        assert_eq!(watch.add(vec![task(1, 7, true)], began), None);
        assert_eq!(watch.add(vec![task(1, 7, true)], began + Duration::from_secs(60)), None);
    }

    #[test]
    fn samples_cost_little_and_are_never_far_apart() {
        assert_eq!(pause_after(Duration::from_micros(100)), EVERY);
        assert_eq!(pause_after(Duration::from_millis(10)), Duration::from_secs(1));
        assert_eq!(pause_after(Duration::from_secs(1)), LONGEST_PAUSE);
    }

    #[test]
    fn only_cpu_time_is_cost() {
        let before = own_cpu_time();
        std::thread::sleep(Duration::from_millis(300));
        assert!(own_cpu_time() - before < Duration::from_millis(100));
    }

    #[test]
    fn children_and_theirs_are_descendants() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        let mut descendants = Descendants::of_this_process();
        let included = [grandchild, child.id(), 1, std::os::unix::process::parent_id()]
            .map(|id| descendants.include(id, None));
        Command::new("kill").arg(grandchild.to_string()).status().unwrap();
        child.wait().unwrap();
        assert_eq!(included, [true, true, false, false]);
    }
}
