//! `trace:FILE` of a file that `flsched record` has written: the load is done again, under another scheduler.
//!
//! Each task does its deeds in its own order. It computes for as long as it did; it sleeps until a task wakes it that did
//! so or sent it a message, or, where an interrupt or something unknown woke it, for as long as it slept. How long it waits for a CPU is left to the
//! scheduler under test. A wake-up that comes before its sleep is not lost: it ends that sleep at once.
//!
//! What a task needed for switches, wake-ups and calls is in its recorded time, and the simulator adds its own prices for
//! them. So these prices, under the recorded scheduler, are taken off first.
use super::{Child, Mark, Program, SemaphoreId, Step, View, Workload, World};
use crate::Error;
use crate::core::{CpuMask, Scheduling};
use crate::engine::Ns;
use flsched_machine::{CallbackCosts, Machine};
use flsched_recording::{Begin, Deed, Figures, Life, Recording, Task, TaskId};
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// All tasks are created before the recorded time begins: so much earlier for each.
const CREATION_NS: Ns = 1_000_000;

/// What a task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Run(Ns),
    Sleep(Ns),
    Yield,
    /// Waits to be woken.
    Down,
    /// Wakes that task, now or when it next sleeps; as a futex does, and as a message does.
    Up(TaskId),
    Send(TaskId),
    /// By the same call as the message before.
    SendToo(TaskId),
    Fork(TaskId),
    /// By a call that also waits to be woken, which is the next act.
    Vfork(TaskId),
}

/// A recording, ready to be done again.
#[derive(Debug, Clone)]
pub struct Recorded {
    path: String,
    tasks: Arc<Vec<Task>>,
    lives: Arc<Vec<Option<Life>>>,
    command: Option<TaskId>,
    /// In force when it was recorded.
    scheduler: String,
    figures: Figures,
    /// By task.
    acts: Arc<Vec<Vec<Act>>>,
}

/// Reads and checks the file.
pub(super) fn load(path: &str) -> Result<Recorded, Error> {
    let recording = Recording::read(path).map_err(|error| match error {
        flsched_recording::Error::File { path, cause } => Error::File { path, cause },
        error => Error::Usage(error.to_string()),
    })?;
    let recorded = Recorded::of(&recording, path);
    match recorded.who_waits_for_ever() {
        None => Ok(recorded),
        Some(task) => Err(Error::Usage(format!(
            "{path}: a replay would stand still: {} waits for a wake-up that never comes; record again",
            recorded.name(task)
        ))),
    }
}

impl Recorded {
    fn of(recording: &Recording, path: &str) -> Self {
        let lives = recording.lives();
        let acts = lives.iter().flatten().map(|_| Vec::new()).collect();
        let recorded = Self {
            path: path.to_owned(),
            tasks: Arc::new(recording.tasks.clone()),
            command: recording.header.command_task,
            scheduler: recording.header.schedulers[0].clone(),
            figures: recording.figures(),
            acts: Arc::new(acts),
            lives: Arc::new(lives),
        };
        recorded.with(&Prices::NONE)
    }

    /// The same with these prices taken off what tasks computed.
    fn with(&self, prices: &Prices) -> Self {
        let acts = |(life, task): (&Option<Life>, &Task)| match life {
            Some(life) => acts(life, prices, |child: TaskId| {
                task.process.is_some() && self.tasks[child as usize].process == task.process
            }),
            None => Vec::new(),
        };
        Self { acts: Arc::new(self.lives.iter().zip(&*self.tasks).map(acts).collect()), ..self.clone() }
    }

    /// `NAME:PID`, as in other traces.
    fn name(&self, task: TaskId) -> String {
        let Task { name, pid, .. } = &self.tasks[task as usize];
        pid.map_or_else(|| name.clone(), |pid| format!("{name}:{pid}"))
    }

