//! What each task did between its sleeps, in its own order: what a replay does again.
//!
//! A sleep ends by a wake-up. Its waker is the task that ran on the CPU of the wake-up, or an interrupt there. A wake-up
//! that found its task awake ended no sleep, but two cases look like it. A waker may see the task go to sleep before the
//! task has left its CPU. And the clocks of two CPUs may differ, so that a task seems to run before its wake-up. So a
//! sleep without a wake-up takes the one just before it, or one just after its end.
use crate::broadcasts;
use crate::messages::{self, After, Run};
use crate::{By, Calls, Event, Left, Ns, Recording, TaskId, What};

/// By how much the clocks of two CPUs differ at most. On hardware they hardly do; emulated CPUs take turns of up to 2 µs.
const SKEW_NS: Ns = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    pub begin: Begin,
    pub deeds: Vec<Deed>,
    /// It ended before the recording did.
    pub has_exited: bool,
}

/// How a task came into the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// It could run when the recording began.
    Ready,
    /// It slept when the recording began.
    Asleep,
    /// Another task of the replay created it.
    Forked,
    /// A task that is not replayed created it, at this time.
    At(Ns),
}

/// What a task did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It ran for this time.
    Ran(Ns),
    /// It lost its CPU although it could go on.
    Preempted,
    /// It called `sched_yield`, and another task ran.
    Yielded,
    /// It woke this task.
    Woke(TaskId),
    /// It woke this task by a message.
    Messaged(TaskId),
    /// The call that sent the message before woke this task, too.
    MessagedToo(TaskId),
    /// It ended, and so woke this task, its parent.
    Ended(TaskId),
    /// It created this task.
    Forked(TaskId),
    /// The same, and slept in the same call until it was woken.
    Vforked(TaskId),
    /// An interrupt on its CPU woke a task.
    Interrupted,
    /// It slept for this time, until an interrupt, or something unknown, woke it.
    Slept(Ns),
    /// It slept until another task woke it.
    Waited,
    /// It wrote what this task, which was awake, read later.
    Sent(TaskId),
    /// It read what another task had written before, and so did not sleep.
    Took,
}

/// What else is found on the way through the events.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Switches from and to tasks that are replayed.
    pub(crate) switches: u64,
    /// How long these ran, on all CPUs.
    pub(crate) busy: Ns,
    /// From each of their wake-ups and forks to their next run.
    pub(crate) latencies: Vec<Ns>,
    /// When the command's task came and ended.
    pub(crate) command: [Option<Ns>; 2],
}

impl Recording {
    /// Of each task by number; `None`: it did nothing, or is not replayed.
    pub fn lives(&self) -> Vec<Option<Life>> {
        self.follow().0
    }

    pub(crate) fn follow(&self) -> (Vec<Option<Life>>, Seen) {
        let mut walk = Walk {
            tasks: self.tasks.iter().map(|task| State::new(task.role.is_replayed())).collect(),
            on: self.first_tasks(),
            command: self.header.command_task,
            seen: Seen::default(),
        };
        for event in &self.events {
            walk.step(event);
        }
        // Close runs that are still open when recording ends.
        for cpu in 0..walk.on.len() {
            walk.actor(cpu, self.header.length);
        }
        let runs: Vec<Vec<Run>> = walk.tasks.iter_mut().map(|task| std::mem::take(&mut task.runs)).collect();
        let mut lives: Vec<_> = walk.tasks.into_iter().map(State::finish).collect();
        for (life, runs) in lives.iter_mut().zip(&runs) {
            if let Some(life) = life {
                broadcasts::join(life, runs);
            }
        }
        messages::add(&mut lives, &runs);
        (lives, walk.seen)
    }

