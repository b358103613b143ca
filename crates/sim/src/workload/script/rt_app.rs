//! `rt-app:FILE`: a workload of rt-app, a subset of what its doc/tutorial.txt describes, in JSON as rt-app and its
//! `workgen` read it.
//!
//! - `global`: `duration`, `default_policy`. What only concerns logs, calibration and memory locking is read over.
//! - threads: `instance`, `delay`, `loop`, `phases`, `cpus`, `policy`, `priority` (a nice value, or that of a real-time
//!   policy), `dl-runtime`, `dl-period` and `dl-deadline` for SCHED_DEADLINE.
//! - phases: `loop`, `cpus`.
//! - events: see [`EVENTS`]; a number after the name makes it unique.
//!
//! All times are µs. Anything else is refused by line and name, with what to write instead. `run` is work for a CPU at
//! full speed.
use super::json::{self, Node};
use super::tasks::{BudgetPlan, PolicyPlan};
use super::{Kind, Op, Script, ns_of_us};
use crate::Error;
use crate::workload::Wait;
use std::collections::{BTreeMap, BTreeSet};

/// Of a real-time thread that names none.
const DEFAULT_PRIORITY: i64 = 10;

/// Threads of a file.
const MOST_THREADS: u64 = 100_000;

const EVENTS: [&str; 17] = [
    "runtime", "run", "sleep", "timer", "unlock", "lock", "wait", "signal", "broad", "sync", "barrier",
    "suspend", "resume", "yield", "fork", "sem_post", "sem_wait",
];

/// What rt-app knows and is not modelled, and what to do about it. Names of a line begin alike.
const REFUSED: [(&str, &str); 16] = [
    ("memrun", "bytes in memory are not modelled: write run with the µs that they take"),
    ("mem", "bytes in memory are not modelled: write run with the µs that they take"),
    ("iorun", "devices are not modelled: write run and sleep with the µs that it takes"),
    ("taskgroup", "task groups are not modelled: leave it out"),
    ("util_", "clamps of the utilisation are not modelled: leave it out"),
    ("nodes_membind", "memory of nodes is not modelled: leave it out"),
    ("exec", OLD),
    ("period", OLD),
    ("deadline", OLD),
    ("lock_order", OLD),
    ("resources", OLD),
    ("policy", IN_A_PHASE),
    ("priority", IN_A_PHASE),
    ("dl-", IN_A_PHASE),
    ("delay", IN_A_PHASE),
    ("instance", IN_A_PHASE),
];
const OLD: &str = "is of an older rt-app: write run, timer, lock and unlock";
const IN_A_PHASE: &str = "belongs to the thread, not to a phase: move it there";

/// Of `global`, without meaning here.
const IGNORED: [&str; 12] = [
    "calibration",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "frag",
];

/// Reads and checks the file's text; `path` is for messages.
pub fn read(text: &str, path: &str) -> Result<Script, Error> {
    let read = json::strict(text).and_then(|text| script(&text, path));
    read.map_err(|what| Error::Usage(format!("{path}: {what}")))
}

fn script(text: &str, path: &str) -> Result<Script, String> {
    let root = Node::root(text)?;
    let mut tasks = None;
    let mut duration = None;
    let mut reader = Reader::default();
    for (name, node) in root.members()? {
        match name.as_str() {
            "tasks" => tasks = Some(node),
            "global" => (duration, reader.policy) = global(&node)?,
            "resources" => {}
            _ => return Err(node.wrong("expected tasks, global or resources")),
        }
    }
    let tasks = tasks
        .ok_or("there is no object tasks: if this is a part of a workload, put its parts into one file")?;
    for (name, node) in tasks.members()? {
        reader.names.push(name);
        reader.note_names(&node)?;
    }
    let mut kinds = Vec::new();
    for (name, node) in tasks.members()? {
        let kind = reader.thread(&name, &node)?;
        let endless = matches!(kind.ops.last(), Some(Op::Again { times: None, .. }));
        if endless && duration.is_none() && kind.count > 0 {
            return Err(node.wrong("it loops for ever: set its loop, or duration in global"));
        }
        kinds.push(kind);
    }
    reader.check(&kinds)?;
    Ok(Script {
        label: format!("rt-app:{path}"),
        path: path.to_owned(),
        kinds,
        barriers: reader.barriers.values().map(|barrier| barrier.parties).collect(),
        semaphores: reader.semaphores,
        conditions: reader.conditions.len(),
        channels: 0,
        duration,
    })
}

