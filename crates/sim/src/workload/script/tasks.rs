//! `tasks:FILE`: tasks with what they do, in TOML.
//!
//! ```toml
//! jobs = 8                       # at most so many tasks work at a time; without: all
//!
//! [barriers.meet]
//! parties = 4                    # tasks that meet there
//! wait = "yield"                 # spin, yield or futex
//!
//! [[task]]
//! name = "worker"
//! count = 4                      # 1 if left out
//! nice = 0
//! cpus = [0, 1]                  # all if left out
//! needs = ["setup"]              # begins when these have ended
//! rounds = 10                    # how often it does its steps: 1 if left out
//! steps = [{ run_us = 100 }, { barrier = "meet" }, { sleep_us = 50 }, { yields = 3 }]
//! ```
//!
//! Further steps: `{ wake = "NAME" }` and `{ wait = "NAME" }`: as often as somebody wakes a name,
//! somebody who waits for it goes on.
use super::{Kind, MOST_NS, Op, Script, ns_of_us};
use crate::Error;
use crate::core::CpuId;
use crate::workload::Wait;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    jobs: Option<u64>,
    #[serde(default)]
    barriers: BTreeMap<String, FileBarrier>,
    task: Vec<FileTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBarrier {
    parties: u64,
    wait: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTask {
    name: String,
    #[serde(default = "one")]
    count: u64,
    #[serde(default)]
    nice: i32,
    cpus: Option<Vec<CpuId>>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default = "one")]
    rounds: u64,
    steps: Vec<FileStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileStep {
    RunUs(u64),
    SleepUs(u64),
    Yields(u64),
    Barrier(String),
    Wake(String),
    Wait(String),
}

fn one() -> u64 {
    1
}

/// Tasks of a file.
const MOST_TASKS: u64 = 1_000_000;

/// Reads and checks the file's text; `path` is for messages.
pub fn read(text: &str, path: &str) -> Result<Script, Error> {
    let wrong = |what: String| Error::Usage(format!("{path}: {what}"));
    let file: File = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    check(&file).map_err(wrong)?;
    let tasks = &file.task;
    let named = |name: &str| tasks.iter().position(|task| task.name == name);
    let mut names = Names::default();
    // One semaphore each for "has ended", then the slots, then those that steps name.
    names.semaphores.extend(tasks.iter().map(|_| 0));
    let slots = file.jobs.map(|jobs| {
        names.semaphores.push(jobs);
        names.semaphores.len() - 1
    });
    let barriers: Vec<&String> = file.barriers.keys().collect();
    let mut kinds = Vec::new();
    for (number, task) in tasks.iter().enumerate() {
        let mut ops = Vec::new();
        ops.extend(task.cpus.clone().map(Op::Affinity));
        for needed in task.needs.iter().filter_map(|name| named(name)) {
            ops.extend((0..tasks[needed].count).map(|_| Op::Down(needed)));
        }
        ops.extend(slots.map(Op::Down));
        let from = ops.len();
        for step in &task.steps {
            match step {
                FileStep::RunUs(us) => ops.push(Op::Run(us * 1000)),
                FileStep::SleepUs(us) => ops.push(Op::Sleep(us * 1000)),
                FileStep::Yields(count) => {
                    ops.push(Op::Yield);
                    ops.push(Op::Again { to: ops.len() - 1, times: Some(count - 1) });
                }
                FileStep::Barrier(name) => {
                    let barrier = barriers.iter().position(|known| *known == name).unwrap_or(0);
                    let wait = Wait::named(&file.barriers[name].wait).unwrap_or(Wait::YIELD);
                    ops.push(Op::Meet(barrier, wait));
                }
                FileStep::Wake(name) => ops.push(Op::Up(names.semaphore(name))),
                FileStep::Wait(name) => ops.push(Op::Down(names.semaphore(name))),
            }
        }
        ops.push(Op::Again { to: from, times: Some(task.rounds - 1) });
        ops.extend(slots.map(Op::Up));
        let dependants: u64 =
            tasks.iter().filter(|other| other.needs.contains(&task.name)).map(|other| other.count).sum();
        ops.extend((0..dependants).map(|_| Op::Up(number)));
        let (name, count, nice) = (task.name.clone(), task.count, task.nice);
        kinds.push(Kind { name, count, nice, is_thread: false, ops, timers: 0 });
    }
    Ok(Script {
        form: "tasks",
        path: path.to_owned(),
        kinds,
        barriers: file.barriers.values().map(|barrier| barrier.parties).collect(),
        semaphores: names.semaphores,
        conditions: 0,
        duration: None,
    })
}