    /// What each CPU ran when the recording began, which its first switch says.
    pub(crate) fn first_tasks(&self) -> Vec<Option<TaskId>> {
        let mut tasks = vec![None; self.header.cpus.len()];
        for event in self.events.iter().rev() {
            if let What::Switch { prev, .. } = event.what {
                tasks[event.cpu as usize] = prev;
            }
        }
        tasks
    }
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Nothing has been seen of it.
    Unknown,
    Running {
        since: Ns,
    },
    Ready,
    Asleep {
        since: Ns,
        /// For something that another task will write.
        is_reading: bool,
    },
    Gone,
}

/// A wake-up: when, and the place among the deeds of the task that did it; `None`: an interrupt.
pub(crate) type WakeUp = (Ns, Option<(TaskId, usize)>);

struct State {
    is_replayed: bool,
    begin: Option<Begin>,
    place: Where,
    deeds: Vec<Step>,
    /// The wake-up that ends its sleep, before it runs.
    wake: Option<WakeUp>,
    /// The last one that found it awake.
    early: Option<WakeUp>,
    /// It ran after a sleep that nothing ended: when, its place among the deeds, and whether it was in a read.
    unexplained: Option<(Ns, usize, bool)>,
    /// From when to when it was on a CPU; the last one is not over.
    runs: Vec<Run>,
    run: Run,
    /// For how long it ran in all.
    ran: Ns,
    /// From when on it waits for a CPU after a wake-up.
    woken_at: Option<Ns>,
}

/// A deed, as far as it is known.
#[derive(Clone, Copy)]
enum Step {
    Is(Deed),
    /// A wake-up of which it is not known whether it ended a sleep.
    MayBe(Deed),
}

struct Walk {
    tasks: Vec<State>,
    /// By CPU.
    on: Vec<Option<TaskId>>,
    command: Option<TaskId>,
    seen: Seen,
}

impl Walk {
    fn step(&mut self, event: &Event) {
        let (at, cpu) = (event.at, event.cpu as usize);
        match event.what {
            What::Switch { prev, left, next, calls } => {
                let is_replayed =
                    |task: Option<TaskId>| task.is_some_and(|it| self.tasks[it as usize].is_replayed);
                self.seen.switches += u64::from(is_replayed(prev) || is_replayed(next));
                if let Some(prev) = prev {
                    self.leave(prev, left, calls, at);
                }
                self.on[cpu] = next;
                if let Some(next) = next {
                    self.come(next, at);
                }
            }
            What::Wake { woken, by } => self.wake(cpu, woken, by, at),
            What::Fork { child, waits } => {
                let parent = self.actor(cpu, at);
                let state = &mut self.tasks[child as usize];
                state.begin = Some(if parent.is_some() { Begin::Forked } else { Begin::At(at) });
                state.place = Where::Ready;
                state.woken_at = Some(at);
                // A thread of the scheduler itself, as of a CPU that comes online, is not created in a replay.
                let is_replayed = state.is_replayed;
                if let Some(parent) = parent.filter(|_| is_replayed) {
                    let deed = if waits { Deed::Vforked(child) } else { Deed::Forked(child) };
                    self.tasks[parent as usize].deeds.push(Step::Is(deed));
                }
                if self.command == Some(child) {
                    self.seen.command[0] = Some(at);
                }
            }
        }
    }

    /// The replayed task that runs on the CPU, with its run up to now written down.
    fn actor(&mut self, cpu: usize, at: Ns) -> Option<TaskId> {
        let task = self.on[cpu].filter(|&task| self.tasks[task as usize].is_replayed)?;
        self.ran(task, at);
        Some(task)
    }

    /// The task has run until now.
    fn ran(&mut self, task: TaskId, at: Ns) {
        let state = &mut self.tasks[task as usize];
        let since = match state.place {
            Where::Running { since } => since,
            // Nothing was seen of it because it ran all the time.
            Where::Unknown => {
                state.begin = Some(Begin::Ready);
                0
            }
            _ => at,
        };
        let ns = at.saturating_sub(since);
        state.place = Where::Running { since: at };
        if ns > 0 && state.is_replayed {
            state.deeds.push(Step::Is(Deed::Ran(ns)));
            state.ran += ns;
            self.seen.busy += ns;
        }
    }