    /// Goes through all acts without time: a task that cannot do all of its own.
    fn who_waits_for_ever(&self) -> Option<TaskId> {
        let count = self.tasks.len();
        let (mut at, mut woken) = (vec![0; count], vec![0u64; count]);
        let exists =
            |task: TaskId| self.lives[task as usize].as_ref().is_some_and(|life| life.begin != Begin::Forked);
        let mut able: Vec<TaskId> = (0..count as TaskId).filter(|&task| exists(task)).collect();
        let mut is_waiting = vec![false; count];
        while let Some(task) = able.pop() {
            let number = task as usize;
            while let Some(act) = self.acts[number].get(at[number]) {
                match act {
                    Act::Down if woken[number] == 0 => {
                        is_waiting[number] = true;
                        break;
                    }
                    Act::Down => woken[number] -= 1,
                    Act::Up(other) | Act::Send(other) | Act::SendToo(other) => {
                        woken[*other as usize] += 1;
                        if std::mem::take(&mut is_waiting[*other as usize]) {
                            able.push(*other);
                        }
                    }
                    Act::Fork(child) | Act::Vfork(child) => able.push(*child),
                    Act::Run(_) | Act::Sleep(_) | Act::Yield => {}
                }
                at[number] += 1;
            }
        }
        (0..count).find(|&task| at[task] < self.acts[task].len()).map(|task| task as TaskId)
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "trace:{}", self.path)
    }
}

impl Workload for Recorded {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let semaphores: Vec<SemaphoreId> = self.tasks.iter().map(|_| world.add_semaphore(0)).collect();
        let tasks: Vec<TaskId> =
            (0..self.tasks.len() as TaskId).filter(|&task| self.lives[task as usize].is_some()).collect();
        let shared = Rc::new(Shared {
            end: world.add_semaphore(0),
            left: Cell::new(tasks.len()),
            start: CREATION_NS * (tasks.len() as Ns + 1),
            command_since: Cell::new(0),
            semaphores,
            recorded: self.clone(),
        });
        let first = tasks.into_iter().filter(|&task| shared.life(task).begin != Begin::Forked).collect();
        Box::new(Main { shared, first, at: 0 })
    }

    fn fitted(&self, machine: &Machine) -> Option<Arc<dyn Workload>> {
        Some(Arc::new(self.with(&Prices::of(machine, &self.scheduler))))
    }

    fn recorded(&self) -> Option<(&str, &Figures)> {
        Some((&self.scheduler, &self.figures))
    }
}

/// What the simulator charges a task for, in ns of its CPU's time.
#[derive(Debug, Clone, Copy)]
struct Prices {
    /// It gets a CPU.
    come: Ns,
    /// It leaves its CPU, and can go on; or it sleeps.
    leave: [Ns; 2],
    call: Ns,
    /// A wake-up, without the call.
    wake: Ns,
    r#yield: Ns,
    /// A process; a thread.
    fork: [Ns; 2],
    exit: Ns,
    /// In each `tick_every` of its time.
    tick: Ns,
    tick_every: Ns,
}

impl Prices {
    const NONE: Self = Self {
        come: 0,
        leave: [0; 2],
        call: 0,
        wake: 0,
        r#yield: 0,
        fork: [0; 2],
        exit: 0,
        tick: 0,
        tick_every: 1,
    };

    fn of(machine: &Machine, scheduler: &str) -> Self {
        use flsched_machine::Callback::*;
        let (costs, callbacks) = (&machine.costs, machine.callbacks(scheduler));
        let of = |all: &[flsched_machine::Callback]| all.iter().map(|it| price(&callbacks, *it)).sum::<Ns>();
        let leave = of(&[Balance, Pick, PutPrev]);
        let call = *costs.syscall_ns;
        let wake = *costs.wakeup_ns + of(&[SelectCpu, Enqueue, WakeupPreempt]);
        let created = of(&[flsched_machine::Callback::Fork, SelectCpu, Enqueue, WakeupPreempt]);
        Self {
            come: *costs.switch_ns + of(&[SetNext]),
            leave: [leave, leave + of(&[Dequeue])],
            call,
            wake,
            r#yield: call + of(&[Yield]),
            fork: [false, true].map(|is_thread| costs.fork_ns.of(is_thread) + created),
            exit: costs.exit_ns.of(false) + of(&[Exit]),
            tick: *costs.tick_ns + of(&[Tick]),
            tick_every: machine.tick_ns,
        }
    }
}

