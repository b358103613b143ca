//! From the logs of the CPUs to a recording: one order of all events, and tasks in place of numbers, which the kernel
//! gives to one task after the other.
use super::log::{Identity, Kind, RawEvent};
use flsched_recording::{By, Calls, Event, Left, RealTime, Role, Task, TaskId, What};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::Range;

const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
/// The `static_prio` of nice 0.
const DEFAULT_PRIORITY: i32 = 120;
const IDLE: u32 = 0;

/// What the probe has written.
#[derive(Debug, Default)]
pub struct Logs {
    /// The CPUs' numbers in the kernel.
    pub cpus: Vec<u32>,
    /// By place among these, in the order of time.
    pub events: Vec<Vec<RawEvent>>,
    /// In any order.
    pub identities: Vec<Identity>,
}

/// What becomes of it.
#[derive(Debug, Default)]
pub struct Merged {
    /// Those of which there is an event.
    pub tasks: Vec<Task>,
    /// Since the beginning of the span.
    pub events: Vec<Event>,
    /// Each number's tasks, by the time of their first event.
    numbers: HashMap<u32, Vec<(u64, TaskId)>>,
}

impl Merged {
    /// Of the events in a span of `CLOCK_MONOTONIC`; `recorder` is the number of the process that records.
    pub fn of(logs: &Logs, span: &Range<u64>, recorder: u32) -> Self {
        let mut merged = Self::default();
        in_order(&logs.events, |cpu, event| {
            if span.contains(&event.at) {
                merged.add(cpu, event, span.start);
            }
        });
        merged.identify(logs, recorder);
        merged
    }

    /// The task that had this number last.
    pub fn last_task_of(&self, number: u32) -> Option<TaskId> {
        Some(self.numbers.get(&number)?.last()?.1)
    }

    fn add(&mut self, cpu: usize, event: &RawEvent, start: u64) {
        let left = match event.kind() {
            Kind::Blocked => Left::Blocked,
            Kind::Reading => Left::Reading,
            Kind::InFutex => Left::InFutex,
            Kind::Preempted => Left::Preempted,
            Kind::Yielded => Left::Yielded,
            Kind::Exited => Left::Exited,
            Kind::Woken => return self.wake(cpu, event, By::Task, start),
            Kind::WokenByMessage => return self.wake(cpu, event, By::Message, start),
            Kind::WokenByInterrupt => return self.wake(cpu, event, By::Interrupt, start),
            Kind::WokenByEnd => return self.wake(cpu, event, By::End, start),
            Kind::Forked | Kind::Vforked => {
                let child = self.new_task(event.task, event.at);
                let waits = event.kind() == Kind::Vforked;
                return self.push(cpu, event.at - start, What::Fork { child, waits });
            }
        };
        let mut task_or_idle = |number| (number != IDLE).then(|| self.task(number));
        let (prev, next) = (task_or_idle(event.task), task_or_idle(event.next()));
        let [reads, writes] = event.calls;
        let calls = Calls { reads, writes };
        self.push(cpu, event.at - start, What::Switch { prev, left, next, calls });
    }

    fn wake(&mut self, cpu: usize, event: &RawEvent, by: By, start: u64) {
        let woken = self.task(event.task);
        self.push(cpu, event.at - start, What::Wake { woken, by });
    }

    fn push(&mut self, cpu: usize, at: u64, what: What) {
        self.events.push(Event { at, cpu: cpu as u32, what });
    }

    /// The task that has this number at present.
    fn task(&mut self, number: u32) -> TaskId {
        self.last_task_of(number).unwrap_or_else(|| self.new_task(number, 0))
    }

    fn new_task(&mut self, number: u32, since: u64) -> TaskId {
        let task = self.tasks.len() as TaskId;
        self.numbers.entry(number).or_default().push((since, task));
        self.tasks.push(Task::new(format!("pid-{number}"), number));
        task
    }

    /// The task that had this number then.
    fn task_at(&self, number: u32, at: u64) -> Option<TaskId> {
        let tasks = self.numbers.get(&number)?;
        Some(tasks.iter().rev().find(|(since, _)| *since <= at)?.1)
    }

    /// Describes the tasks, as they were last seen.
    fn identify(&mut self, logs: &Logs, recorder: u32) {
        let mut last: BTreeMap<TaskId, &Identity> = BTreeMap::new();
        for identity in &logs.identities {
            let Some(task) = self.task_at(identity.task, identity.at) else { continue };
            let known = last.entry(task).or_insert(identity);
            if known.at <= identity.at {
                *known = identity;
            }
        }
        for (task, identity) in last {
            let places = 0..logs.cpus.len() as u32;
            let allowed: Vec<u32> =
                places.filter(|&place| identity.may_run_on(logs.cpus[place as usize])).collect();
            let is_limited = !allowed.is_empty() && allowed.len() < logs.cpus.len();
            let process = self.task_at(identity.process, identity.at);
            let name = identity.name();
            let role = match identity.is_kernel_thread != 0 {
                _ if identity.process == recorder => Role::Recorder,
                true if name.starts_with("migration/") => Role::Stopper,
                true => Role::Kernel,
                false => Role::Load,
            };
            let real_time = [SCHED_FIFO, SCHED_RR].contains(&identity.policy).then(|| RealTime {
                priority: identity.real_time_priority.clamp(1, 99) as u8,
                is_round_robin: identity.policy == SCHED_RR,
            });
            let known = &mut self.tasks[task as usize];
            *known = Task {
                name,
                pid: known.pid,
                process,
                nice: (identity.priority - DEFAULT_PRIORITY).clamp(-20, 19),
                real_time,
                is_batch: identity.policy == SCHED_BATCH,
                cpus: is_limited.then_some(allowed),
                role,
            };
        }
    }
}

