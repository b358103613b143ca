//! Requests and their wake-up latency, as in schbench: messengers wake workers; a woken worker does a
//! fixed amount of work, may sleep for a while, notifies its messenger and waits for the next request.
use super::team::Team;
use super::work::STEP_NS;
use super::{Child, Mark, Program, SemaphoreId, Step, View, Workload, World};
use crate::core::Histogram;
use crate::engine::Ns;
use flsched_spec::workload::Requests;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

impl Workload for Requests {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let latencies = Rc::new(RefCell::new(Histogram::default()));
        let mut children = Vec::new();
        for _ in 0..self.messengers {
            let desk = Rc::new(Desk { bell: world.add_semaphore(0), waiting: RefCell::default() });
            let left = self.workers * self.requests;
            children
                .push(Child::thread("messenger", Messenger { desk: Rc::clone(&desk), left, woken: None }));
            for _ in 0..self.workers {
                let worker = Worker {
                    desk: Rc::clone(&desk),
                    slot: Rc::new(Slot { door: world.add_semaphore(0), woken_at: Cell::new(0) }),
                    latencies: Rc::clone(&latencies),
                    left: self.requests,
                    work_ns: self.work * STEP_NS,
                    pause_ns: self.pause_us * 1000,
                    at: 0,
                };
                children.push(Child::thread("worker", worker));
            }
        }
        Box::new(Team::new(children, move || figures(&latencies.borrow())))
    }

    fn time_is(&self) -> Option<&'static str> {
        Some(Self::TIME_IS)
    }
}

fn figures(latencies: &Histogram) -> Vec<Step> {
    let ns = |share| latencies.percentile(share).unwrap_or(0) as f64;
    let percentiles = [("wakeup_p50_us", 0.5), ("wakeup_p99_us", 0.99), ("wakeup_p99_9_us", 0.999)];
    let figures = percentiles.map(|(name, share)| Mark::Figure(name, ns(share) / 1e3));
    figures.into_iter().chain([Mark::Time(ns(0.99) / 1e9)]).map(Step::Mark).collect()
}

/// Where workers wait for a messenger.
struct Desk {
    bell: SemaphoreId,
    waiting: RefCell<VecDeque<Rc<Slot>>>,
}

/// A worker that waits.
struct Slot {
    door: SemaphoreId,
    woken_at: Cell<Ns>,
}

struct Messenger {
    desk: Rc<Desk>,
    left: u64,
    woken: Option<()>,
}

impl Program for Messenger {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        if self.woken.take().is_some()
            && let Some(slot) = self.desk.waiting.borrow_mut().pop_front()
        {
            slot.woken_at.set(view.now);
            return Step::Up(slot.door);
        }
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        self.woken = Some(());
        Step::Down(self.desk.bell)
    }
}

struct Worker {
    desk: Rc<Desk>,
    slot: Rc<Slot>,
    latencies: Rc<RefCell<Histogram>>,
    left: u64,
    work_ns: Ns,
    pause_ns: Ns,
    at: u8,
}

impl Program for Worker {
    fn next(&mut self, view: &mut View<'_>) -> Step {
        let steps = if self.pause_ns == 0 { 3 } else { 4 };
        self.at = self.at % steps + 1;
        match self.at {
            1 if self.left == 0 => Step::Exit,
            1 => {
                self.left -= 1;
                self.desk.waiting.borrow_mut().push_back(Rc::clone(&self.slot));
                Step::Up(self.desk.bell)
            }
            2 => Step::Down(self.slot.door),
            3 => {
                self.latencies.borrow_mut().add(view.now.saturating_sub(self.slot.woken_at.get()));
                Step::Run(self.work_ns)
            }
            _ => Step::Sleep(self.pause_ns),
        }
    }
}
