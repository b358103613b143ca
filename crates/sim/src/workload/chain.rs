//! A wake-up chain: tasks in a ring. Each computes, wakes the next one and sleeps.
use super::team::Team;
use super::{Child, Program, SemaphoreId, Step, View, Workload, World};
use flsched_spec::workload::Chain;

impl Workload for Chain {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let turns: Vec<SemaphoreId> =
            (0..self.tasks).map(|task| world.add_semaphore(u64::from(task == 0))).collect();
        let links = (0..turns.len()).map(|at| {
            let next = turns[(at + 1) % turns.len()];
            let link = Link { turn: turns[at], next, left: self.rounds, work_ns: self.work_us * 1000, at: 0 };
            Child::process("link", link)
        });
        Box::new(Team::new(links.collect::<Vec<_>>(), Vec::new))
    }
}

struct Link {
    turn: SemaphoreId,
    next: SemaphoreId,
    left: u64,
    work_ns: u64,
    at: u8,
}

impl Program for Link {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if self.left == 0 {
            return Step::Exit;
        }
        self.at = (self.at + 1) % 3;
        match self.at {
            1 => Step::Down(self.turn),
            2 => Step::Run(self.work_ns),
            _ => {
                self.left -= 1;
                Step::Up(self.next)
            }
        }
    }
}