    fn leave(&mut self, task: TaskId, left: Left, calls: Calls, at: Ns) {
        self.ran(task, at);
        let state = &mut self.tasks[task as usize];
        let mut run = std::mem::take(&mut state.run);
        (run.until, run.calls) = (at, calls);
        state.runs.push(run);
        state.wake = None;
        state.place = match left {
            Left::Blocked | Left::InFutex => Where::Asleep { since: at, is_reading: false },
            Left::Reading => Where::Asleep { since: at, is_reading: true },
            Left::Preempted => {
                state.deeds.push(Step::Is(Deed::Preempted));
                Where::Ready
            }
            Left::Yielded => {
                state.deeds.push(Step::Is(Deed::Yielded));
                Where::Ready
            }
            Left::Exited => {
                if self.command == Some(task) {
                    self.seen.command[1] = Some(at);
                }
                Where::Gone
            }
        };
    }

    fn come(&mut self, task: TaskId, at: Ns) {
        let state = &mut self.tasks[task as usize];
        let mut latency = state.woken_at.take().map(|woken_at| at.saturating_sub(woken_at));
        state.unexplained = None;
        let mut after = After::Preemption;
        match state.place {
            Where::Asleep { since, is_reading } => {
                let wake = state.wake.take().or(state.early.filter(|(early, _)| early + SKEW_NS >= since));
                let deed = match wake {
                    Some((_, Some(_))) => Deed::Waited,
                    Some((woken_at, None)) => Deed::Slept(woken_at.saturating_sub(since)),
                    None => Deed::Slept(at.saturating_sub(since)),
                };
                if wake.is_none() {
                    state.unexplained = Some((at, state.deeds.len(), is_reading));
                }
                state.deeds.push(Step::Is(deed));
                after = self.after(is_reading, wake);
                if let Some((woken_at, waker)) = wake {
                    latency = Some(at.saturating_sub(woken_at));
                    self.confirm(waker);
                }
            }
            // It waited for a CPU when the recording began.
            Where::Unknown => state.begin = Some(Begin::Ready),
            _ => {}
        }
        let state = &mut self.tasks[task as usize];
        state.early = None;
        state.place = Where::Running { since: at };
        state.run = Run { since: at, ran_before: state.ran, after, ..Run::default() };
        if state.is_replayed {
            self.seen.latencies.extend(latency);
        }
    }

    fn wake(&mut self, cpu: usize, woken: TaskId, by: By, at: Ns) {
        let running = self.actor(cpu, at);
        // What no task of the replay did comes from outside.
        let waker = running.filter(|&waker| by != By::Interrupt && waker != woken).map(|waker| {
            let deeds = &mut self.tasks[waker as usize].deeds;
            deeds.push(Step::MayBe(match by {
                By::Message => Deed::Messaged(woken),
                By::End => Deed::Ended(woken),
                By::Task | By::Interrupt => Deed::Woke(woken),
            }));
            (waker, deeds.len() - 1)
        });
        if let Some(running) = running.filter(|_| by == By::Interrupt) {
            self.tasks[running as usize].deeds.push(Step::Is(Deed::Interrupted));
        }
        let state = &mut self.tasks[woken as usize];
        if state.place == Where::Unknown {
            state.begin = Some(Begin::Asleep);
            state.place = Where::Asleep { since: 0, is_reading: false };
        }
        match (state.place, state.unexplained) {
            (Where::Asleep { .. }, _) => {
                state.wake.get_or_insert((at, waker));
            }
            (_, Some((ran_at, deed, is_reading))) if at <= ran_at + SKEW_NS => {
                let after = self.after(is_reading, Some((at, waker)));
                let state = &mut self.tasks[woken as usize];
                state.unexplained = None;
                state.run.after = after;
                if waker.is_some() {
                    state.deeds[deed] = Step::Is(Deed::Waited);
                }
                if state.is_replayed {
                    self.seen.latencies.push(0);
                }
                self.confirm(waker);
            }
            _ => state.early = Some((at, waker)),
        }
    }