/// The duration, and the policy of threads that name none.
fn global(node: &Node<'_>) -> Result<(Option<u64>, Policy), String> {
    let (mut duration, mut default) = (None, Policy::Other);
    for (name, node) in node.members()? {
        match name.as_str() {
            "duration" => {
                let seconds = node.integer()?;
                if seconds != -1 {
                    let us =
                        u64::try_from(seconds).ok().filter(|s| *s > 0).and_then(|s| s.checked_mul(1_000_000));
                    let ns = us.and_then(ns_of_us);
                    duration = Some(ns.ok_or_else(|| node.wrong("expected -1, or 1 to 1000000 seconds"))?);
                }
            }
            "default_policy" => default = Policy::read(&node)?,
            _ if IGNORED.contains(&name.as_str()) => {}
            _ => return Err(node.wrong("is not modelled: leave it out")),
        }
    }
    Ok((duration, default))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Policy {
    #[default]
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
    Deadline,
}

impl Policy {
    fn read(node: &Node<'_>) -> Result<Self, String> {
        Ok(match node.string()?.as_str() {
            "SCHED_OTHER" => Self::Other,
            "SCHED_BATCH" => Self::Batch,
            "SCHED_IDLE" => Self::Idle,
            "SCHED_FIFO" => Self::Fifo,
            "SCHED_RR" => Self::Rr,
            "SCHED_DEADLINE" => Self::Deadline,
            _ => {
                return Err(node.wrong(
                    "expected SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE",
                ));
            }
        })
    }
}

/// What a thread says about how it is scheduled.
#[derive(Default)]
struct Wishes<'a> {
    policy: Option<Policy>,
    priority: Option<Node<'a>>,
    runtime: Option<Node<'a>>,
    period: Option<Node<'a>>,
    deadline: Option<Node<'a>>,
}

impl Wishes<'_> {
    /// The nice value, and the policy; `None`: as the first task. `thread` is for messages.
    fn plan(self, default: Policy, thread: &Node<'_>) -> Result<(i32, Option<PolicyPlan>), String> {
        let policy = self.policy.unwrap_or(default);
        if policy != Policy::Deadline
            && let Some(node) = self.runtime.as_ref().or(self.period.as_ref()).or(self.deadline.as_ref())
        {
            return Err(node.wrong("a slice of a task's own is not modelled: leave it out"));
        }
        let number = |node: &Option<Node<'_>>, default, range: std::ops::RangeInclusive<i64>, what: &str| {
            let Some(node) = node else { return Ok(default) };
            let number = node.integer()?;
            match range.contains(&number) {
                true => Ok(number),
                false => {
                    let (first, last) = (range.start(), range.end());
                    Err(node.wrong(format!("expected {what} from {first} to {last}")))
                }
            }
        };
        let nice = || number(&self.priority, 0, -20..=19, "a nice value").map(|nice| nice as i32);
        let real_time =
            || number(&self.priority, DEFAULT_PRIORITY, 1..=99, "a priority").map(|priority| priority as u8);
        let plan = match policy {
            Policy::Other => return Ok((nice()?, None)),
            Policy::Batch => return Ok((nice()?, Some(PolicyPlan::Batch))),
            Policy::Idle => return Ok((nice()?, Some(PolicyPlan::Idle))),
            Policy::Fifo => PolicyPlan::Fifo(real_time()?),
            Policy::Rr => PolicyPlan::Rr(real_time()?),
            Policy::Deadline => {
                let runtime = self.runtime.as_ref().ok_or_else(|| thread.wrong("dl-runtime is missing"))?;
                let runtime_us = runtime.count()?;
                let period_us = self.period.as_ref().map_or(Ok(runtime_us), Node::count)?;
                if let Some(node) = &self.deadline
                    && node.count()? != period_us
                {
                    return Err(
                        node.wrong("a deadline before the period's end is not modelled: leave it out")
                    );
                }
                let plan = PolicyPlan::Deadline(BudgetPlan { runtime_us, period_us });
                plan.check().map_err(|what| runtime.wrong(what))?;
                plan
            }
        };
        Ok((0, Some(plan)))
    }
}

fn time(node: &Node<'_>) -> Result<u64, String> {
    ns_of_us(node.count()?).ok_or_else(|| node.wrong("more than 1000000000000 µs"))
}

