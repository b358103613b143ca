//! One run: its input is a machine, a scheduler, a workload and a seed, its output a result.
mod affinity;
mod attach;
mod budget;
mod change;
mod check;
mod hotplug;
mod locks;
mod messages;
mod rest;
mod schedule;
mod steps;
mod waiting;

use crate::classes::Class;
use crate::core::{Core, Cpu, CpuId, Footprint, State, Task, TaskId, TaskSpec};
use crate::engine::{Event, Ns};
use crate::output::Outcome;
use crate::rules::{Scores, Watch};
use crate::schedulers::{scheduling, set_up};
use crate::workload::{Circumstances, Disturbance, Program, World};
use crate::{Error, Setup, Violation};
use flsched_machine::{CallbackCosts, Machine, Price};
use flsched_recording::timeline::Timeline;
use flsched_spec::{Scheduler, Target};
use std::any::Any;
use std::sync::Arc;

/// A task with a lower `prio` is a real-time one.
const MAX_RT_PRIO: i32 = 100;

/// Time between two checks of the watchdog.
const WATCH_EVERY: Ns = 1_000_000_000;
/// More checks than any watchdog needs.
const WATCHES: u32 = 60;
/// Events between two checks whether to stop.
const STOP_EVERY: u64 = 65_536;

/// What a task did from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCounts {
    /// How often it left a CPU.
    pub switches: u64,
    /// How often it did so before its program was done.
    pub switches_of_program: u64,
    /// When its program was done; `None`: it was not.
    pub program_ended_at: Option<Ns>,
    /// How often it went to another CPU.
    pub migrations: u64,
}

pub struct Simulation {
    setup: Setup,
    core: Core,
    /// Highest first: the real-time class, and one for all other tasks.
    classes: Vec<Box<dyn Class>>,
    costs: Vec<CallbackCosts>,
    /// How many tasks of each class exist.
    alive: Vec<usize>,
    world: World,
    /// Time between two checks of the whole state.
    check_every: Ns,
    /// Whether it is an error that a CPU idles for long while a task that may run there waits.
    keeps_cpus_busy: bool,
    /// When a CPU last went on- or offline, or an affinity last changed.
    changed_at: Ns,
    /// After more events than this the run counts as an endless loop.
    most_events: u64,
    /// Changes of tasks from outside, by number.
    changes: Vec<Disturbance>,
    /// When the run ends, even if tasks are not done.
    end: Ns,
    /// After more events than this it ends, too.
    end_after: u64,
    /// Whether it is an error that a rule is broken.
    must_keep_rules: bool,
    /// When all tasks are next checked, if rules are judged.
    full_check_at: Ns,
    stop: Option<Box<dyn Fn() -> bool>>,
}

impl Simulation {
    /// Prepares a run; nothing has happened yet.
    pub fn new(mut setup: Setup) -> Result<Self, Error> {
        if let Some(fitted) = setup.workload.fitted(&setup.machine) {
            setup.workload = fitted;
        }
        setup.workload.check(setup.machine.nr_cpus())?;
        let Circumstances { begin, limit, end, attach, disturbances } = setup.workload.circumstances();
        setup.limit = limit.map_or(setup.limit, |limit| limit.min(setup.limit));
        let mut core = Core::new(Arc::clone(&setup.machine), setup.seed);
        // The policy is loaded when it is attached.
        let attach = attach.filter(|_| matches!(setup.scheduler, Scheduler::Policy(_)));
        let mut classes = match attach {
            Some(_) => set_up(&Scheduler::read("eevdf", Target::Sim)?, &mut core)?,
            None => set_up(&setup.scheduler, &mut core)?,
        };
        for class in &mut classes {
            class.start(&mut core)?;
        }
        let costs = classes.iter().map(|class| setup.machine.callbacks(class.name())).collect();
        let world = World::new(setup.seed, &setup.machine);
        let alive = vec![0; classes.len()];
        let mut simulation = Self {
            alive,
            setup,
            core,
            classes,
            costs,
            world,
            check_every: WATCH_EVERY,
            keeps_cpus_busy: false,
            changed_at: 0,
            most_events: u64::MAX,
            changes: Vec::new(),
            end: end.unwrap_or(Ns::MAX),
            end_after: u64::MAX,
            must_keep_rules: false,
            full_check_at: 0,
            stop: None,
        };
        simulation.core.now = begin;
        simulation.start_rcu();
        simulation.plan(disturbances);
        if let Some(at) = attach {
            simulation.core.queue.push(at, Event::Attach);
        }
        Ok(simulation)
    }

