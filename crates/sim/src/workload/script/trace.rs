//! `trace:FILE`: what tasks did on a real machine, done again under another scheduler. Two forms:
//!
//! - the text of `perf sched script` or `perf script` with `sched:sched_switch` and `sched:sched_wakeup`;
//! - CSV with the header `time_us,event,task,other`, as other tracers can be made to write it.
//!
//! Events: `run` (the task gets a CPU), `preempt` (it loses the CPU but is still runnable), `sleep`,
//! `wake` (the task, or an interrupt, wakes `other`), `exit`.
//!
//! What is replayed: how long a task computed between its sleeps, and which task woke it. A sleeper that
//! another task of the trace woke is woken by that task again, however late. One that an interrupt woke
//! sleeps for as long as it did in the trace.
use super::{Kind, MOST_NS, Op, Script};
use crate::Error;
use crate::engine::Ns;
use crate::perf_script::{self, Line, ns};
use std::collections::{BTreeMap, BTreeSet};

/// What a task did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Run,
    Preempt,
    Sleep,
    Wake,
    Exit,
}

/// Something that happened; tasks by number, `None`: an interrupt, or the idle task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    line: usize,
    at: Ns,
    what: What,
    task: Option<usize>,
    other: Option<usize>,
}

#[derive(Default)]
struct Trace {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
    events: Vec<Event>,
}

/// Reads and checks the file's text; `path` is for messages.
pub fn read(text: &str, path: &str) -> Result<Script, Error> {
    let wrong = |what: String| Error::Usage(format!("{path}: {what}"));
    let mut trace = Trace::default();
    if text.trim_start().starts_with("time_us,") {
        trace.csv(text).map_err(wrong)?;
    } else {
        trace.perf(text).map_err(wrong)?;
    }
    trace.check().map_err(wrong)?;
    let (kinds, semaphores) = trace.kinds();
    Ok(Script {
        label: format!("trace:{path}"),
        path: path.to_owned(),
        kinds,
        barriers: Vec::new(),
        semaphores,
        conditions: 0,
        channels: 0,
        duration: None,
    })
}