fn price(callbacks: &CallbackCosts, callback: flsched_machine::Callback) -> Ns {
    callbacks.of(callback)
}

/// The task's deeds as acts; `is_thread`: whether it creates that task as a thread of its own process.
fn acts(life: &Life, prices: &Prices, is_thread: impl Fn(TaskId) -> bool) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::with_capacity(life.deeds.len());
    // What the simulator charges and the task has not yet computed less for.
    let mut owed = prices.come;
    let turn = |leave: Ns| leave + prices.come;
    for deed in &life.deeds {
        let act = match *deed {
            Deed::Ran(ns) => {
                owed += ns / prices.tick_every * prices.tick
                    + ns % prices.tick_every * prices.tick / prices.tick_every;
                let run = ns.saturating_sub(owed);
                owed -= ns - run;
                match acts.last_mut() {
                    _ if run == 0 => continue,
                    Some(Act::Run(before)) => {
                        *before += run;
                        continue;
                    }
                    _ => Act::Run(run),
                }
            }
            Deed::Preempted => {
                owed += turn(prices.leave[0]);
                continue;
            }
            Deed::Interrupted => {
                owed += prices.wake;
                continue;
            }
            Deed::Yielded => {
                owed += prices.r#yield + turn(prices.leave[0]);
                Act::Yield
            }
            Deed::Woke(task) => {
                owed += prices.call + prices.wake;
                Act::Up(task)
            }
            Deed::Messaged(task) | Deed::Ended(task) => {
                owed += prices.call + prices.wake;
                Act::Send(task)
            }
            Deed::MessagedToo(task) => {
                owed += prices.wake;
                Act::SendToo(task)
            }
            // The call is in the recorded time, and costs nothing here as long as no task sleeps.
            Deed::Sent(task) => Act::Send(task),
            Deed::Took => Act::Down,
            Deed::Forked(task) => {
                owed += prices.fork[usize::from(is_thread(task))];
                Act::Fork(task)
            }
            Deed::Vforked(task) => {
                owed += prices.fork[usize::from(is_thread(task))] + turn(prices.leave[1]);
                acts.push(Act::Vfork(task));
                Act::Down
            }
            Deed::Slept(ns) => {
                owed += prices.call + turn(prices.leave[1]);
                Act::Sleep(ns)
            }
            Deed::Waited => {
                owed += prices.call + turn(prices.leave[1]);
                Act::Down
            }
        };
        acts.push(act);
    }
    if life.has_exited {
        forget(&mut acts, owed + prices.exit);
    }
    acts
}

/// Takes what is owed at the end off the last computing.
fn forget(acts: &mut [Act], mut owed: Ns) {
    for act in acts.iter_mut().rev() {
        if let Act::Run(ns) = act {
            let less = owed.min(*ns);
            *ns -= less;
            owed -= less;
        }
        if owed == 0 {
            return;
        }
    }
}

/// Of all tasks of a replay.
struct Shared {
    recorded: Recorded,
    /// By task.
    semaphores: Vec<SemaphoreId>,
    /// Never released: on which tasks wait that are done but have not ended.
    end: SemaphoreId,
    /// Tasks that are not done.
    left: Cell<usize>,
    /// When the recorded time begins.
    start: Ns,
    command_since: Cell<Ns>,
}

impl Shared {
    fn life(&self, task: TaskId) -> &Life {
        self.recorded.lives[task as usize].as_ref().expect("only such tasks are created")
    }
}

