//! The machines that the scenarios are played on.
use std::fmt;
use std::str::FromStr;

/// A machine, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// Measures delays and their bounds. It is repeatable, however busy the host is.
    Work,
    /// Searches for races. CPUs run in parallel, in rounds of random length. The seed determines how they interleave.
    Jitter,
    /// Has real parallelism. Times mean little, because four emulated CPUs share the CPU time that the host has left.
    Wall,
    /// Has an unusual topology: two nodes, each with a socket of two cores and four threads. Only three threads are
    /// online, so that a core has half its threads and a node has no CPU. The kernel is fully preemptible, and may stop
    /// the tick of a CPU that has a single task.
    Odd,
    /// Two nodes of two CPUs each.
    Nodes,
}

/// The machines for scenarios that must pass everywhere.
pub const ALL: [Machine; 3] = [Machine::Work, Machine::Wall, Machine::Odd];

impl Machine {
    fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Jitter => "jitter",
            Self::Wall => "wall",
            Self::Odd => "odd",
            Self::Nodes => "nodes",
        }
    }

    /// The machine whose scenarios run here.
    pub fn stage(self) -> Self {
        if self == Self::Jitter { Self::Work } else { self }
    }

    /// Arguments of `flsched vm`, without the seed.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Work => &["--cpus", "4", "--clock", "work"],
            Self::Jitter => &["--cpus", "4"],
            Self::Wall => &["--cpus", "4", "--clock", "wall"],
            Self::Nodes => &["--topology", "2n1s2c1t", "--clock", "work"],
            Self::Odd => &[
                "--topology",
                "2n1s2c2t",
                "--append",
                "maxcpus=3 preempt=full nohz_full=1",
                "--clock",
                "work",
            ],
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = ALL.into_iter().chain([Self::Nodes, Self::Jitter]);
        all.find(|machine| machine.name() == text).ok_or_else(|| format!("no machine {text}"))
    }
}