/// Numbers for names in the order of their appearance.
#[derive(Default)]
struct Names {
    semaphores: Vec<u64>,
    known: BTreeMap<String, usize>,
}

impl Names {
    fn semaphore(&mut self, name: &str) -> usize {
        *self.known.entry(name.to_owned()).or_insert_with(|| {
            self.semaphores.push(0);
            self.semaphores.len() - 1
        })
    }
}

fn check(file: &File) -> Result<(), String> {
    let tasks = &file.task;
    if tasks.is_empty() || file.jobs == Some(0) {
        return Err("at least one [[task]], and at least one of jobs, is needed".into());
    }
    let count = tasks.iter().try_fold(0u64, |sum, task| sum.checked_add(task.count));
    if count.is_none_or(|count| count > MOST_TASKS) {
        return Err(format!("more than {MOST_TASKS} tasks"));
    }
    for (number, task) in tasks.iter().enumerate() {
        let wrong = |what: String| Err(format!("task {}: {what}", task.name));
        if tasks[..number].iter().any(|other| other.name == task.name) {
            return wrong("there are two of that name".into());
        }
        if task.count == 0 || task.rounds == 0 {
            return wrong("count and rounds are at least 1".into());
        }
        if !(-20..=19).contains(&task.nice) {
            return wrong(format!("nice: {} is not from -20 to 19", task.nice));
        }
        if task.cpus.as_ref().is_some_and(Vec::is_empty) {
            return wrong("cpus: it may run nowhere".into());
        }
        if let Some(needed) = task.needs.iter().find(|need| !tasks.iter().any(|it| it.name == **need)) {
            return wrong(format!("needs: there is no task {needed}"));
        }
        let mut life = 0u64;
        for step in &task.steps {
            let ns = match step {
                FileStep::RunUs(us) | FileStep::SleepUs(us) => ns_of_us(*us),
                FileStep::Yields(0) => return wrong("yields: at least 1".into()),
                FileStep::Barrier(name) if !file.barriers.contains_key(name) => {
                    return wrong(format!("barrier: there is no [barriers.{name}]"));
                }
                _ => Some(0),
            };
            life = ns.and_then(|ns| life.checked_add(ns)).unwrap_or(u64::MAX);
        }
        if life.checked_mul(task.rounds).is_none_or(|ns| ns > MOST_NS) {
            return wrong(format!("its times add up to more than {} s", MOST_NS / 1_000_000_000));
        }
    }
    for (name, barrier) in &file.barriers {
        let meets = |step: &FileStep| matches!(step, FileStep::Barrier(other) if other == name);
        let tasks: u64 =
            tasks.iter().filter(|task| task.steps.iter().any(meets)).map(|task| task.count).sum();
        if barrier.parties == 0 || barrier.parties > tasks {
            return Err(format!(
                "barrier {name}: {} parties, and {tasks} tasks that meet there: nobody would ever pass",
                barrier.parties
            ));
        }
        if file.jobs.is_some_and(|jobs| jobs < barrier.parties) {
            return Err(format!(
                "barrier {name}: {} parties, and fewer jobs: nobody would ever pass",
                barrier.parties
            ));
        }
        if Wait::named(&barrier.wait).is_none() {
            return Err(format!(
                "barrier {name}: wait: {} is none of {}",
                barrier.wait,
                Wait::NAMES.join(", ")
            ));
        }
    }
    match cycle(tasks) {
        Some(cycle) => Err(format!("needs go in a circle: {}", cycle.join(" → "))),
        None => Ok(()),
    }
}

