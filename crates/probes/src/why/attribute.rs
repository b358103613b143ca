//! From records to a breakdown.
use super::Why;
use super::record::{MODES, Mode, OpenTurn, Recording, Switched};
use std::collections::HashMap;
use std::ops::Range;

/// The CPUs' clocks differ by up to a turn of the parallel clock, 2 µs with jitter: events that are closer
/// than this may have happened in the other order.
const SKEW_NS: u64 = 10_000;
/// A shorter run between two yields was only long enough to check the condition again.
const VAIN_NS: u64 = 10_000;
const IDLE_TASK: u32 = 0;

impl Recording {
    /// Breaks down the time of all CPUs in a span of `CLOCK_MONOTONIC`, in nanoseconds.
    pub fn why(&self, span: Range<u64>) -> Why {
        let end = self.full_at.map_or(span.end, |full_at| full_at.clamp(span.start, span.end));
        let span_of_all = span.start..end;
        let modes = Modes::of(self, &span_of_all);
        let idling = Idling::of(self, &span_of_all);
        let whole = (end - span.start) as f64 * self.switches.len() as f64;
        let percent = |ns: f64| if whole > 0.0 { 100.0 * ns / whole } else { 0.0 };
        let mode = |mode: Mode| percent(modes.busy[mode as usize]);
        let samples = modes.in_user + modes.in_kernel;
        let in_user = if samples > 0.0 { modes.in_user / samples } else { 1.0 };
        // Interrupts of idle CPUs and their ways in and out of idleness are counted as such.
        let idle_share = if idling.all > 0.0 { modes.idle / idling.all } else { 0.0 };
        let idle = |ns: f64| percent(ns * idle_share);
        let mut why = Why {
            span_s: (end - span.start) as f64 / 1e9,
            cpus: self.switches.len(),
            user: in_user * mode(Mode::Task),
            kernel: (1.0 - in_user) * mode(Mode::Task) + mode(Mode::Kernel),
            of_which_vain: percent(modes.vain),
            wake_ups: mode(Mode::Wake),
            switching: mode(Mode::Switch),
            lock_waits: mode(Mode::Lock),
            interrupts: mode(Mode::Interrupt),
            probe: mode(Mode::Probe),
            idle_task_waits: idle(idling.task_waits),
            of_which_late: idle(idling.late),
            idle_nothing: idle(idling.nothing()),
            of_which_start: idle(idling.start),
            of_which_tail: idle(idling.tail),
            other: 0.0,
            switches: modes.switches,
            yield_switches: modes.yield_switches,
            vain_turns: modes.vain_turns,
            woken: self.wakes.iter().filter(|woken| span_of_all.contains(&woken.at)).count() as u64,
            yields: self.yields,
            is_cut: end < span.end,
        };
        let known = why.user
            + why.kernel
            + why.wake_ups
            + why.switching
            + why.lock_waits
            + why.interrupts
            + why.probe
            + why.idle_task_waits
            + why.idle_nothing;
        why.other = (100.0 - known).max(0.0);
        why
    }
}

/// Time by mode, on all CPUs.
#[derive(Default)]
struct Modes {
    busy: [f64; MODES],
    idle: f64,
    in_user: f64,
    in_kernel: f64,
    vain: f64,
    vain_turns: u64,
    switches: u64,
    yield_switches: u64,
}

impl Modes {
    fn of(recording: &Recording, span: &Range<u64>) -> Self {
        let mut modes = Self::default();
        let mut yielded = HashMap::new();
        for (cpu, switches) in recording.switches.iter().enumerate() {
            let mut from = None;
            for switched in switches {
                modes.add_turn(from, switched, span);
                modes.add_switch(from, switched, span, &mut yielded);
                from = Some(switched.at);
            }
            let open = recording.open.get(cpu).copied().unwrap_or_default();
            modes.add_open(switches.last(), &open, span);
        }
        modes
    }

