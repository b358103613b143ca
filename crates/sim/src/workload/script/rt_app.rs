//! `rt-app:FILE`: a workload of rt-app, a subset of what its doc/tutorial.txt describes.
//!
//! - `global`: `duration`; `default_policy` if it is SCHED_OTHER. What only concerns logs, calibration and
//!   memory locking is read over.
//! - threads: `instance`, `delay`, `loop`, `phases`, `cpus`, `priority` (a nice value), `policy` if it is
//!   SCHED_OTHER.
//! - phases: `loop`, `cpus`.
//! - events: `run`, `runtime`, `sleep`, `timer`, `lock`, `unlock`, `wait`, `signal`, `broad`, `sync`,
//!   `barrier`, `suspend`, `resume`, `yield`, `fork`; a number after the name makes it unique.
//!
//! All times are µs. Anything else is refused by name. `run` is work for a CPU at full speed.
use super::json::Node;
use super::{Kind, Op, Script, ns_of_us};
use crate::Error;
use crate::workload::Wait;
use std::collections::BTreeMap;

/// Threads of a file.
const MOST_THREADS: u64 = 100_000;

const EVENTS: [&str; 15] = [
    "runtime", "run", "sleep", "timer", "unlock", "lock", "wait", "signal", "broad", "sync", "barrier",
    "suspend", "resume", "yield", "fork",
];

/// Of `global`, without meaning here.
const IGNORED: [&str; 11] = [
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
];

/// Reads and checks the file's text; `path` is for messages.
pub fn read(text: &str, path: &str) -> Result<Script, Error> {
    let text = without_comments(text);
    script(&text, path).map_err(|what| Error::Usage(format!("{path}: {what}")))
}

fn script(text: &str, path: &str) -> Result<Script, String> {
    let root = Node::root(text)?;
    let mut tasks = None;
    let mut duration = None;
    for (name, node) in root.members()? {
        match name.as_str() {
            "tasks" => tasks = Some(node),
            "global" => duration = global(&node)?,
            "resources" => {}
            _ => return Err(node.wrong("expected tasks, global or resources")),
        }
    }
    let tasks = tasks.ok_or("there is no object tasks")?;
    let mut reader = Reader::default();
    for (name, _) in tasks.members()? {
        reader.names.push(name);
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
        semaphores: vec![1; reader.mutexes.len()],
        conditions: reader.conditions.len(),
        channels: 0,
        duration,
    })
}

/// `/* … */` and `// …` as rt-app's reader allows them, with blanks in their place.
fn without_comments(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let (mut in_string, mut ends_with) = (false, None);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (mut take, mut blank) = (next.len_utf8(), ends_with.is_some());
        match ends_with {
            Some(end) if rest.starts_with(end) => {
                take = str::len(end);
                ends_with = None;
            }
            Some(_) => {}
            None if in_string && next == '\\' => take += rest[1..].chars().next().map_or(0, char::len_utf8),
            None if next == '"' => in_string = !in_string,
            None if !in_string && (rest.starts_with("/*") || rest.starts_with("//")) => {
                ends_with = Some(if rest.starts_with("/*") { "*/" } else { "\n" });
                (take, blank) = (2, true);
            }
            None => {}
        }
        for part in rest[..take].chars() {
            result.push(if blank && part != '\n' { ' ' } else { part });
        }
        rest = &rest[take..];
    }
    result
}

fn global(node: &Node<'_>) -> Result<Option<u64>, String> {
    let mut duration = None;
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
            "default_policy" => policy(&node)?,
            _ if IGNORED.contains(&name.as_str()) => {}
            _ => return Err(node.wrong("is not modelled")),
        }
    }
    Ok(duration)
}

fn policy(node: &Node<'_>) -> Result<(), String> {
    match node.string()?.as_str() {
        "SCHED_OTHER" => Ok(()),
        other => Err(node.wrong(format!("{other} is not modelled for single tasks: only SCHED_OTHER"))),
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
    mutexes: BTreeMap<String, usize>,
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
    fn thread(&mut self, name: &str, node: &Node<'_>) -> Result<Kind, String> {
        let (mut before, mut ops) = (Vec::new(), Vec::new());
        let (mut nice, mut times, mut delay) = (0, None, None);
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
                "policy" => policy(node)?,
                "priority" => {
                    nice = node.integer()? as i32;
                    if !(-20..=19).contains(&node.integer()?) {
                        return Err(node.wrong("expected a nice value from -20 to 19"));
                    }
                }
                "phases" => {
                    for (_, phase) in node.members()? {
                        self.phase(name, &phase, &mut ops)?;
                    }
                }
                event => self.event(name, event, node, &mut ops)?,
            }
        }
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
            scheduling: None,
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
            return Err(node.wrong(format!("is not modelled (events: {})", EVENTS.join(", "))));
        };
        match *kind {
            "run" | "runtime" => ops.push(Op::Run(time(node)?)),
            "sleep" => ops.push(Op::Sleep(time(node)?)),
            "timer" => ops.push(self.timer(node)?),
            "lock" => ops.push(Op::Down(number(&mut self.mutexes, &node.string()?))),
            "unlock" => ops.push(Op::Up(number(&mut self.mutexes, &node.string()?))),
            "wait" => self.wait(node, ops)?,
            "signal" => ops.push(self.signal(&node.string()?, false)),
            "broad" => ops.push(self.signal(&node.string()?, true)),
            "sync" => {
                let (condition, mutex) = reference(node)?;
                let mutex_number = number(&mut self.mutexes, &mutex);
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
                if !self.names.contains(&other) {
                    return Err(node.wrong(format!("there is no thread {other}")));
                }
                ops.push(self.signal(&format!("thread {other}"), true));
            }
            "yield" => ops.push(Op::Yield),
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
        let mutex = number(&mut self.mutexes, &mutex);
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
        refused(&one("\"iorun\": 5"), "line 3, tasks.t.iorun: is not modelled");
        refused(
            &one("\"run\": \"long\""),
            "line 3, tasks.t.run: expected a whole number from 0, not \"long\"",
        );
        refused(&one("\"run\": -5"), "expected a whole number from 0");
        refused(&one("\"run\": 99999999999999999"), "more than");
        refused(&one("\"run\": 1, \"policy\": \"SCHED_DEADLINE\""), "SCHED_DEADLINE is not modelled");
        refused(&one("\"resume\": \"u\""), "there is no thread u");
        refused(&one("\"timer\": { \"ref\": \"unique\" }"), "period is missing");
        refused(&one("\"loop\": -1"), "loops for ever and does nothing");
        refused("{ \"tasks\": { \"t\": { \"run\": 1 } } }", "loops for ever: set its loop");
        refused("{ \"tasks\": ", "EOF");
    }

    #[test]
    fn a_barrier_needs_as_many_threads_as_it_has_parties() {
        refused(&one("\"loop\": 1, \"barrier0\": \"b\", \"barrier1\": \"b\""), "2 parties, and 1 threads");
    }
}
