//! What a second is in a virtual machine.
use crate::{Accel, MemoryModel, Topology, TopologyError, VmError};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// See `docs/explanation/clocks.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Each CPU has its own time, one instruction a nanosecond, and all run in parallel: shows speed.
    Parallel(Parallel),
    /// Guest time is instructions executed (1 ns each), one CPU after the other: shows work.
    Work,
    /// Real time, real parallelism.
    Wall,
}

/// Settings of the parallel clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallel {
    /// Length of a round in instructions: the CPUs' clocks differ by no more.
    pub turn: u32,
    /// What the instruction PAUSE costs, in ns.
    pub pause_ns: u32,
    /// A seed that draws each round's length, instead of `turn`, and which CPU goes first in it.
    pub jitter: Option<u64>,
    /// Caches and memory; `None`: each access takes as long as any other instruction.
    pub memory: Option<MemoryModel>,
}

impl Parallel {
    /// Lengths of a round.
    pub const TURN: RangeInclusive<u32> = 10..=1_000_000;
    /// Costs of PAUSE in ns.
    pub const PAUSE_NS: RangeInclusive<u32> = 0..=1_000_000;
    /// Length of a round with a model of memory, unless one is set: what a CPU writes is seen by others after a round.
    const TURN_WITH_MEMORY: u32 = 250;

    /// As it is if nothing is set but the model of memory.
    fn default_with(memory: Option<MemoryModel>) -> Self {
        let default = Self::default();
        let turn = if memory.is_some() { Self::TURN_WITH_MEMORY } else { default.turn };
        Self { turn, memory, ..default }
    }
}

impl Default for Parallel {
    fn default() -> Self {
        Self { turn: 1000, pause_ns: 140, jitter: None, memory: None }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::Parallel(Parallel::default())
    }
}

/// Not a clock, or not a setting of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClockError(String);

impl Clock {
    /// Without settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parallel(_) => "parallel",
            Self::Work => "work",
            Self::Wall => "wall",
        }
    }

    /// CPUs of a machine if the user gives no number: on the wall clock as many as any host has, else as
    /// many as the figures in `docs/` have.
    pub fn default_cpus(self) -> u32 {
        match self {
            Self::Wall => 2,
            Self::Parallel(_) | Self::Work => 4,
        }
    }

    /// The CPUs' places if the user gives their number only: as the machine has them whose memory is modelled.
    pub fn topology(self, cpus: u32) -> Result<Topology, TopologyError> {
        match self {
            Self::Parallel(Parallel { memory: Some(memory), .. }) => memory.topology(cpus),
            _ => Ok(Topology::flat(cpus)),
        }
    }

    /// Refuses CPUs for which there is no model of memory.
    pub fn check_topology(self, topology: &Topology) -> Result<(), TopologyError> {
        match self {
            Self::Parallel(Parallel { memory: Some(memory), .. }) => memory.check(topology),
            _ => Ok(()),
        }
    }

    /// Whether what executes the machine can keep this clock.
    pub(crate) fn check(self, accel: Accel) -> Result<(), VmError> {
        if accel == Accel::Kvm && self != Self::Wall {
            return Err(VmError::BadMachine(format!(
                "the {} clock counts what QEMU emulates, so it cannot use KVM",
                self.name()
            )));
        }
        Ok(())
    }
}

/// As [`FromStr`] reads it; settings that have their defaults are left out.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let Self::Parallel(Parallel { turn, pause_ns, jitter, memory }) = *self else { return Ok(()) };
        let default = Parallel::default_with(memory);
        let settings = [
            (turn != default.turn).then(|| format!("turn={turn}")),
            (pause_ns != default.pause_ns).then(|| format!("pause={pause_ns}")),
            jitter.map(|seed| format!("jitter={seed}")),
            memory.map(|memory| format!("memory={memory}")),
        ];
        let settings: Vec<_> = settings.into_iter().flatten().collect();
        if settings.is_empty() { Ok(()) } else { write!(f, ":{}", settings.join(",")) }
    }
}

/// `parallel`, `parallel:turn=250,pause=40,jitter=7`, `parallel:memory=server`, `work`, `wall`; `instructions` is the old name of `work`.
impl FromStr for Clock {
    type Err = ClockError;

    fn from_str(text: &str) -> Result<Self, ClockError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let clock = match name {
            "parallel" => return Ok(Self::Parallel(settings.parse()?)),
            "work" | "instructions" => Self::Work,
            "wall" => Self::Wall,
            _ => return Err(ClockError(format!("unknown clock `{name}`: valid are parallel, work, wall"))),
        };
        if !settings.is_empty() {
            return Err(ClockError(format!(
                "the {} clock has no settings: `{settings}` can only follow parallel, as in parallel:turn=250",
                clock.name()
            )));
        }
        Ok(clock)
    }
}

/// `turn=250,pause=40,jitter=7,memory=server`, each optional, and `memory` alone for the default machine's.
impl FromStr for Parallel {
    type Err = ClockError;