    /// What came before the run of a task that slept, in a `read` or not, until this wake-up.
    fn after(&self, is_reading: bool, wake: Option<WakeUp>) -> After {
        match wake {
            Some((woken_at, Some(waker))) if is_reading && self.is_message(waker) => {
                After::Read { woken_at, by: waker.0 }
            }
            _ => After::Sleep,
        }
    }

    /// Whether a task woke another one by a message; the place is that among its deeds.
    fn is_message(&self, (waker, place): (TaskId, usize)) -> bool {
        let (Step::Is(deed) | Step::MayBe(deed)) = self.tasks[waker as usize].deeds[place];
        matches!(deed, Deed::Messaged(_))
    }

    /// The wake-up ended a sleep.
    fn confirm(&mut self, waker: Option<(TaskId, usize)>) {
        let Some((waker, place)) = waker else { return };
        let step = &mut self.tasks[waker as usize].deeds[place];
        if let Step::MayBe(deed) = *step {
            *step = Step::Is(deed);
        }
    }
}

impl State {
    fn new(is_replayed: bool) -> Self {
        Self {
            is_replayed,
            begin: None,
            place: Where::Unknown,
            deeds: Vec::new(),
            wake: None,
            early: None,
            unexplained: None,
            runs: Vec::new(),
            run: Run::default(),
            ran: 0,
            woken_at: None,
        }
    }

    fn finish(self) -> Option<Life> {
        let begin = self.begin.filter(|_| self.is_replayed)?;
        let mut deeds: Vec<Deed> = Vec::with_capacity(self.deeds.len());
        for step in self.deeds {
            if let Step::Is(deed) = step {
                push(&mut deeds, deed);
            }
        }
        let deeds = join_vforks(&deeds);
        Some(Life { begin, deeds, has_exited: self.place == Where::Gone })
    }
}

/// Adds a deed; two runs in a row become one.
pub(crate) fn push(deeds: &mut Vec<Deed>, deed: Deed) {
    match (deed, deeds.last_mut()) {
        (Deed::Ran(ns), Some(Deed::Ran(sum))) => *sum += ns,
        _ => deeds.push(deed),
    }
}