fn cpus(node: &Node<'_>) -> Result<Op, String> {
    let cpus = node.elements()?.iter().map(Node::count).collect::<Result<Vec<u64>, _>>()?;
    match cpus.is_empty() {
        true => Err(node.wrong("expected at least one CPU")),
        false => Ok(Op::Affinity(cpus.into_iter().map(|cpu| cpu as usize).collect())),
    }
}

struct Barrier {
    number: usize,
    parties: u64,
    from: String,
}

/// What the threads share, by name; numbers in the order of appearance.
#[derive(Default)]
struct Reader {
    names: Vec<String>,
    /// What `suspend` names, which is a hint for the reader only.
    hints: BTreeSet<String>,
    /// Of threads that name none.
    policy: Policy,
    /// Mutexes and semaphores; of a name there may be one of each.
    locks: BTreeMap<(bool, String), usize>,
    /// First count of each.
    semaphores: Vec<u64>,
    conditions: BTreeMap<String, usize>,
    barriers: BTreeMap<String, Barrier>,
    /// Of the thread that is being read.
    timers: BTreeMap<String, usize>,
    instances: u64,
    suspends: Vec<(usize, usize)>,
}

fn number(of: &mut BTreeMap<String, usize>, name: &str) -> usize {
    let next = of.len();
    *of.entry(name.to_owned()).or_insert(next)
}

impl Reader {
    fn lock(&mut self, is_mutex: bool, name: &str) -> usize {
        let next = self.semaphores.len();
        let number = *self.locks.entry((is_mutex, name.to_owned())).or_insert(next);
        if number == next {
            self.semaphores.push(u64::from(is_mutex));
        }
        number
    }

    /// Notes what the steps of a thread and of its phases name in `suspend`.
    fn note_names(&mut self, node: &Node<'_>) -> Result<(), String> {
        for (name, node) in node.members()? {
            match name.as_str() {
                "phases" => {
                    for (_, phase) in node.members()? {
                        self.note_names(&phase)?;
                    }
                }
                name if name.starts_with("suspend") => self.hints.extend(node.string().ok()),
                _ => {}
            }
        }
        Ok(())
    }

    fn thread(&mut self, name: &str, node: &Node<'_>) -> Result<Kind, String> {
        let (mut before, mut ops) = (Vec::new(), Vec::new());
        let (mut times, mut delay, mut wishes) = (None, None, Wishes::default());
        self.timers.clear();
        let members = node.members()?;
        self.instances = match members.iter().find(|(name, _)| name == "instance") {
            Some((_, node)) => node.count()?,
            None => 1,
        };
        if self.instances > MOST_THREADS {
            return Err(node.wrong(format!("more than {MOST_THREADS} instances")));
        }
        for (member, node) in &members {
            match member.as_str() {
                "instance" => {}
                "loop" => times = Some(node.integer()?),
                "delay" => delay = Some(time(node)?),
                "cpus" => before.push(cpus(node)?),
                "policy" => wishes.policy = Some(Policy::read(node)?),
                "priority" => wishes.priority = Some(node.clone()),
                "dl-runtime" => wishes.runtime = Some(node.clone()),
                "dl-period" => wishes.period = Some(node.clone()),
                "dl-deadline" => wishes.deadline = Some(node.clone()),
                "phases" => {
                    for (_, phase) in node.members()? {
                        self.phase(name, &phase, &mut ops)?;
                    }
                }
                event => self.event(name, event, node, &mut ops)?,
            }
        }
        let (nice, plan) = wishes.plan(self.policy, node)?;
        before.extend(delay.map(Op::Sleep));
        let shift = before.len();
        for op in &mut ops {
            if let Op::Again { to, .. } = op {
                *to += shift;
            }
        }
        before.append(&mut ops);
        repeat(&mut before, shift, times.unwrap_or(-1), node)?;
        let (count, timers) = (self.instances, self.timers.len());
        Ok(Kind {
            name: name.to_owned(),
            count,
            nice,
            scheduling: plan.map(PolicyPlan::scheduling),
            is_thread: true,
            memory_mb_per_s: 0,
            start: 0,
            ops: before,
            timers,
        })
    }

    fn phase(&mut self, thread: &str, node: &Node<'_>, ops: &mut Vec<Op>) -> Result<(), String> {
        let (from, mut times) = (ops.len(), 1);
        for (member, node) in node.members()? {
            match member.as_str() {
                "loop" => times = node.integer()?,
                "cpus" => ops.push(cpus(&node)?),
                event => self.event(thread, event, &node, ops)?,
            }
        }
        repeat(ops, from, times, node)
    }