fn child(shared: &Rc<Shared>, task: TaskId, parent: Option<TaskId>) -> Child {
    let Task { nice, real_time, is_batch, process, .. } = &shared.recorded.tasks[task as usize];
    let is_thread = parent.is_some_and(|parent| {
        process.is_some() && shared.recorded.tasks[parent as usize].process == *process
    });
    let scheduling = match real_time {
        Some(it) if it.is_round_robin => Some(Scheduling::RoundRobin(it.priority)),
        Some(it) => Some(Scheduling::Fifo(it.priority)),
        None if *is_batch => Some(Scheduling::Batch),
        None => None,
    };
    let actor = Actor { shared: Rc::clone(shared), task, at: 0, begun: 0, ended: 0 };
    Child { nice: *nice, is_thread, scheduling, ..Child::process(shared.recorded.name(task), actor) }
}

/// Creates the tasks that nobody in the recording creates, and begins the recorded time.
struct Main {
    shared: Rc<Shared>,
    first: std::collections::VecDeque<TaskId>,
    at: u8,
}

impl Program for Main {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if let Some(task) = self.first.pop_front() {
            return Step::fork(child(&self.shared, task, None));
        }
        self.at += 1;
        match self.at {
            1 => Step::SleepUntil(self.shared.start),
            2 => Step::Mark(Mark::Start),
            _ if self.shared.left.get() == 0 => Step::Mark(Mark::EndRun),
            _ => Step::Down(self.shared.end),
        }
    }
}

/// A task of the recording.
struct Actor {
    shared: Rc<Shared>,
    task: TaskId,
    at: usize,
    /// How far it is with what comes before its acts, and after.
    begun: u8,
    ended: u8,
}

impl Actor {
    /// What comes before its acts: its affinity, and the time when it comes.
    fn begin(&mut self, view: &View<'_>) -> Option<Step> {
        let shared = &*self.shared;
        while self.begun < 2 {
            self.begun += 1;
            match (self.begun, shared.life(self.task).begin) {
                (1, _) => {
                    if let Some(cpus) = &shared.recorded.tasks[self.task as usize].cpus {
                        let mut mask = CpuMask::empty();
                        cpus.iter().for_each(|&cpu| mask.set(cpu as usize, true));
                        return Some(Step::SetAffinity(Box::new(mask)));
                    }
                }
                (_, Begin::Ready) => return Some(Step::SleepUntil(shared.start)),
                (_, Begin::At(at)) => return Some(Step::SleepUntil(shared.start + at)),
                (_, Begin::Asleep) => {
                    // Its sleep began with the recording.
                    if let Some(&Act::Sleep(ns)) = shared.recorded.acts[self.task as usize].first() {
                        self.at = 1;
                        return Some(Step::SleepUntil(shared.start + ns));
                    }
                }
                (_, Begin::Forked) => {}
            }
        }
        if self.begun == 2 {
            self.begun = 3;
            if shared.recorded.command == Some(self.task) {
                shared.command_since.set(view.now);
            }
        }
        None
    }

    /// What comes after them. The run ends, as the recording did, with the command; without one, when all tasks are done.
    fn end(&mut self, view: &View<'_>) -> Step {
        let shared = &*self.shared;
        self.ended += 1;
        if self.ended == 1 {
            shared.left.set(shared.left.get() - 1);
            if shared.recorded.command == Some(self.task) {
                return Step::Mark(Mark::Time((view.now - shared.command_since.get()) as f64 / 1e9));
            }
        }
        if shared.left.get() == 0 || shared.recorded.command == Some(self.task) {
            return Step::Mark(Mark::EndRun);
        }
        if shared.life(self.task).has_exited { Step::Exit } else { Step::Down(shared.end) }
    }
}