/// Tasks that need each other, the first one again at the end.
fn cycle(tasks: &[FileTask]) -> Option<Vec<String>> {
    let mut is_done = vec![false; tasks.len()];
    // What cannot be taken away, task by task whose needs are met, is on a circle or behind one.
    while let Some(next) = (0..tasks.len()).find(|&at| {
        let met = |need: &String| tasks.iter().zip(&is_done).any(|(task, done)| *done && task.name == *need);
        !is_done[at] && tasks[at].needs.iter().all(met)
    }) {
        is_done[next] = true;
    }
    let left = |name: &str| tasks.iter().position(|task| task.name == name).filter(|&at| !is_done[at]);
    let mut path = vec![is_done.iter().position(|done| !done)?];
    loop {
        let next = tasks[*path.last()?].needs.iter().find_map(|need| left(need))?;
        if let Some(from) = path.iter().position(|at| *at == next) {
            path.push(next);
            return Some(path[from..].iter().map(|&at| tasks[at].name.clone()).collect());
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, needed: &str) {
        let error = read(text, "x.toml").unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(needed), "{error}");
    }

    #[test]
    fn reads_all_steps() {
        let text = "jobs = 2\n[barriers.b]\nparties = 2\nwait = \"futex\"\n[[task]]\nname = \"a\"\ncount = 2\n\
                    rounds = 3\nsteps = [{ run_us = 5 }, { sleep_us = 1 }, { yields = 2 }, { barrier = \"b\" }]\n\
                    [[task]]\nname = \"c\"\nneeds = [\"a\"]\nsteps = [{ wake = \"x\" }, { wait = \"x\" }]\n";
        let script = read(text, "x.toml").unwrap();
        assert_eq!(script.barriers, [2]);
        assert_eq!(script.kinds[1].ops[..2], [Op::Down(0), Op::Down(0)], "two instances are needed");
    }

    #[test]
    fn refuses_what_could_never_end() {
        refused(
            "[[task]]\nname = \"a\"\nneeds = [\"b\"]\nsteps = []\n[[task]]\nname = \"b\"\nneeds = [\"c\"]\n\
             steps = []\n[[task]]\nname = \"c\"\nneeds = [\"b\"]\nsteps = []\n",
            "needs go in a circle: b → c → b",
        );
        refused(
            "[barriers.b]\nparties = 3\nwait = \"spin\"\n[[task]]\nname = \"a\"\ncount = 2\n\
             steps = [{ barrier = \"b\" }]\n",
            "barrier b: 3 parties, and 2 tasks",
        );
        refused(
            "jobs = 1\n[barriers.b]\nparties = 2\nwait = \"spin\"\n[[task]]\nname = \"a\"\ncount = 2\n\
             steps = [{ barrier = \"b\" }]\n",
            "barrier b: 2 parties, and fewer jobs",
        );
    }

    #[test]
    fn names_line_and_field() {
        refused("[[task]]\nname = \"a\"\nsteps = [{ run_ms = 3 }]\n", "line 3");
        refused("[[task]]\nname = \"a\"\nsteps = [{ run_us = 3 }]\nnicee = 4\n", "unknown field `nicee`");
        refused("[[task]]\nname = \"a\"\nneeds = [\"z\"]\nsteps = []\n", "there is no task z");
        refused(
            "[[task]]\nname = \"a\"\nrounds = 2\nsteps = [{ run_us = 9223372036854775807 }]\n",
            "add up to more",
        );
        refused("[[task]]\nname = \"a\"\nnice = 20\nsteps = []\n", "nice: 20");
    }
}
