//! `hackbench`: groups of senders and receivers; every sender sends every receiver of its group one
//! message per loop. All wait for a common start, as in the program.
use super::{ChannelId, Child, Mark, Program, Step, View, Workload, World};
use crate::rest::{Detail, Preparation, grows_file_table};
use flsched_spec::workload::{self as named, Hackbench, Task};

/// Bytes of a message.
const MESSAGE: u32 = 100;
/// Senders, and receivers, of a group.
const HALF: usize = 20;

impl Workload for Hackbench {
    fn main(&self, world: &mut World) -> Box<dyn Program> {
        let mut add = |bytes| match self.channel {
            named::Channel::Socket => world.add_socket(bytes),
            named::Channel::Pipe => world.add_pipe(bytes),
        };
        let (ready, wake) = (add(1), add(1));
        Box::new(Main {
            bench: *self,
            ready,
            wake,
            group: 0,
            member: 0,
            phase: Phase::Exec,
            channels: (0..self.groups).map(|_| (0..HALF).map(|_| add(MESSAGE)).collect()).collect(),
        })
    }
}

enum Phase {
    Exec,
    /// Prepares data for the next child, if that is a receiver.
    Prepare,
    Make(ChannelId),
    /// The table of open files has to grow, and threads share it.
    Grow,
    Fork,
    Collect(u64),
    Begin,
    Release,
    Wait(u64),
    End,
    Gone,
}

struct Main {
    bench: Hackbench,
    ready: ChannelId,
    wake: ChannelId,
    channels: Vec<Vec<ChannelId>>,
    group: usize,
    member: usize,
    phase: Phase,
}

impl Main {
    fn tasks(&self) -> u64 {
        self.bench.groups * 2 * HALF as u64
    }

    /// Whether members are threads of one process, not processes.
    fn has_threads(&self) -> bool {
        self.bench.task == Task::Thread
    }

    /// The channel of the next child, if that is a receiver.
    fn inbox(&self) -> Option<ChannelId> {
        self.channels.get(self.group)?.get(self.member).copied()
    }

    /// The receivers of a group first, then its senders.
    fn child(&mut self) -> Option<Child> {
        let inboxes = self.channels.get(self.group)?;
        let part = if self.member < HALF {
            Part::Receive { from: inboxes[self.member], left: HALF as u64 * self.bench.loops }
        } else {
            Part::Send { first: inboxes[0], index: 0, loops_left: self.bench.loops }
        };
        let name = if self.member < HALF { "receiver" } else { "sender" };
        self.member += 1;
        if self.member == 2 * HALF {
            self.member = 0;
            self.group += 1;
        }
        let program = Member { ready: Some(self.ready), wake: Some(self.wake), part };
        Some(Child { is_thread: self.has_threads(), ..Child::process(name, program) })
    }
}

impl Program for Main {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        loop {
            match self.phase {
                Phase::Exec => {
                    self.phase = Phase::Prepare;
                    return Step::Rest(Detail::Prepare(Preparation::Exec));
                }
                Phase::Prepare => match self.inbox() {
                    None => self.phase = Phase::Fork,
                    Some(inbox) => {
                        self.phase = Phase::Make(inbox);
                        let is_first = (self.group, self.member) == (0, 0);
                        if !self.has_threads() && !is_first {
                            return Step::Rest(Detail::Prepare(Preparation::CopyOnWrite));
                        }
                    }
                },
                Phase::Make(inbox) => {
                    self.phase = Phase::Grow;
                    return Step::Make(inbox);
                }
                Phase::Grow => {
                    self.phase = Phase::Fork;
                    let made = self.group * HALF + self.member;
                    if self.has_threads() && grows_file_table(made) {
                        return Step::Rest(Detail::SynchronizeRcu);
                    }
                }
                Phase::Fork => match self.child() {
                    Some(child) => {
                        self.phase = Phase::Prepare;
                        return Step::fork(child);
                    }
                    None => self.phase = Phase::Collect(self.tasks()),
                },
                Phase::Collect(0) => self.phase = Phase::Begin,
                Phase::Collect(left) => {
                    self.phase = Phase::Collect(left - 1);
                    return Step::Read(self.ready);
                }
                Phase::Begin => {
                    self.phase = Phase::Release;
                    return Step::Mark(Mark::Start);
                }
                Phase::Release => {
                    // Processes are waited for one by one, in any order; threads in the order of their
                    // numbers, and the first of them are the last to end.
                    self.phase = Phase::Wait(if self.has_threads() { 1 } else { self.tasks() });
                    return Step::Write(self.wake);
                }
                Phase::Wait(0) => self.phase = Phase::End,
                Phase::Wait(left) => {
                    self.phase = Phase::Wait(left - 1);
                    return Step::WaitChildren { at_most: left as usize - 1 };
                }
                Phase::End => {
                    self.phase = Phase::Gone;
                    return Step::Mark(Mark::Stop);
                }
                Phase::Gone => return Step::Exit,
            }
        }
    }
}

enum Part {
    /// To the channels from `first` on; those of a group have consecutive numbers.
    Send {
        first: ChannelId,
        index: usize,
        loops_left: u64,
    },
    Receive {
        from: ChannelId,
        left: u64,
    },
}

struct Member {
    ready: Option<ChannelId>,
    wake: Option<ChannelId>,
    part: Part,
}

impl Program for Member {
    fn next(&mut self, _view: &mut View<'_>) -> Step {
        if let Some(ready) = self.ready.take() {
            return Step::Write(ready);
        }
        if let Some(wake) = self.wake.take() {
            return Step::Poll(wake);
        }
        match &mut self.part {
            Part::Send { loops_left: 0, .. } | Part::Receive { left: 0, .. } => Step::Exit,
            Part::Receive { from, left } => {
                *left -= 1;
                Step::Read(*from)
            }
            Part::Send { first, index, loops_left } => {
                let target = *first + *index;
                *index += 1;
                if *index == HALF {
                    *index = 0;
                    *loops_left -= 1;
                }
                Step::Write(target)
            }
        }
    }
}
