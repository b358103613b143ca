//! The timeline of a recorded load.
use super::{Timeline, Wait, WaitsFor};
use crate::{By, Left, Ns, Recording, What};

impl Recording {
    /// What it looks like. What was running or waiting at the end has done so until then.
    pub fn timeline(&self) -> Timeline {
        let mut timeline = Timeline::new(self.header.cpus.iter().map(|cpu| cpu.id).collect());
        let mut on: Vec<Option<usize>> =
            self.first_tasks().into_iter().map(|task| task.map(|task| task as usize)).collect();
        on.iter().enumerate().for_each(|(cpu, task)| timeline.switched(cpu, *task, 0));
        let mut waits = Waits { timeline, since: vec![None; self.tasks.len()] };
        for event in &self.events {
            let (at, cpu) = (event.at, event.cpu as usize);
            match event.what {
                What::Switch { prev, left, next, .. } => {
                    let next = next.map(|next| next as usize);
                    if let Some(prev) = prev {
                        waits.begin(prev as usize, after(left), at);
                    }
                    if let Some(next) = next {
                        waits.end(next, at);
                    }
                    on[cpu] = next;
                    waits.timeline.switched(cpu, next, at);
                }
                What::Wake { woken, by } => {
                    let woken = woken as usize;
                    // A task that runs, or could, is not woken.
                    if on.contains(&Some(woken)) || waits.is_ready(woken) {
                        continue;
                    }
                    waits.begin(woken, Some(WaitsFor::Cpu), at);
                    waits.timeline.woken(woken, cpu, at, on[cpu].filter(|_| by != By::Interrupt));
                }
                What::Fork { child, .. } => {
                    waits.begin(child as usize, Some(WaitsFor::Cpu), at);
                    waits.timeline.woken(child as usize, cpu, at, on[cpu]);
                }
            }
        }
        let end = self.header.length;
        (0..self.tasks.len()).for_each(|task| waits.end(task, end));
        let mut timeline = waits.timeline;
        timeline.counters = self.header.counters.iter().map(|it| (it.name.clone(), it.rates())).collect();
        let process =
            |(index, task): (usize, &crate::Task)| task.process.map_or(index, |first| first as usize);
        timeline.processes = self.tasks.iter().enumerate().map(process).collect();
        // Anonymous tasks have no numbers.
        let number = |index: usize, pid: Option<u32>| pid.map_or(index as i32 + 1, |pid| pid as i32);
        let tasks = self.tasks.iter().enumerate();
        timeline.finish(end, tasks.map(|(index, it)| (it.name.clone(), number(index, it.pid))).collect());
        timeline
    }
}

/// What a task waits for that has left its CPU; `None`: it has ended.
fn after(left: Left) -> Option<WaitsFor> {
    match left {
        Left::Blocked => Some(WaitsFor::Other),
        Left::Reading => Some(WaitsFor::Message),
        Left::InFutex => Some(WaitsFor::Lock),
        Left::Preempted | Left::Yielded => Some(WaitsFor::Cpu),
        Left::Exited => None,
    }
}

struct Waits {
    timeline: Timeline,
    /// Of each task, if it waits: for what, and since when.
    since: Vec<Option<(WaitsFor, Ns)>>,
}

impl Waits {
    fn begin(&mut self, task: usize, what: Option<WaitsFor>, at: Ns) {
        self.end(task, at);
        self.since[task] = what.map(|what| (what, at));
    }

    fn end(&mut self, task: usize, at: Ns) {
        let Some((what, from)) = self.since[task].take() else { return };
        // The clocks of two CPUs may differ a little.
        if at > from {
            self.timeline.waited(Wait { task, what, from, to: at });
        }
    }

    fn is_ready(&self, task: usize) -> bool {
        matches!(self.since[task], Some((WaitsFor::Cpu, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Slice;
    use super::*;
    use crate::lives::tests::recording as recorded;
    use crate::{Calls, Counter, Event, Header, Task};

    fn switch(cpu: u32, at: Ns, prev: Option<u32>, left: Left, next: Option<u32>) -> Event {
        Event { at, cpu, what: What::Switch { prev, left, next, calls: Calls::default() } }
    }

    fn wake(cpu: u32, at: Ns, woken: u32, by: By) -> Event {
        Event { at, cpu, what: What::Wake { woken, by } }
    }

    /// Task 1 reads what task 0 writes, on two CPUs.
    fn recording() -> Recording {
        let mut header = Header { length: 1000, ..recorded(Vec::new(), Vec::new()).header };
        header.counters = vec![Counter { name: "pulled".into(), samples: vec![(0, 5), (500, 5), (1000, 9)] }];
        let events = vec![
            switch(0, 0, None, Left::Blocked, Some(0)),
            switch(1, 100, Some(1), Left::Reading, None),
            wake(0, 300, 1, By::Message),
            // It is awake already.
            wake(0, 310, 1, By::Message),
            switch(1, 350, None, Left::Blocked, Some(1)),
            switch(0, 400, Some(0), Left::Exited, None),
        ];
        Recording { header, tasks: vec![Task::new("writer", 7), Task::new("reader", 8)], events }
    }

    #[test]
    fn a_message_is_a_wait_then_a_wait_for_a_cpu() {
        let timeline = recording().timeline();
        let wait = |what, from, to| Wait { task: 1, what, from, to };
        assert_eq!(timeline.waits, [wait(WaitsFor::Message, 100, 300), wait(WaitsFor::Cpu, 300, 350)]);
        let slice = |cpu, task, from, to| Slice { cpu, task, from, to };
        let mut slices = timeline.slices.clone();
        slices.sort_by_key(|slice| (slice.cpu, slice.from));
        assert_eq!(slices, [slice(0, 0, 0, 400), slice(1, 1, 0, 100), slice(1, 1, 350, 1000)]);
        let [wake_up] = timeline.wake_ups[..] else { panic!("{:?}", timeline.wake_ups) };
        assert_eq!((wake_up.task, wake_up.by, wake_up.at), (1, Some(0), 300));
        assert_eq!(timeline.tasks, [("writer".into(), 7), ("reader".into(), 8)]);
    }

    #[test]
    fn counters_are_rates() {
        // 4 events in 500 ns.
        assert_eq!(recording().timeline().counters, [("pulled".into(), vec![(0, 0), (500, 8_000_000)])]);
    }
}
