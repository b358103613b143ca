//! Whether what a file says can be: what reads a recording relies on it. An error says what cannot be.
use crate::{Event, Header, Ns, RealTime, Task, TaskId, What};

/// As many as the simulator's machines have.
const MOST_CPUS: usize = 4096;
/// The longest recording: about 11 days. Sums of many times do not overflow.
const MOST_NS: Ns = 1_000_000_000_000_000;
/// By how much the clock of one CPU may go back: the kernel corrects it now and then.
const BACK_NS: Ns = 1_000_000;

impl Header {
    pub(crate) fn check(&self) -> Result<(), String> {
        let (cpus, length) = (self.cpus.len(), self.length);
        if cpus == 0 || cpus > MOST_CPUS {
            return Err(format!("{cpus} CPUs; it can have 1 to {MOST_CPUS}"));
        }
        if length > MOST_NS {
            return Err(format!("a length of {length} ns; {MOST_NS} at most"));
        }
        Ok(())
    }

    /// Takes control characters out of what is shown on terminals.
    pub(crate) fn make_printable(&mut self) {
        let optional = [&mut self.cpu_model, &mut self.governor, &mut self.clock, &mut self.command];
        let counters = self.counters.iter_mut().map(|counter| &mut counter.name);
        let always = [&mut self.flsched, &mut self.kernel].into_iter().chain(&mut self.schedulers);
        optional.into_iter().flatten().chain(counters).chain(always).for_each(make_printable);
    }
}

/// The same for the tasks.
pub(crate) fn make_names_printable(tasks: &mut [Task]) {
    tasks.iter_mut().for_each(|task| make_printable(&mut task.name));
}

fn make_printable(text: &mut String) {
    if text.contains(char::is_control) {
        *text = text.replace(char::is_control, "?");
    }
}

/// Whether the tasks, and the command among them, can be on this machine.
pub(crate) fn tasks(tasks: &[Task], header: &Header) -> Result<(), String> {
    let is_task = |id: TaskId| (id as usize) < tasks.len();
    if let Some(command) = header.command_task.filter(|&command| !is_task(command)) {
        return Err(format!("the command is task {command} of {}", tasks.len()));
    }
    for (number, task) in tasks.iter().enumerate() {
        let wrong = |what: String| Err(format!("task {number}: {what}"));
        if let Some(process) = task.process.filter(|&process| !is_task(process)) {
            return wrong(format!("its process is task {process} of {}", tasks.len()));
        }
        if !(-20..=19).contains(&task.nice) {
            return wrong(format!("nice {}", task.nice));
        }
        if let Some(RealTime { priority, .. }) = task.real_time.filter(|it| !(1..=99).contains(&it.priority))
        {
            return wrong(format!("priority {priority}"));
        }
        let Some(allowed) = &task.cpus else { continue };
        if allowed.is_empty() {
            return wrong("it may run on no CPU".into());
        }
        if let Some(cpu) = allowed.iter().find(|&&cpu| cpu as usize >= header.cpus.len()) {
            return wrong(format!("it may run on CPU {cpu} of {}", header.cpus.len()));
        }
    }
    Ok(())
}

/// Looks at one event after the other.
pub(crate) struct Events {
    tasks: usize,
    length: Ns,
    /// When the last event of each CPU was.
    last: Vec<Ns>,
    /// By task: whether it was created.
    is_created: Vec<bool>,
}

impl Events {
    pub(crate) fn new(header: &Header, tasks: usize) -> Self {
        let last = vec![0; header.cpus.len()];
        Self { tasks, length: header.length, last, is_created: vec![false; tasks] }
    }

    pub(crate) fn check(&mut self, event: &Event) -> Result<(), String> {
        let of_event = match event.what {
            What::Switch { prev, next, .. } => [prev, next],
            What::Wake { woken, .. } => [Some(woken), None],
            What::Fork { child, .. } => [Some(child), None],
        };
        if let Some(task) = of_event.into_iter().flatten().find(|&task| task as usize >= self.tasks) {
            return Err(format!("task {task} of {}", self.tasks));
        }
        let cpus = self.last.len();
        let Some(last) = self.last.get_mut(event.cpu as usize) else {
            return Err(format!("CPU {} of {cpus}", event.cpu));
        };
        if event.at > self.length {
            return Err(format!("at {} ns, after the end at {} ns", event.at, self.length));
        }
        if event.at.saturating_add(BACK_NS) < *last {
            return Err(format!("at {} ns, after one at {last} ns on the same CPU", event.at));
        }
        *last = event.at;
        match event.what {
            What::Fork { child, .. } if std::mem::replace(&mut self.is_created[child as usize], true) => {
                Err(format!("task {child} is created again"))
            }
            _ => Ok(()),
        }
    }
}