impl Trace {
    fn task(&mut self, name: &str) -> Option<usize> {
        if name.is_empty() {
            return None;
        }
        let next = self.names.len();
        let number = *self.numbers.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.names.push(name.to_owned());
        }
        Some(number)
    }

    fn add(&mut self, line: usize, time: &str, unit_ns: u64, words: [&str; 3]) -> Result<(), String> {
        let at = ns(time, unit_ns).ok_or(format!("line {line}, time: {time} is not a time"))?;
        let what = match words[0] {
            "run" => What::Run,
            "preempt" => What::Preempt,
            "sleep" => What::Sleep,
            "wake" => What::Wake,
            "exit" => What::Exit,
            other => {
                return Err(format!(
                    "line {line}, event: {other} is none of run, preempt, sleep, wake, exit"
                ));
            }
        };
        let (task, other) = (self.task(words[1]), self.task(words[2]));
        if what != What::Wake && task.is_none() {
            return Err(format!("line {line}, task: is missing"));
        }
        if (what == What::Wake) != other.is_some() {
            return Err(format!("line {line}, other: goes with wake, and wake goes with it"));
        }
        self.events.push(Event { line, at, what, task, other });
        Ok(())
    }

    fn push(&mut self, line: usize, at: Ns, what: What, [task, other]: [&str; 2]) {
        let (task, other) = (self.task(task), self.task(other));
        self.events.push(Event { line, at, what, task, other });
    }

    fn csv(&mut self, text: &str) -> Result<(), String> {
        for (index, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            match fields[..] {
                [""] => {}
                ["time_us", "event", "task", "other"] if index == 0 => {}
                [time, event, task, other] if index > 0 => {
                    self.add(index + 1, time, 1000, [event, task, other])?
                }
                _ => return Err(format!("line {}: expected time_us,event,task,other", index + 1)),
            }
        }
        Ok(())
    }

    fn perf(&mut self, text: &str) -> Result<(), String> {
        let (mut recorded, mut off) = (BTreeSet::new(), BTreeSet::new());
        for line in perf_script::lines(text) {
            let Line { number, at, what, cpu } = line?;
            match what {
                perf_script::What::Switch { prev, state, next } => {
                    let what = match state {
                        'R' => What::Preempt,
                        'X' | 'Z' => What::Exit,
                        _ => What::Sleep,
                    };
                    // perf turns on one CPU after the other: a task may have come to this one before it was its turn.
                    if recorded.insert(cpu) && off.contains(&prev) {
                        self.push(number, at, What::Run, [&prev, ""]);
                    }
                    if !prev.is_empty() {
                        self.push(number, at, what, [&prev, ""]);
                    }
                    off.remove(&next);
                    off.insert(prev);
                    if !next.is_empty() {
                        self.push(number, at, What::Run, [&next, ""]);
                    }
                }
                // waking and wakeup are two views of one wake-up; the first has the waker's context.
                perf_script::What::Wake { waker, woken, .. } if !woken.is_empty() && woken != waker => {
                    self.push(number, at, What::Wake, [&waker, &woken]);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Times do not run backwards, and what a task does goes together.
    fn check(&self) -> Result<(), String> {
        let Some(first) = self.events.first() else { return Err("there is no event in it".into()) };
        let mut is_running = vec![None; self.names.len()];
        for pair in self.events.windows(2) {
            if pair[1].at < pair[0].at {
                return Err(format!(
                    "line {}, time: {} ns before the event above",
                    pair[1].line,
                    pair[0].at - pair[1].at
                ));
            }
        }
        for event in &self.events {
            if event.at - first.at > MOST_NS {
                return Err(format!(
                    "line {}, time: more than {} s after the first",
                    event.line,
                    MOST_NS / 1_000_000_000
                ));
            }
            let Some(task) = event.task else { continue };
            let name = &self.names[task];
            match event.what {
                What::Run if is_running[task] == Some(true) => {
                    return Err(format!(
                        "line {}: {name} starts to run on a CPU, but runs on one already",
                        event.line
                    ));
                }
                What::Preempt | What::Sleep | What::Exit if is_running[task] == Some(false) => {
                    return Err(format!("line {}: {name} stops running, but runs on no CPU", event.line));
                }
                What::Run => is_running[task] = Some(true),
                What::Preempt | What::Sleep | What::Exit => is_running[task] = Some(false),
                What::Wake => {}
            }
        }
        Ok(())
    }

    /// Each task with its list; each has a semaphore on which it is woken.
    fn kinds(&self) -> (Vec<Kind>, Vec<u64>) {
        let start = self.events[0].at;
        let mut states: Vec<State> = self.names.iter().map(|_| State::default()).collect();
        for event in &self.events {
            if let Some(task) = event.task {
                let state = &mut states[task];
                match event.what {
                    What::Run => {
                        // A task that first appears in the middle of the trace waits until then, if
                        // no task woke it.
                        if !state.is_known && !state.is_woken {
                            state.ops.push(Op::Sleep(event.at - start));
                        }
                        if let Some(since) = state.asleep_since.take() {
                            // The trace has no wake-up by a task: it sleeps for as long as it did.
                            state.ops.push(Op::Sleep(event.at - since));
                        }
                        state.running_since = Some(event.at);
                    }
                    What::Preempt | What::Sleep | What::Exit => {
                        state.ran_until(event.at, start);
                        state.running_since = None;
                        if event.what == What::Sleep {
                            state.asleep_since = Some(event.at);
                        }
                    }
                    What::Wake => {
                        state.ran_until(event.at, start);
                        state.running_since = state.running_since.map(|_| event.at);
                    }
                }
                state.is_known = true;
            }
            if event.what == What::Wake
                && let Some(woken) = event.other
            {
                let waker = event.task.filter(|&task| states[task].running_since.is_some());
                let state = &mut states[woken];
                let slept_since = if state.is_known { state.asleep_since.take() } else { Some(start) };
                let Some(since) = slept_since.filter(|_| !state.is_woken || state.is_known) else { continue };
                state.is_woken = true;
                state.is_known = true;
                match waker {
                    Some(waker) => {
                        state.ops.push(Op::Down(woken));
                        states[waker].ops.push(Op::Up(woken));
                    }
                    None => state.ops.push(Op::Sleep(event.at - since)),
                }
            }
        }
        let end = self.events[self.events.len() - 1].at;
        let kinds = states.into_iter().zip(&self.names).map(|(mut state, name)| {
            state.ran_until(end, start);
            Kind {
                name: name.clone(),
                count: 1,
                nice: 0,
                scheduling: None,
                is_thread: false,
                memory_mb_per_s: 0,
                start: 0,
                ops: state.ops,
                timers: 0,
            }
        });
        (kinds.collect(), vec![0; self.names.len()])
    }
}

/// A task on the way through the trace.
#[derive(Default)]
struct State {
    ops: Vec<Op>,
    is_known: bool,
    is_woken: bool,
    running_since: Option<Ns>,
    asleep_since: Option<Ns>,
}

impl State {
    /// A task whose first event is the loss of its CPU ran since the trace began.
    fn ran_until(&mut self, at: Ns, start: Ns) {
        let since = self.running_since.or((!self.is_known).then_some(start));
        if let Some(since) = since.filter(|since| *since < at) {
            self.ops.push(Op::Run(at - since));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERF: &str = "\
            swapper     0 [001] 100.000000: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a b next_pid=7 next_prio=120
                a b     7 [001] 100.001000: sched:sched_wakeup: comm=c pid=8 prio=120 target_cpu=002
                a b     7 [001] 100.003000: sched:sched_switch: prev_comm=a b prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=c next_pid=8 next_prio=120
                  c     8 [001] 100.004000: sched:sched_switch: c:8 [120] X ==> swapper/1:0 [120]
            swapper     0 [001] 100.009000: sched:sched_wakeup: a b:7 [120] CPU:001
            swapper     0 [001] 100.009500: sched:sched_switch: swapper/1:0 [120] R ==> a b:7 [120]
                a b     7 [001] 100.010000: sched:sched_switch: a b:7 [120] X ==> swapper/1:0 [120]
";

    #[test]
    fn reads_both_forms_of_perf() {
        let script = read(PERF, "x.txt").unwrap();
        let ms = 1_000_000;
        assert_eq!(script.kinds[0].name, "a b:7");
        let expected =
            [Op::Sleep(0), Op::Run(ms), Op::Up(1), Op::Run(2 * ms), Op::Sleep(6 * ms), Op::Run(ms / 2)];
        assert_eq!(script.kinds[0].ops, expected);
        assert_eq!(script.kinds[1].ops, [Op::Down(1), Op::Run(ms)]);
    }

    #[test]
    fn a_cpu_may_be_recorded_later_than_another() {
        let text = "\
            a 7 [000] 1.000000000: sched:sched_switch: a:7 [120] R ==> b:8 [120]
            b 8 [000] 1.000004000: sched:sched_switch: b:8 [120] S ==> swapper/0:0 [120]
            a 7 [001] 1.000005000: sched:sched_switch: a:7 [120] S ==> swapper/1:0 [120]
";
        assert_eq!(read(text, "x.txt").unwrap().kinds.len(), 2);
        let twice = text.to_owned() + "a 7 [001] 1.000006: sched:sched_switch: a:7 [120] S ==> b:8 [120]\n";
        let error = read(&twice, "x.txt").unwrap_err().to_string();
        assert!(error.contains("line 4: a:7 stops running, but runs on no CPU"), "{error}");
    }

    #[test]
    fn reads_csv() {
        let csv = "time_us,event,task,other\n0,run,a,\n2.5,wake,a,b\n4,sleep,a,\n4,run,b,\n7,wake,,a\n8,exit,b,\n8,run,a,\n9,exit,a,\n";
        let csv = read(csv, "x").unwrap();
        assert_eq!(csv.kinds[0].ops[1..3], [Op::Run(2500), Op::Up(1)]);
    }

    #[test]
    fn refuses_what_cannot_have_happened() {
        let refused = |lines: &str, needed: &str| {
            let error = read(&format!("time_us,event,task,other\n{lines}"), "x.csv").unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(needed), "{error}");
        };
        refused("5,run,a,\n4,sleep,a,\n", "line 3, time: 1000 ns before the event above");
        refused("5,run,a,\n6,run,a,\n", "line 3: a starts to run on a CPU, but runs on one already");
        refused("5,walk,a,\n", "line 2, event: walk is none of");
        refused("x,run,a,\n", "line 2, time: x");
        refused("0,run,a,\n99999999999999999,sleep,a,\n", "line 3, time:");
        refused("", "no event");
        let error = read("hello\n", "x.txt").unwrap_err().to_string();
        assert!(error.contains("line 1: expected a line of perf script"), "{error}");
    }
}