    fn event(&mut self, thread: &str, name: &str, node: &Node<'_>, ops: &mut Vec<Op>) -> Result<(), String> {
        let kind = EVENTS.iter().find(|event| {
            name.strip_prefix(**event).is_some_and(|rest| {
                rest.trim_start_matches(['_', '-']).parse::<u64>().is_ok() || rest.is_empty()
            })
        });
        let Some(kind) = kind else {
            let known = REFUSED.iter().find(|(begin, _)| name.starts_with(begin));
            return Err(node.wrong(match known {
                Some((_, why)) => (*why).to_owned(),
                None => format!("is not modelled: leave it out (events: {})", EVENTS.join(", ")),
            }));
        };
        match *kind {
            "run" | "runtime" => ops.push(Op::Run(time(node)?)),
            "sleep" => ops.push(Op::Sleep(time(node)?)),
            "timer" => ops.push(self.timer(node)?),
            "lock" => ops.push(Op::Down(self.lock(true, &node.string()?))),
            "unlock" => ops.push(Op::Up(self.lock(true, &node.string()?))),
            "wait" => self.wait(node, ops)?,
            "signal" => ops.push(self.signal(&node.string()?, false)),
            "broad" => ops.push(self.signal(&node.string()?, true)),
            "sync" => {
                let (condition, mutex) = reference(node)?;
                let mutex_number = self.lock(true, &mutex);
                ops.push(Op::Down(mutex_number));
                ops.push(self.signal(&condition, false));
                self.wait(node, ops)?;
                ops.push(Op::Up(mutex_number));
            }
            "barrier" => {
                let (next, instances) = (self.barriers.len(), self.instances);
                let from = node.wrong("");
                let barrier =
                    self.barriers.entry(node.string()?).or_insert(Barrier { number: next, parties: 0, from });
                barrier.parties += instances;
                ops.push(Op::Meet(barrier.number, Wait::BLOCK));
            }
            "suspend" => {
                let condition = number(&mut self.conditions, &format!("thread {thread}"));
                self.suspends.push((self.names.iter().position(|it| it == thread).unwrap_or(0), condition));
                ops.push(Op::WaitFor(condition, None));
            }
            "resume" => {
                let other = node.string()?;
                // As in rt-app, a thread suspends itself by its own name, whatever its `suspend` says.
                if !self.names.contains(&other) && !self.hints.contains(&other) {
                    return Err(node.wrong(format!("there is no thread {other}, and no suspend names it")));
                }
                ops.push(self.signal(&format!("thread {other}"), true));
            }
            "yield" => ops.push(Op::Yield),
            "sem_post" => ops.push(Op::Up(self.lock(false, &node.string()?))),
            "sem_wait" => ops.push(Op::Down(self.lock(false, &node.string()?))),
            _ => {
                let child = node.string()?;
                let at = self.names.iter().position(|name| *name == child);
                ops.push(Op::Fork(at.ok_or_else(|| node.wrong(format!("there is no thread {child}")))?));
            }
        }
        Ok(())
    }

    fn timer(&mut self, node: &Node<'_>) -> Result<Op, String> {
        let (mut name, mut period, mut is_absolute) = (None, None, false);
        for (member, node) in node.members()? {
            match member.as_str() {
                "ref" => name = Some(node.string()?),
                "period" => period = Some(time(&node)?),
                "mode" => match node.string()?.as_str() {
                    "absolute" => is_absolute = true,
                    "relative" => {}
                    _ => return Err(node.wrong("expected relative or absolute")),
                },
                _ => return Err(node.wrong("expected ref, period or mode")),
            }
        }
        let name = name.ok_or_else(|| node.wrong("ref is missing"))?;
        if self.instances > 1 && !name.starts_with("unique") {
            return Err(node.wrong("a timer that instances share is not modelled: call it unique…"));
        }
        let period = period.ok_or_else(|| node.wrong("period is missing"))?;
        Ok(Op::Timer { timer: number(&mut self.timers, &name), period, is_absolute })
    }

    fn wait(&mut self, node: &Node<'_>, ops: &mut Vec<Op>) -> Result<(), String> {
        let (condition, mutex) = reference(node)?;
        let mutex = self.lock(true, &mutex);
        let condition = number(&mut self.conditions, &condition);
        ops.push(Op::WaitFor(condition, Some(mutex)));
        ops.push(Op::Down(mutex));
        Ok(())
    }