/// Goes through the events of all CPUs in the order of time. But where clocks differ, a task comes to a CPU only when it
/// has left the one before.
fn in_order(logs: &[Vec<RawEvent>], mut each: impl FnMut(usize, &RawEvent)) {
    let mut at = vec![0; logs.len()];
    let mut running: HashMap<u32, usize> = HashMap::new();
    for (cpu, log) in logs.iter().enumerate() {
        if let Some(first) = log.iter().find(|event| event.kind().is_switch()) {
            running.insert(first.task, cpu);
        }
    }
    let head = |cpu: usize, at: &[usize]| Some(Reverse((logs[cpu].get(at[cpu])?.at, cpu)));
    let mut heads: BinaryHeap<_> = (0..logs.len()).filter_map(|cpu| head(cpu, &at)).collect();
    let mut early = BinaryHeap::new();
    loop {
        let (cpu, is_forced) = match (heads.pop(), early.is_empty()) {
            (Some(Reverse((_, cpu))), _) => (cpu, false),
            // Of what comes early, the first: something is missing in a log.
            (None, false) => {
                let Some(Reverse((_, cpu))) = early.pop() else { return };
                (cpu, true)
            }
            (None, true) => return,
        };
        let event = &logs[cpu][at[cpu]];
        if event.kind().is_switch() {
            let next = event.next();
            let is_elsewhere = next != IDLE && running.get(&next).is_some_and(|&other| other != cpu);
            if is_elsewhere && !is_forced {
                early.extend(head(cpu, &at));
                continue;
            }
            if running.get(&event.task) == Some(&cpu) {
                running.remove(&event.task);
            }
            running.insert(next, cpu);
            heads.append(&mut early);
        }
        each(cpu, event);
        at[cpu] += 1;
        heads.extend(head(cpu, &at));
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::tests::{event, identity};
    use super::*;

    fn merged(events: [Vec<RawEvent>; 2], identities: Vec<Identity>) -> Merged {
        let logs = Logs { cpus: vec![0, 2], events: events.to_vec(), identities };
        Merged::of(&logs, &(1_000..9_000), 99)
    }

    use Kind::*;

    #[test]
    fn events_are_in_the_order_of_time_and_of_tasks() {
        let it = merged(
            [
                vec![
                    event(900, Preempted, 0, 9),
                    event(1_100, Preempted, 9, 7),
                    event(1_500, Preempted, 7, 0),
                ],
                // By this CPU's clock the task comes before it has left the other.
                vec![event(1_400, Preempted, 0, 7), event(1_450, Woken, 8, 0), event(9_500, Blocked, 7, 0)],
            ],
            vec![],
        );
        let seen: Vec<(u64, u32)> = it.events.iter().map(|event| (event.at, event.cpu)).collect();
        assert_eq!(seen, [(100, 0), (500, 0), (400, 1), (450, 1)], "and only those in the span");
    }

    #[test]
    fn a_task_that_waits_in_a_futex_has_left_its_cpu() {
        let it = merged(
            [
                vec![event(1_100, Preempted, 0, 7), event(1_500, InFutex, 7, 0), event(1_550, Woken, 8, 0)],
                // By this CPU's clock the task comes before it has left the other.
                vec![event(1_400, Preempted, 0, 7), event(1_600, InFutex, 7, 0)],
            ],
            vec![],
        );
        let seen: Vec<(u64, u32)> = it.events.iter().map(|event| (event.at, event.cpu)).collect();
        assert_eq!(seen, [(100, 0), (500, 0), (400, 1), (550, 0), (600, 1)]);
    }

    #[test]
    fn what_is_missing_stops_nothing() {
        let it = merged(
            [
                vec![event(1_100, Preempted, 7, 7)],
                vec![event(1_050, Preempted, 0, 7), event(1_200, Blocked, 7, 0)],
            ],
            vec![],
        );
        assert_eq!(it.events.len(), 3);
    }

    #[test]
    fn a_number_is_given_again() {
        let it = merged(
            [
                vec![
                    event(1_100, Preempted, 0, 7),
                    event(1_200, Exited, 7, 5),
                    event(1_300, Forked, 7, 0),
                    event(1_400, Blocked, 5, 7),
                ],
                vec![],
            ],
            vec![identity(1_150, 7, "first"), identity(1_301, 7, "sh"), identity(1_390, 7, "second")],
        );
        let names: Vec<&str> = it.tasks.iter().map(|task| &task.name[..]).collect();
        assert_eq!(names, ["first", "pid-5", "second"]);
        assert_eq!(it.last_task_of(7), Some(2));
    }

    #[test]
    fn says_who_the_tasks_are() {
        let mut niced = identity(0, 7, "niced");
        (niced.priority, niced.policy, niced.real_time_priority) = (125, SCHED_RR, 10);
        let mut pinned = identity(0, 8, "migration/1");
        pinned.is_kernel_thread = 1;
        let own = identity(0, 99, "flsched");
        let events = [7, 8, 99].map(|task| event(1_000 + u64::from(task), Woken, task, 0)).to_vec();
        let it = merged([events, vec![]], vec![niced, pinned, own]);
        assert_eq!((it.tasks[0].nice, it.tasks[0].process, it.tasks[0].cpus.clone()), (5, Some(0), None));
        assert_eq!(it.tasks[0].real_time, Some(RealTime { priority: 10, is_round_robin: true }));
        assert_eq!([1, 2].map(|task: usize| it.tasks[task].role), [Role::Stopper, Role::Recorder]);
    }
}