    pub fn machine(&self) -> &Machine {
        &self.setup.machine
    }

    /// How often to check the whole state, in addition to the checks at every event; once a second
    /// unless this is called.
    pub fn check_every(&mut self, ns: Ns) {
        self.check_every = ns;
    }

    /// Makes it an error that a CPU idles for more than two ticks while a task that may run there
    /// waits.
    pub fn must_keep_cpus_busy(&mut self) {
        self.keeps_cpus_busy = true;
    }

    /// `stop` is called now and then, and ends the run by returning true.
    pub fn stop_if(mut self, stop: impl Fn() -> bool + 'static) -> Self {
        self.stop = Some(Box::new(stop));
        self
    }

    /// The number of events after which the run counts as an endless loop; no limit unless this is
    /// called.
    pub fn stop_after(&mut self, events: u64) {
        self.most_events = events;
    }

    /// Runs to the end.
    pub fn run(mut self) -> Result<Outcome, Error> {
        self.finish()
    }

    /// Runs to the end, and returns what each task did, by number.
    pub fn run_counted(mut self) -> Result<(Outcome, Vec<TaskCounts>), Error> {
        let outcome = self.finish()?;
        let of = |task: &Task| TaskCounts {
            switches: task.switches(),
            switches_of_program: task.program_end.map_or(task.switches(), |(_, switches)| switches),
            program_ended_at: task.program_end.map(|(at, _)| at),
            migrations: task.migrations,
        };
        Ok((outcome, self.core.workload_tasks().map(of).collect()))
    }

    /// Makes it an error to break a rule.
    pub(crate) fn must_keep_rules(&mut self, watch: Watch) {
        self.check_every(self.core.machine.tick_ns);
        self.core.observer = Some(Box::new(watch));
        self.must_keep_rules = true;
        // It is one of the rules.
        self.keeps_cpus_busy = false;
    }

    /// Runs to the end, or for this number of events, and judges how near it came to breaking the rules; `watch` is made
    /// for it.
    pub(crate) fn run_judged(mut self, watch: Watch, events: u64) -> (Result<Outcome, Error>, Scores) {
        self.check_every(self.core.machine.tick_ns);
        self.end_after = events;
        self.keeps_cpus_busy = false;
        self.core.observer = Some(Box::new(watch));
        let outcome = self.finish();
        (outcome, self.scores())
    }

    /// How near the run came to breaking the rules that were watched.
    fn scores(&mut self) -> Scores {
        let watch = self.core.observer.take().map(|it| it as Box<dyn Any>);
        let watch = watch.and_then(|it| it.downcast::<Watch>().ok());
        watch.map(|it| it.finish(&self.core.tasks, self.core.now)).unwrap_or_default()
    }

    /// Runs to the end, and records which task ran where and when. After a failure it returns the
    /// recording so far.
    pub fn run_recorded(mut self) -> (Result<Outcome, Error>, Timeline) {
        self.core.start_recording();
        let outcome = self.finish();
        let end = self.core.cpus.iter().map(|cpu| cpu.clock).max().unwrap_or(0);
        let mut timeline = self.core.timeline.take().map_or_else(|| Timeline::new(Vec::new()), |it| *it);
        timeline.finish(end, self.core.tasks.iter().map(|task| (task.name(), task.pid)).collect());
        (outcome, timeline)
    }

    fn finish(&mut self) -> Result<Outcome, Error> {
        let main = self.setup.workload.main(&mut self.world);
        self.go_through(main)
    }

    /// Runs this program, and the tasks that it forks, in place of the workload's.
    pub fn run_program(mut self, main: Box<dyn Program>) -> Result<Outcome, Error> {
        self.go_through(main)
    }