    fn signal(&mut self, condition: &str, all: bool) -> Op {
        let condition = number(&mut self.conditions, condition);
        if all { Op::Broadcast(condition) } else { Op::Signal(condition) }
    }

    /// What can only be seen when all is read.
    fn check(&self, kinds: &[Kind]) -> Result<(), String> {
        let threads = kinds.iter().map(|kind| kind.count).sum::<u64>();
        if threads == 0 || threads > MOST_THREADS {
            return Err(format!("{threads} threads: from 1 to {MOST_THREADS} can be run"));
        }
        let forked: Vec<usize> = kinds
            .iter()
            .flat_map(|kind| &kind.ops)
            .filter_map(|op| if let Op::Fork(kind) = op { Some(*kind) } else { None })
            .collect();
        for (at, kind) in kinds.iter().enumerate() {
            for op in &kind.ops {
                if let Op::Meet(barrier, _) = op
                    && forked.contains(&at)
                    && let Some((name, it)) = self.barriers.iter().find(|(_, it)| it.number == *barrier)
                {
                    let from = it.from.trim_end_matches(": ");
                    return Err(format!(
                        "{from}: barrier {name}: thread {} is forked, and how often is not known",
                        kind.name
                    ));
                }
            }
        }
        for (name, barrier) in &self.barriers {
            let tasks: u64 = kinds
                .iter()
                .filter(|kind| {
                    kind.ops.iter().any(|op| matches!(op, Op::Meet(number, _) if *number == barrier.number))
                })
                .map(|kind| kind.count)
                .sum();
            if barrier.parties > tasks || barrier.parties == 0 {
                let from = barrier.from.trim_end_matches(": ");
                return Err(format!(
                    "{from}: barrier {name} has {} parties, and {tasks} threads meet there: each meeting needs a name of its own",
                    barrier.parties
                ));
            }
        }
        Ok(())
    }
}

/// `{ "ref": CONDITION, "mutex": MUTEX }`.
fn reference(node: &Node<'_>) -> Result<(String, String), String> {
    let (mut condition, mut mutex) = (None, None);
    for (member, node) in node.members()? {
        match member.as_str() {
            "ref" => condition = Some(node.string()?),
            "mutex" => mutex = Some(node.string()?),
            _ => return Err(node.wrong("expected ref or mutex")),
        }
    }
    condition.zip(mutex).ok_or_else(|| node.wrong("ref and mutex are needed"))
}