    /// Adds the run of a task on a CPU between two switches.
    fn add_turn(&mut self, from: Option<u64>, switched: &Switched, span: &Range<u64>) {
        let is_idle = switched.left() == IDLE_TASK;
        let Some(from) = from else {
            // Before the first record it is not known what the CPU does.
            let inside = overlap(span, &(0..switched.at)) as f64;
            *if is_idle { &mut self.idle } else { &mut self.busy[Mode::Task as usize] } += inside;
            return;
        };
        let length = switched.at.saturating_sub(from);
        let mut ns = switched.ns.map(u64::from);
        // The length of a run of more than four seconds overflows; nearly all of it is in the
        // task's own mode.
        let lost = length.saturating_sub(ns.iter().sum());
        let own = if is_idle { Mode::Idle } else { Mode::Task };
        ns[own as usize] += (lost + (1 << 31)) >> 32 << 32;
        let inside = overlap(span, &(from..switched.at));
        self.add(&ns, length, inside);
        if inside > 0 {
            let share = inside as f64 / length as f64;
            self.in_user += share * f64::from(switched.in_user);
            self.in_kernel += share * f64::from(switched.in_kernel);
        }
    }

    /// Adds the time after a CPU's last switch.
    fn add_open(&mut self, last: Option<&Switched>, open: &OpenTurn, span: &Range<u64>) {
        let from = last.map_or(0, |last| last.at);
        let inside = overlap(span, &(from..span.end));
        match last {
            Some(last) if last.next != IDLE_TASK && open.until > from => {
                let seen = inside.min(open.until - from);
                self.add(&open.ns, open.until - from, seen);
                self.busy[Mode::Task as usize] += (inside - seen) as f64;
            }
            Some(last) if last.next != IDLE_TASK => self.busy[Mode::Task as usize] += inside as f64,
            _ => self.idle += inside as f64,
        }
    }

    /// Adds the part of a run of this `length` that is `inside` of the span.
    fn add(&mut self, ns: &[u64; MODES], length: u64, inside: u64) {
        if length == 0 {
            return;
        }
        let share = inside as f64 / length as f64;
        for (mode, ns) in ns.iter().enumerate() {
            let of_mode = *ns as f64 * share;
            *if mode == Mode::Idle as usize { &mut self.idle } else { &mut self.busy[mode] } += of_mode;
        }
    }

