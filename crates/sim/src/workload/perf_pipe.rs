//! `perf bench sched pipe`: two processes that hand a byte to and fro, so that each loop is two switches.
use super::team::Team;
use super::{ChannelId, Child, Program, Step, View, Workload, World};
use flsched_spec::workload::PerfPipe;

impl Workload for PerfPipe {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let (to, fro) = (world.add_pipe(4), world.add_pipe(4));
        let player = |reads, writes, serves| Player { reads, writes, left: 2 * self.loops, serves };
        let players = [player(fro, to, true), player(to, fro, false)];
        Box::new(Team::new(players.map(|player| Child::process("sched-pipe", player)), Vec::new))
    }
}

struct Player {
    reads: ChannelId,
    writes: ChannelId,
    /// Reads and writes.
    left: u64,
    serves: bool,
}

impl Program for Player {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if self.left == 0 {
            return Step::Exit;
        }
        self.left -= 1;
        self.serves = !self.serves;
        if self.serves { Step::Read(self.reads) } else { Step::Write(self.writes) }
    }
}