/// The steps from `from` on are repeated so often; -1: for ever.
fn repeat(ops: &mut Vec<Op>, from: usize, times: i64, node: &Node<'_>) -> Result<(), String> {
    let takes_time = |op: &Op| !matches!(op, Op::Affinity(_) | Op::Again { .. } | Op::Up(_) | Op::Run(0));
    match times {
        -1 if !ops[from..].iter().any(takes_time) => Err(node.wrong("it loops for ever and does nothing")),
        -1 => {
            ops.push(Op::Again { to: from, times: None });
            Ok(())
        }
        1 => Ok(()),
        0 => {
            ops.truncate(from);
            Ok(())
        }
        2..=1_000_000_000 => {
            ops.push(Op::Again { to: from, times: Some(times as u64 - 1) });
            Ok(())
        }
        _ => Err(node.wrong(format!("loop: {times} is not -1, or from 0 to 1000000000"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Scheduling;

    fn refused(text: &str, needed: &str) {
        let error = read(text, "x.json").unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(needed), "{error}");
    }

    fn one(body: &str) -> String {
        format!(
            "{{ /* a comment */\n\"tasks\": {{\n\"t\": {{ {body} }}\n}},\n\"global\": {{ \"duration\": 2 }}\n}}"
        )
    }

    #[test]
    fn reads_events_in_their_order() {
        let script = read(&one("\"loop\": 3, \"run\": 10, \"sleep0\": 5, \"run\": 7"), "x.json").unwrap();
        let expected =
            [Op::Run(10_000), Op::Sleep(5_000), Op::Run(7_000), Op::Again { to: 0, times: Some(2) }];
        assert_eq!(script.kinds[0].ops, expected);
        assert_eq!(script.duration, Some(2_000_000_000));
    }

    #[test]
    fn phases_repeat_within_threads() {
        let text = one(
            "\"delay\": 9, \"phases\": { \"a\": { \"loop\": 2, \"run\": 1 }, \"b\": { \"yield\": \"\" } }",
        );
        let ops = &read(&text, "x.json").unwrap().kinds[0].ops;
        let expected = [
            Op::Sleep(9_000),
            Op::Run(1_000),
            Op::Again { to: 1, times: Some(1) },
            Op::Yield,
            Op::Again { to: 1, times: None },
        ];
        assert_eq!(*ops, expected);
    }

    #[test]
    fn says_line_field_and_expectation() {
        for (event, needed) in [
            ("iorun", "devices are not modelled: write run and sleep"),
            ("memrun", "bytes in memory are not modelled: write run"),
            ("taskgroup", "task groups are not modelled: leave it out"),
            ("util_max", "clamps of the utilisation are not modelled: leave it out"),
            ("exec", "is of an older rt-app: write run, timer"),
            ("walk", "is not modelled: leave it out (events: runtime, run"),
            ("dl-runtime", "a slice of a task's own is not modelled: leave it out"),
        ] {
            refused(&one(&format!("\"{event}\": 5")), &format!("line 3, tasks.t.{event}: {needed}"));
        }
        refused(
            &one("\"phases\": { \"p\": {\n\"policy\": \"SCHED_FIFO\" } }"),
            "line 4, tasks.t.phases.p.policy: belongs to the thread",
        );
        refused(
            &one("\"run\": \"long\""),
            "line 3, tasks.t.run: expected a whole number from 0, not \"long\"",
        );
        refused(&one("\"run\": -5"), "expected a whole number from 0");
        refused(&one("\"run\": 99999999999999999"), "more than");
        refused(&one("\"run\": 1, \"policy\": \"SCHED_EXT\""), "expected SCHED_OTHER, SCHED_BATCH");
        refused(&one("\"run\": 1, \"policy\": \"SCHED_DEADLINE\""), "dl-runtime is missing");
        refused(
            &one("\"policy\": \"SCHED_RR\", \"priority\": -2"),
            "line 3, tasks.t.priority: expected a priority from 1 to 99",
        );
        refused("{ \"global\": {} }", "there is no object tasks: if this is a part of a workload");
        refused(&one("\"resume\": \"u\""), "there is no thread u, and no suspend names it");
        refused(&one("\"timer\": { \"ref\": \"unique\" }"), "period is missing");
        refused(&one("\"loop\": -1"), "loops for ever and does nothing");
        refused("{ \"tasks\": { \"t\": { \"run\": 1 } } }", "loops for ever: set its loop");
        refused("{ \"tasks\": ", "EOF");
    }

    #[test]
    fn threads_have_policies() {
        let of = |policy: &str| {
            let text = one(&format!("\"loop\": 1, \"run\": 1, \"policy\": \"SCHED_{policy}"));
            let kind = read(&text, "x.json").unwrap().kinds[0].clone();
            (kind.nice, kind.scheduling)
        };
        assert_eq!(of("OTHER\", \"priority\": -7"), (-7, None));
        assert_eq!(of("BATCH\", \"priority\": 5"), (5, Some(Scheduling::Batch)));
        assert_eq!(of("IDLE\""), (0, Some(Scheduling::Idle)));
        assert_eq!(of("FIFO\""), (0, Some(Scheduling::Fifo(10))));
        assert_eq!(of("RR\", \"priority\": 99"), (0, Some(Scheduling::RoundRobin(99))));
        let deadline = Scheduling::Deadline { runtime: 2_000_000, period: 2_000_000 };
        assert_eq!(of("DEADLINE\", \"dl-runtime\": 2000"), (0, Some(deadline)));
        let text = one("\"loop\": 1, \"run\": 1")
            .replace("\"duration\"", "\"default_policy\": \"SCHED_RR\", \"duration\"");
        assert_eq!(read(&text, "x.json").unwrap().kinds[0].scheduling, Some(Scheduling::RoundRobin(10)));
    }

    #[test]
    fn a_semaphore_keeps_what_is_posted() {
        let text =
            one("\"loop\": 1, \"lock\": \"s\", \"unlock\": \"s\", \"sem_post\": \"s\", \"sem_wait\": \"s\"");
        let script = read(&text, "x.json").unwrap();
        assert_eq!(script.kinds[0].ops, [Op::Down(0), Op::Up(0), Op::Up(1), Op::Down(1)]);
        assert_eq!(script.semaphores, [1, 0]);
    }

    #[test]
    fn a_barrier_needs_as_many_threads_as_it_has_parties() {
        refused(&one("\"loop\": 1, \"barrier0\": \"b\", \"barrier1\": \"b\""), "2 parties, and 1 threads");
    }
}