/// Puts each `vfork` together with the sleep that follows it, which is a part of the same call. A `vfork` that no sleep
/// follows becomes an ordinary fork.
fn join_vforks(deeds: &[Deed]) -> Vec<Deed> {
    let mut joined = Vec::with_capacity(deeds.len());
    let mut left = deeds;
    while let [deed, rest @ ..] = left {
        left = rest;
        match (*deed, rest) {
            (Deed::Vforked(_), [Deed::Waited, rest @ ..]) => {
                joined.push(*deed);
                left = rest;
            }
            (Deed::Vforked(_), [ran @ Deed::Ran(_), Deed::Waited, rest @ ..]) => {
                push(&mut joined, *ran);
                joined.push(*deed);
                left = rest;
            }
            (Deed::Vforked(child), _) => joined.push(Deed::Forked(child)),
            _ => joined.push(*deed),
        }
    }
    joined
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Deed::{Ran, Slept, Waited, Woke};
    use super::*;
    use crate::{Cpu, Header, Role, Task};

    pub(crate) fn task(name: &str) -> Task {
        Task::new(name, 4242)
    }

    pub(crate) fn recording(tasks: Vec<Task>, events: Vec<Event>) -> Recording {
        let header = Header {
            flsched: "0.1.0".into(),
            kernel: "6.18.0".into(),
            cpus: (0..2).map(|id| Cpu { id, core: id, cache: 0, node: 0 }).collect(),
            cpu_model: None,
            governor: None,
            clock: None,
            schedulers: ["default".into(), "default".into()],
            command: None,
            command_task: None,
            is_anonymous: false,
            length: 1_000_000,
            migrations: 0,
            lost: 0,
            overhead: 0,
            counters: Vec::new(),
        };
        Recording { header, tasks, events }
    }

    const A: Option<TaskId> = Some(0);
    const B: Option<TaskId> = Some(1);

    fn switch(at: Ns, cpu: u32, prev: Option<TaskId>, left: Left, next: Option<TaskId>) -> Event {
        Event { at, cpu, what: What::Switch { prev, left, next, calls: Calls::default() } }
    }

    fn wake(at: Ns, cpu: u32, woken: TaskId) -> Event {
        Event { at, cpu, what: What::Wake { woken, by: By::Task } }
    }

    fn interrupt(at: Ns, cpu: u32, woken: TaskId) -> Event {
        Event { at, cpu, what: What::Wake { woken, by: By::Interrupt } }
    }

    /// Of two tasks, on two CPUs.
    fn lives(events: &[Event]) -> (Life, Life) {
        let lives = recording(vec![task("a"), task("b")], events.to_vec()).lives();
        let mut lives = lives.into_iter().map(|life| life.expect("it was seen"));
        (lives.next().unwrap(), lives.next().unwrap())
    }

    use Left::{Blocked, Exited, Preempted, Yielded};

    #[test]
    fn sleeps_have_their_wakers() {
        let (a, b) = lives(&[
            switch(0, 0, None, Preempted, A),
            switch(1_000, 0, A, Preempted, None),
            switch(2_000, 0, None, Preempted, A),
            wake(2_500, 0, 1),
            switch(3_000, 1, None, Preempted, B),
            switch(3_500, 0, A, Blocked, None),
            switch(4_000, 1, B, Blocked, None),
            interrupt(53_500, 1, 0),
            switch(54_000, 0, None, Preempted, A),
            switch(55_000, 0, A, Exited, None),
        ]);
        let first = [Ran(1_000), Deed::Preempted, Ran(500), Woke(1), Ran(1_000)];
        assert_eq!(a.deeds, [&first[..], &[Slept(50_000), Ran(1_000)]].concat());
        assert_eq!((a.begin, a.has_exited), (Begin::Ready, true));
        assert_eq!(b.deeds, [Waited, Ran(1_000)]);
        assert_eq!((b.begin, b.has_exited), (Begin::Asleep, false));
    }

    #[test]
    fn a_wake_up_that_finds_its_task_awake_ends_no_sleep() {
        let (a, b) = lives(&[
            switch(0, 0, None, Preempted, A),
            switch(0, 1, None, Preempted, B),
            wake(1_000, 0, 1),
            switch(90_000, 1, B, Blocked, None),
            interrupt(95_000, 1, 1),
            switch(96_000, 1, None, Preempted, B),
            switch(97_000, 1, B, Blocked, None),
            switch(98_000, 0, A, Blocked, None),
        ]);
        assert_eq!(a.deeds, [Ran(98_000)]);
        assert_eq!(b.deeds, [Ran(90_000), Slept(5_000), Ran(1_000)]);
    }

    #[test]
    fn a_waker_may_be_faster_than_the_sleeper() {
        // It is woken before it has left its CPU, but goes to sleep all the same.
        let (a, b) = lives(&[
            switch(0, 0, None, Preempted, A),
            switch(0, 1, None, Preempted, B),
            wake(1_000, 0, 1),
            switch(1_200, 1, B, Blocked, None),
            switch(3_000, 1, None, Preempted, B),
            switch(4_000, 1, B, Blocked, None),
            switch(5_000, 0, A, Blocked, None),
        ]);
        assert_eq!(a.deeds, [Ran(1_000), Woke(1), Ran(4_000)]);
        assert_eq!(b.deeds, [Ran(1_200), Waited, Ran(1_000)]);
    }

    #[test]
    fn clocks_may_differ() {
        // By the clock of its CPU the task runs before it is woken.
        let (a, b) = lives(&[
            switch(0, 0, None, Preempted, A),
            switch(0, 1, None, Preempted, B),
            switch(1_000, 1, B, Blocked, None),
            switch(3_000, 1, None, Preempted, B),
            wake(4_000, 0, 1),
            switch(5_000, 1, B, Blocked, None),
            switch(6_000, 0, A, Blocked, None),
        ]);
        assert_eq!(a.deeds, [Ran(4_000), Woke(1), Ran(2_000)]);
        assert_eq!(b.deeds, [Ran(1_000), Waited, Ran(2_000)]);
    }

    #[test]
    fn children_begin_with_their_parents_or_from_outside() {
        let fork = |at, child| Event { at, cpu: 0, what: What::Fork { child, waits: false } };
        let (a, b) = lives(&[
            fork(10_000, 0),
            switch(11_000, 0, None, Preempted, A),
            fork(12_000, 1),
            switch(13_000, 1, None, Preempted, B),
            switch(14_000, 1, B, Yielded, None),
            switch(15_000, 0, A, Blocked, None),
        ]);
        assert_eq!((a.begin, b.begin), (Begin::At(10_000), Begin::Forked));
        assert_eq!(a.deeds, [Ran(1_000), Deed::Forked(1), Ran(3_000)]);
        assert_eq!(b.deeds, [Ran(1_000), Deed::Yielded]);
    }

    #[test]
    fn a_vfork_sleeps_in_the_call() {
        let vfork = |at, child| Event { at, cpu: 0, what: What::Fork { child, waits: true } };
        let end = |at, woken| Event { at, cpu: 1, what: What::Wake { woken, by: By::End } };
        let (a, b) = lives(&[
            switch(10_000, 0, None, Preempted, A),
            vfork(12_000, 1),
            switch(12_500, 0, A, Blocked, None),
            switch(13_000, 1, None, Preempted, B),
            wake(14_000, 1, 0),
            switch(15_000, 0, None, Preempted, A),
            switch(16_000, 0, A, Blocked, None),
            end(17_000, 0),
            switch(17_500, 1, B, Exited, None),
            switch(18_000, 0, None, Preempted, A),
            switch(19_000, 0, A, Exited, None),
        ]);
        assert_eq!(a.deeds, [Ran(2_500), Deed::Vforked(1), Ran(1_000), Waited, Ran(1_000)]);
        assert_eq!(b.deeds, [Ran(1_000), Woke(0), Ran(3_000), Deed::Ended(0), Ran(500)]);
        // It did not sleep.
        let (a, _) = lives(&[
            switch(10_000, 0, None, Preempted, A),
            vfork(12_000, 1),
            switch(13_000, 1, None, Preempted, B),
            switch(14_000, 1, B, Exited, None),
            switch(16_000, 0, A, Blocked, None),
        ]);
        assert_eq!(a.deeds, [Ran(2_000), Deed::Forked(1), Ran(4_000)]);
    }

    #[test]
    fn what_is_not_part_of_the_load_counts_as_outside() {
        let events = [
            switch(0, 0, None, Preempted, A),
            wake(1_000, 0, 1),
            switch(1_500, 1, None, Preempted, B),
            switch(2_000, 1, B, Blocked, None),
            switch(2_000, 0, A, Blocked, None),
        ];
        let mut recording = recording(vec![task("recorder"), task("b")], events.to_vec());
        recording.tasks[0].role = Role::Recorder;
        let lives = recording.lives();
        assert_eq!(lives[0], None);
        assert_eq!(lives[1].as_ref().unwrap().deeds, [Slept(1_000), Ran(500)]);
    }

    #[test]
    fn a_task_that_runs_all_the_time_is_seen_by_what_it_does() {
        let (a, b) =
            lives(&[wake(1_000, 0, 1), switch(2_000, 0, A, Preempted, B), switch(3_000, 0, B, Blocked, A)]);
        assert_eq!(a.deeds, [Ran(1_000), Woke(1), Ran(1_000), Deed::Preempted, Ran(997_000)]);
        assert_eq!(b.deeds, [Waited, Ran(1_000)]);
    }
}