impl Program for Actor {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if let Some(step) = self.begin(view) {
            return step;
        }
        let shared = &*self.shared;
        let acts = &shared.recorded.acts[self.task as usize];
        let Some(&act) = acts.get(self.at) else {
            return self.end(view);
        };
        self.at += 1;
        match act {
            Act::Run(ns) => Step::Run(ns),
            Act::Sleep(ns) => Step::Sleep(ns),
            Act::Yield => Step::Yield,
            Act::Down => Step::Down(self.shared.semaphores[self.task as usize]),
            Act::Up(task) => Step::Up(self.shared.semaphores[task as usize]),
            Act::Send(task) | Act::SendToo(task) => {
                let mut readers = vec![shared.semaphores[task as usize]];
                while let Some(&Act::SendToo(task)) = acts.get(self.at) {
                    readers.push(shared.semaphores[task as usize]);
                    self.at += 1;
                }
                Step::Send(readers)
            }
            Act::Fork(task) => Step::fork(child(&self.shared, task, Some(self.task))),
            Act::Vfork(task) => {
                self.at += 1;
                let vfork = Some(shared.semaphores[self.task as usize]);
                Step::fork(Child { vfork, ..child(&self.shared, task, Some(self.task)) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, Simulation};
    use flsched_recording::{By, Calls, Cpu, Event, Header, Left, What};
    use flsched_spec::{Scheduler, Target};

    const MS: Ns = 1_000_000;

    fn task(name: &str) -> Task {
        Task::new(name, 7)
    }

    fn recording(names: &[&str], events: Vec<Event>, length: Ns) -> Recording {
        let header = Header {
            flsched: "0.1.0".into(),
            kernel: "6.18.0".into(),
            cpus: (0..2).map(|id| Cpu { id, core: id, cache: 0, node: 0 }).collect(),
            cpu_model: None,
            governor: None,
            clock: Some("parallel".into()),
            schedulers: ["eevdf".into(), "eevdf".into()],
            command: None,
            command_task: None,
            is_anonymous: false,
            length,
            migrations: 0,
            lost: 0,
            overhead: 0,
            counters: Vec::new(),
        };
        Recording { header, tasks: names.iter().map(|name| task(name)).collect(), events }
    }

    fn switch(at: Ns, cpu: u32, prev: Option<TaskId>, left: Left, next: Option<TaskId>) -> Event {
        Event { at, cpu, what: What::Switch { prev, left, next, calls: Calls::default() } }
    }

    fn wake(at: Ns, cpu: u32, woken: TaskId, by_interrupt: bool) -> Event {
        let by = if by_interrupt { By::Interrupt } else { By::Task };
        Event { at, cpu, what: What::Wake { woken, by } }
    }

    const A: Option<TaskId> = Some(0);
    const B: Option<TaskId> = Some(1);

    /// Two tasks that wake each other ten times, and compute a millisecond each time.
    fn ping_pong() -> Recording {
        let mut events =
            vec![switch(0, 1, None, Left::Preempted, None), switch(0, 0, None, Left::Preempted, A)];
        for round in 0..10 {
            let at = round * 2 * MS;
            events.extend([
                wake(at + MS, 0, 1, false),
                switch(at + MS + 5_000, 0, A, Left::Blocked, B),
                wake(at + 2 * MS, 0, 0, false),
                switch(at + 2 * MS + 5_000, 0, B, Left::Blocked, A),
            ]);
        }
        events.push(switch(21 * MS, 0, A, Left::Exited, None));
        recording(&["a", "b"], events, 21 * MS)
    }

    fn replayed(recording: &Recording) -> crate::output::Outcome {
        let file = tempfile::NamedTempFile::new().unwrap();
        recording.write_to(&mut file.as_file()).unwrap();
        let path = file.path().to_str().unwrap();
        let setup = Setup {
            machine: Arc::new(Machine::of_recording(path, &[]).unwrap()),
            scheduler: Scheduler::read("eevdf", Target::Sim).unwrap(),
            workload: Arc::new(load(path).unwrap()),
            seed: 1,
            limit: 10_000 * MS,
        };
        Simulation::new(setup).unwrap().run().unwrap()
    }

    #[test]
    fn a_replay_takes_as_long_as_the_recording() {
        let outcome = replayed(&ping_pong());
        let replay = outcome.replayed.unwrap();
        let (recorded, simulated) = (&replay.recorded, &replay.simulated);
        assert_eq!((recorded.elapsed_s, recorded.switches), (0.021, 22));
        assert!((simulated.elapsed_s / recorded.elapsed_s - 1.0).abs() < 0.05, "{replay:?}");
        assert!((simulated.utilisation / recorded.utilisation - 1.0).abs() < 0.05, "{replay:?}");
    }

    #[test]
    fn prices_are_taken_off_and_what_a_short_run_owes_is_taken_off_the_next() {
        let prices = Prices { come: 30, leave: [10, 20], call: 5, wake: 40, ..Prices::NONE };
        let life = |deeds: &[Deed]| Life { begin: Begin::Ready, deeds: deeds.to_vec(), has_exited: false };
        let deeds =
            [Deed::Ran(100), Deed::Woke(1), Deed::Ran(20), Deed::Preempted, Deed::Ran(300), Deed::Waited];
        let acts = acts(&life(&deeds), &prices, |_| false);
        // 100 less the 30 for its first switch; the wake-up's 45 and the preemption's 40 are 85, less 20, of 300.
        assert_eq!(acts, [Act::Run(70), Act::Up(1), Act::Run(235), Act::Down]);
    }

    /// A parent and its children, on one CPU. It has run for so long that each child preempts it as soon as it can.
    fn forks(waits: bool) -> Recording {
        let mut events = vec![switch(0, 0, None, Left::Preempted, A)];
        for child in 1..=10 {
            let at = Ns::from(child) * 5 * MS;
            events.extend([
                Event { at: at - MS, cpu: 0, what: What::Fork { child, waits } },
                switch(at - MS + 5_000, 0, A, Left::Blocked, Some(child)),
                wake(at, 0, 0, false),
                switch(at + 5_000, 0, Some(child), Left::Exited, A),
            ]);
        }
        events.push(switch(51 * MS, 0, A, Left::Exited, None));
        let mut recording = recording(&["task"; 11], events, 51 * MS);
        recording.tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
        recording
    }

    #[test]
    fn a_parent_sleeps_in_its_vfork_before_the_child_runs() {
        // Else the child preempts the parent at the end of the call, and wakes it before it sleeps.
        let [sleeps, others] = [true, false].map(|waits| replayed(&forks(waits)).wakeups);
        assert!(sleeps >= 10 && others < 10, "{sleeps}, {others}");
    }

    #[test]
    fn a_task_that_waits_for_ever_is_named() {
        let mut recorded = Recorded::of(&ping_pong(), "x.trace");
        assert_eq!(recorded.who_waits_for_ever(), None);
        let mut acts = (*recorded.acts).clone();
        acts[0].retain(|act| *act != Act::Up(1));
        recorded.acts = Arc::new(acts);
        assert!(recorded.who_waits_for_ever().is_some());
    }

    #[test]
    fn sleeps_that_interrupts_end_take_their_time() {
        let events = vec![
            switch(0, 0, None, Left::Preempted, A),
            switch(MS, 0, A, Left::Blocked, None),
            wake(51 * MS, 0, 0, true),
            switch(51 * MS, 0, None, Left::Preempted, A),
            switch(52 * MS, 0, A, Left::Exited, None),
        ];
        let outcome = replayed(&recording(&["a"], events, 52 * MS));
        let elapsed = outcome.replayed.unwrap().simulated.elapsed_s;
        assert!((0.0515..0.0525).contains(&elapsed), "{elapsed}");
    }
}