    fn add_switch(
        &mut self,
        from: Option<u64>,
        switched: &Switched,
        span: &Range<u64>,
        yielded: &mut HashMap<u32, bool>,
    ) {
        let before = yielded.insert(switched.left(), switched.yielded()).unwrap_or(false);
        if !span.contains(&switched.at) {
            return;
        }
        self.switches += 1;
        self.yield_switches += u64::from(switched.yielded());
        let is_short = from.is_some_and(|from| switched.at.saturating_sub(from) < VAIN_NS);
        if before && switched.yielded() && is_short {
            self.vain_turns += 1;
            self.vain += f64::from(switched.ns[Mode::Task as usize]);
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// A task of user space.
#[derive(Default)]
struct Task {
    runs_on: Option<usize>,
    /// The CPU it was sent to, if it was woken.
    waits: Option<Option<usize>>,
    /// It arrived at a CPU before its wake-up, by that CPU's clock.
    came_early_at: Option<u64>,
    /// It was woken before it had left its CPU, by that CPU's clock; and the CPU it was sent to.
    woken_early: Option<(u64, usize)>,
}

/// Time of CPUs that idle.
#[derive(Default)]
struct Idling {
    all: f64,
    task_waits: f64,
    late: f64,
    start: f64,
    tail: f64,
}

impl Idling {
    fn nothing(&self) -> f64 {
        self.all - self.task_waits
    }

    /// Goes through all events in the order of time.
    fn of(recording: &Recording, span: &Range<u64>) -> Self {
        enum Event<'a> {
            Switched(usize, &'a Switched),
            Woken(u32, usize),
        }
        let switches = recording.switches.iter().enumerate();
        let mut events: Vec<(u64, Event<'_>)> = switches
            .flat_map(|(cpu, of_cpu)| of_cpu.iter().map(move |it| (it.at, Event::Switched(cpu, it))))
            .chain(recording.wakes.iter().map(|it| (it.at, Event::Woken(it.task, it.cpu as usize))))
            .collect();
        events.sort_by_key(|(at, _)| *at);

        let mut machine = Machine::new(recording);
        let mut sums = Self::default();
        let mut was_full = false;
        let mut now = span.start;
        for (at, event) in &events {
            let at = (*at).clamp(span.start, span.end);
            if at > now {
                sums.pass((at - now) as f64, &machine, &mut was_full);
                now = at;
            }
            match event {
                Event::Switched(cpu, switched) => machine.switched(*cpu, switched),
                Event::Woken(task, cpu) => machine.woken(*task, *cpu, at),
            }
        }
        sums.pass((span.end - now) as f64, &machine, &mut was_full);
        if !was_full {
            (sums.start, sums.tail) = (0.0, 0.0);
        }
        sums
    }

    fn pass(&mut self, ns: f64, machine: &Machine, was_full: &mut bool) {
        let lost = machine.idle.min(machine.waiting);
        self.all += ns * machine.idle as f64;
        self.task_waits += ns * lost as f64;
        self.late += ns * machine.late.min(lost) as f64;
        let nothing = ns * (machine.idle - lost) as f64;
        if machine.idle == 0 {
            *was_full = true;
            self.tail = 0.0;
        } else if *was_full {
            self.tail += nothing;
        } else {
            self.start += nothing;
        }
    }
}

/// Which CPUs are idle, and where each task runs or waits.
struct Machine {
    is_idle: Vec<bool>,
    /// By CPU: waiting tasks that were sent there.
    sent: Vec<u32>,
    tasks: HashMap<u32, Task>,
    idle: usize,
    waiting: usize,
    /// CPUs that idle although a waiting task was sent there.
    late: usize,
}

impl Machine {
    fn new(recording: &Recording) -> Self {
        let first = |switches: &Vec<Switched>| switches.first().is_none_or(|it| it.left() == IDLE_TASK);
        let is_idle: Vec<bool> = recording.switches.iter().map(first).collect();
        Self {
            idle: is_idle.iter().filter(|it| **it).count(),
            sent: vec![0; is_idle.len()],
            is_idle,
            tasks: HashMap::new(),
            waiting: 0,
            late: 0,
        }
    }

    fn switched(&mut self, cpu: usize, switched: &Switched) {
        self.set_idle(cpu, switched.next == IDLE_TASK);
        if switched.left() != IDLE_TASK {
            self.leave(cpu, switched);
        }
        if switched.next != IDLE_TASK {
            let task = self.tasks.entry(switched.next).or_default();
            let waited = task.waits.take();
            task.came_early_at = waited.is_none().then_some(switched.at);
            task.runs_on = Some(cpu);
            task.woken_early = None;
            self.waits_no_longer(waited);
        }
    }

    fn leave(&mut self, cpu: usize, switched: &Switched) {
        let task = self.tasks.entry(switched.left()).or_default();
        if task.runs_on.is_some_and(|other| other != cpu) {
            // It is on another CPU already, by that CPU's clock.
            return;
        }
        task.runs_on = None;
        task.came_early_at = None;
        let woken = task.woken_early.take().filter(|(at, _)| switched.at.saturating_sub(*at) < SKEW_NS);
        if task.waits.is_some() {
            return;
        }
        if switched.still_waits() {
            task.waits = Some(None);
            self.waiting += 1;
        } else if let Some((_, to)) = woken {
            self.wait(switched.left(), to);
        }
    }

    fn woken(&mut self, task: u32, cpu: usize, at: u64) {
        let state = self.tasks.entry(task).or_default();
        if state.waits.is_some() {
            return;
        }
        if state.runs_on.is_some() {
            match state.came_early_at.take() {
                Some(came) if at.saturating_sub(came) < SKEW_NS => {}
                _ => state.woken_early = Some((at, cpu)),
            }
            return;
        }
        self.wait(task, cpu);
    }

    fn wait(&mut self, task: u32, cpu: usize) {
        self.tasks.entry(task).or_default().waits = Some(Some(cpu));
        self.waiting += 1;
        self.send(cpu, 1);
    }

    fn waits_no_longer(&mut self, waited: Option<Option<usize>>) {
        if let Some(sent_to) = waited {
            self.waiting -= 1;
            if let Some(cpu) = sent_to {
                self.send(cpu, -1);
            }
        }
    }

    fn send(&mut self, cpu: usize, change: i32) {
        let Some(sent) = self.sent.get_mut(cpu) else { return };
        let before = *sent > 0;
        *sent = sent.saturating_add_signed(change);
        if self.is_idle[cpu] && before != (*sent > 0) {
            self.late = self.late.saturating_add_signed(if before { -1 } else { 1 });
        }
    }

    fn set_idle(&mut self, cpu: usize, is_idle: bool) {
        if self.is_idle[cpu] == is_idle {
            return;
        }
        self.is_idle[cpu] = is_idle;
        let change = if is_idle { 1 } else { -1 };
        self.idle = self.idle.saturating_add_signed(change);
        if self.sent[cpu] > 0 {
            self.late = self.late.saturating_add_signed(change);
        }
    }
}

#[cfg(test)]
mod tests;