    fn go_through(&mut self, main: Box<dyn Program>) -> Result<Outcome, Error> {
        let spec = TaskSpec {
            name: "main".into(),
            parent: None,
            is_thread: false,
            nice: 0,
            scheduling: scheduling(&self.setup.scheduler),
            allowed: None,
            footprint: Footprint::default(),
        };
        self.core.go_to(0);
        let task = self.new_task(&spec, main);
        self.wake_new(task);
        self.settle(0);
        // Not at the same time as the CPUs' ticks, at which tasks take turns.
        let offset = if self.core.observer.is_some() { self.core.machine.tick_ns / 2 } else { 0 };
        self.core.queue.push(self.core.now + self.check_every + offset, Event::Watchdog);
        let mut events = 0u64;
        while self.count_alive() > 0 && !self.world.is_over {
            let Some((at, event)) = self.core.queue.pop() else {
                return Err(self.stuck().into());
            };
            if at > self.end {
                self.core.now = self.end;
                break;
            }
            // Cut short: what has not been simulated is no time that anybody has waited.
            if events >= self.end_after {
                break;
            }
            if at > self.setup.limit {
                return Err(Error::Limit(self.setup.limit));
            }
            events += 1;
            if events.is_multiple_of(STOP_EVERY) && self.stop.as_ref().is_some_and(|stop| stop()) {
                return Err(Error::Stopped);
            }
            self.core.now = at;
            if events >= self.most_events {
                return Err(Violation {
                    what: "makes no progress in an endless loop".into(),
                    callback: "",
                    task: None,
                    at,
                }
                .into());
            }
            self.handle(event);
            if let Some(violation) = self.core.violation.take() {
                return Err(violation.into());
            }
        }
        self.check()?;
        if self.must_keep_rules
            && let Some((rule, score)) = self.scores().iter().find(|(_, score)| score.is_broken())
        {
            return Err(score.violation(*rule).into());
        }
        Ok(Outcome::of(&self.setup, &self.core, &self.classes, &self.world))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Work { cpu } => {
                self.interrupt(cpu);
                self.step(cpu);
                if let Some(task) = self.between_steps(cpu) {
                    self.begin_step(cpu, task);
                }
                self.settle(cpu);
            }
            Event::Tick { cpu } => self.tick(cpu),
            Event::Resched { cpu } => {
                self.interrupt(cpu);
                self.core.cpus[cpu].is_interrupt_sent = false;
                self.exit_idle(cpu);
                self.settle(cpu);
            }
            Event::WakeList { cpu } => {
                self.interrupt(cpu);
                self.exit_idle(cpu);
                self.empty_wake_list(cpu);
                self.settle(cpu);
            }
            Event::WakeUp { task } => {
                let cpu = self.core.online_near(self.core.tasks[task].cpu);
                self.interrupt(cpu);
                self.wake(task, None, false);
                self.settle(cpu);
            }
            Event::Timer { class, cpu, timer, generation } => {
                let cpu = self.core.online_near(cpu);
                self.interrupt(cpu);
                self.classes[class].timer(&mut self.core, cpu, timer, generation);
                self.settle(cpu);
            }
            Event::Frequency { domain } => self.decide_frequency(domain),
            Event::Hotplug { cpu, is_online } => self.hotplug(cpu, is_online),
            Event::Change { number } => self.change(number),
            Event::Attach => self.attach(),
            Event::Watchdog => {
                self.look_around();
                if self.core.queue.next_at().is_some() {
                    self.core.queue.push(self.core.now + self.check_every, Event::Watchdog);
                }
            }
        }
    }

    /// Checks the whole state. If rules are judged this happens at each tick, and what takes long only once a second.
    fn look_around(&mut self) {
        if let Some(observer) = &mut self.core.observer {
            let idle = |cpu: &Cpu| (cpu.curr.is_none() && cpu.is_online).then_some(cpu.idle_since);
            let idle_since: Vec<Option<Ns>> = self.core.cpus.iter().map(idle).collect();
            observer.look(&self.core.tasks, &idle_since, self.core.now);
            if self.core.now < self.full_check_at {
                return;
            }
            self.full_check_at = self.core.now + WATCH_EVERY;
        }
        for class in &mut self.classes {
            class.watchdog(&mut self.core);
        }
        if let Err(violation) = self.check() {
            self.core.violation.get_or_insert(violation);
        }
    }

    /// An interrupt has arrived.
    fn exit_idle(&mut self, cpu: CpuId) {
        if self.core.cpus[cpu].curr.is_none() {
            self.core.spend(Price::IdleExit, *self.core.machine.costs.idle_exit_ns);
        }
    }

    /// With what the classes ask for its CPUs: `sugov_get_util()` of each.
    fn decide_frequency(&mut self, domain: usize) {
        let (core, classes) = (&self.core, &self.classes);
        let of = |&cpu: &CpuId| classes.iter().filter_map(move |class| class.utilisation(core, cpu));
        let asked = core.frequencies.cpus(domain).iter().flat_map(of).max();
        self.core.decide_frequency(domain, asked);
    }

    /// The task of `cpu`, if it continues at once and its last step is done: its next step affects no other task
    /// yet.
    fn between_steps(&self, cpu: CpuId) -> Option<TaskId> {
        let state = &self.core.cpus[cpu];
        let must_schedule = state.need_resched || state.need_resched_lazy;
        let task = state.curr.filter(|_| !must_schedule)?;
        let actor = &self.world.actors[task];
        let is_done =
            self.core.tasks[task].work_left == 0 && actor.pending.is_none() && actor.to_wake.is_empty();
        is_done.then_some(task)
    }

    /// There are tasks but no further events: in the end the class's watchdog reports it, if it has one.
    fn stuck(&mut self) -> Violation {
        for _ in 0..WATCHES {
            self.core.now += WATCH_EVERY;
            self.core.go_to(self.core.here);
            for class in &mut self.classes {
                class.watchdog(&mut self.core);
            }
            if let Some(violation) = self.core.violation.take() {
                return violation;
            }
        }
        let left = self.core.workload_tasks().filter(|task| task.state != State::Dead);
        let runnable = left.clone().find(|task| task.state == State::Runnable);
        let what = match runnable {
            Some(_) => "it is runnable, and no CPU will ever run it",
            None => crate::DEADLOCK,
        };
        let task = runnable.or(left.clone().next()).map(|task| task.label());
        let at = self.core.now - u64::from(WATCHES) * WATCH_EVERY;
        Violation { what: what.into(), callback: "", task, at }
    }

    pub(crate) fn new_task(&mut self, spec: &TaskSpec, program: Box<dyn Program>) -> TaskId {
        let task = self.core.add_task(spec, self.core.here);
        let class = usize::from(self.core.tasks[task].prio >= MAX_RT_PRIO);
        self.core.tasks[task].class = class;
        self.alive[class] += 1;
        self.world.add_actor(program, spec.parent);
        self.core.charge(&self.costs[class], flsched_machine::Callback::Fork);
        for (index, it) in self.classes.iter_mut().enumerate() {
            if index == class {
                it.task_new(&mut self.core, task);
            } else {
                it.task_new_elsewhere(&mut self.core, task);
            }
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Step, View, load};
    use flsched_spec::workload::Model;

    /// A run on this machine, for a program that a test gives it.
    pub(super) fn prepare(machine: Machine, scheduler: &str) -> Simulation {
        Simulation::new(Setup {
            machine: Arc::new(machine),
            scheduler: Scheduler::read(scheduler, Target::Sim).unwrap(),
            workload: load(&Model::read("hogs").unwrap()).unwrap(),
            seed: 1,
            limit: 1_000_000_000,
        })
        .unwrap()
    }

    /// One that does these steps.
    pub(super) fn program(steps: Vec<Step>) -> impl Program {
        struct Steps(std::vec::IntoIter<Step>);

        impl Program for Steps {
            fn next(&mut self, _view: &mut View<'_>) -> Step {
                self.0.next().unwrap_or(Step::Exit)
            }
        }

        Steps(steps.into_iter())
    }
}