    fn from_str(text: &str) -> Result<Self, ClockError> {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        for assignment in text.split(',').filter(|part| !part.is_empty()) {
            let Some((name, value)) =
                assignment.split_once('=').or((assignment == "memory").then_some(("memory", "")))
            else {
                let what = "is not SETTING=VALUE with a whole number, as in turn=250";
                return Err(ClockError(format!("`{assignment}` {what}")));
            };
            let (name, value) = (name.trim(), value.trim());
            if seen.contains(&name) {
                return Err(ClockError(format!("{name} is set twice")));
            }
            seen.push(name);
            match name {
                "turn" => settings.turn = number(name, value, Self::TURN, "instructions in a round")?,
                "pause" => settings.pause_ns = number(name, value, Self::PAUSE_NS, "ns that PAUSE costs")?,
                "jitter" => settings.jitter = Some(number(name, value, 0..=u64::MAX, "a seed")?),
                "memory" => settings.memory = Some(memory(value)?),
                _ => {
                    let valid = "valid are turn, pause, jitter, memory";
                    return Err(ClockError(format!(
                        "`{name}` is not a setting of the parallel clock: {valid}"
                    )));
                }
            }
        }
        if !seen.contains(&"turn") {
            settings.turn = Self::default_with(settings.memory).turn;
        }
        Ok(settings)
    }
}

fn memory(machine: &str) -> Result<MemoryModel, ClockError> {
    if machine.is_empty() {
        return Ok(MemoryModel::default());
    }
    MemoryModel::find(machine).map_err(|error| ClockError(format!("memory={machine}: {error}")))
}

fn number<N>(name: &str, value: &str, range: RangeInclusive<N>, meaning: &str) -> Result<N, ClockError>
where
    N: FromStr + PartialOrd + fmt::Display,
{
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        ClockError(format!("{name}={value}: expected {least} to {most} ({meaning})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Clock, String> {
        text.parse().map_err(|error: ClockError| error.to_string())
    }

    #[test]
    fn clocks_and_settings_are_read() {
        let default = Parallel { turn: 1000, pause_ns: 140, jitter: None, memory: None };
        assert_eq!(parse("parallel"), Ok(Clock::Parallel(default)));
        assert_eq!(parse("parallel:"), Ok(Clock::default()));
        let all = Parallel { turn: 250, pause_ns: 40, jitter: Some(7), memory: None };
        assert_eq!(parse("parallel:turn=250,pause=40,jitter=7"), Ok(Clock::Parallel(all)));
        let pause = Parallel { pause_ns: 0, ..default };
        assert_eq!(parse("parallel:pause=0"), Ok(Clock::Parallel(pause)));
        let server = Parallel { turn: 250, memory: Some(MemoryModel::default()), ..default };
        assert_eq!(parse("parallel:memory"), Ok(Clock::Parallel(server)));
        assert_eq!(parse("parallel:memory=server,turn=250"), Ok(Clock::Parallel(server)));
        let long = Parallel { turn: 1000, ..server };
        assert_eq!(parse("parallel:turn=1000,memory=server"), Ok(Clock::Parallel(long)));
        assert_eq!((parse("work"), parse("instructions")), (Ok(Clock::Work), Ok(Clock::Work)));
        assert_eq!(parse("wall"), Ok(Clock::Wall));
    }

    #[test]
    fn ends_of_ranges_are_inside() {
        for text in ["turn=10", "turn=1000000", "pause=1000000", "jitter=0", "jitter=18446744073709551615"] {
            assert!(parse(&format!("parallel:{text}")).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_range() {
        for (text, words) in [
            ("parallel:turn=0", "turn=0: expected 10 to 1000000"),
            ("parallel:turn=9", "10 to 1000000"),
            ("parallel:turn=1000001", "10 to 1000000"),
            ("parallel:pause=-1", "pause=-1: expected 0 to 1000000"),
            ("parallel:pause=1000001", "0 to 1000000"),
            ("parallel:pause=fast", "0 to 1000000"),
            ("parallel:jitter=-1", "0 to 18446744073709551615"),
            ("parallel:jitter=18446744073709551616", "0 to 18446744073709551615"),
            ("parallel:jitter", "not SETTING=VALUE"),
            ("parallel:turns=5", "valid are turn, pause, jitter, memory"),
            ("parallel:memory=knc-31s1p", "memory=knc-31s1p: knc-31s1p has no section [memory]"),
            ("parallel:memory=severs", "did you mean `server`"),
            ("parallel:memory,memory=server", "memory is set twice"),
            ("parallel:turn=20,turn=30", "turn is set twice"),
            ("work:turn=20", "work clock has no settings"),
            ("instructions:turn=20", "work clock has no settings"),
            ("wall:pause=1", "wall clock has no settings"),
            ("model", "valid are parallel, work, wall"),
            ("", "valid are parallel, work, wall"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        let texts = [
            "parallel",
            "parallel:turn=250,jitter=0",
            "parallel:pause=0",
            "parallel:memory=server",
            "parallel:turn=1000,memory=server",
            "work",
            "wall",
        ];
        for text in texts {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("parallel:turn=1000,pause=140").unwrap().to_string(), "parallel");
        assert_eq!(parse("instructions").unwrap().to_string(), "work");
    }

    #[test]
    fn only_the_wall_clock_goes_with_kvm() {
        assert!(Clock::Wall.check(Accel::Kvm).is_ok());
        for clock in [Clock::Work, Clock::default()] {
            let error = clock.check(Accel::Kvm).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(&format!("the {} clock", clock.name())), "{error}");
        }
        assert!(Clock::Work.check(Accel::Auto).is_ok() && Clock::Work.check(Accel::Tcg).is_ok());
    }
}
