//! What must be true of the readings.
use crate::machine::{Machine, readings};
use flsched_machine::Machine as Described;

/// A claim about each machine that has the measurement.
pub struct Check {
    pub name: &'static str,
    measurement: &'static str,
    /// What begins the lines that it judges.
    reads: &'static str,
    pub judge: fn(&Machine, &str) -> Result<(), String>,
}

impl Check {
    pub fn is_for(&self, machine: &Machine) -> bool {
        machine.measurements.contains(&self.measurement)
    }
}

pub const CHECKS: &[Check] = &[
    Check { name: "busy_loops_run_in_parallel", measurement: "spins", reads: "spins", judge: spins },
    Check {
        name: "time_stamps_differ_by_a_turn_at_most",
        measurement: "stamps",
        reads: "stamps",
        judge: stamps,
    },
    Check { name: "sleeps_end_in_time", measurement: "timers", reads: "timers", judge: timers },
    Check { name: "ticks_come_at_their_rate", measurement: "ticks", reads: "ticks", judge: ticks },
    Check { name: "pause_costs_what_was_set", measurement: "pauses", reads: "pauses", judge: pauses },
    Check { name: "misses_take_what_is_configured", measurement: "memory", reads: "chases", judge: chases },
    Check { name: "lines_move_as_configured", measurement: "memory", reads: "handovers", judge: moves },
];

/// `figure` is that, give or take a part of it.
fn near(what: &str, figure: f64, expected: f64, part: f64) -> Result<(), String> {
    within(what, figure, expected * (1.0 - part), expected * (1.0 + part))
}

fn within(what: &str, figure: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&figure) {
        return Ok(());
    }
    Err(format!("{what}: {figure}, expected {least} to {most}"))
}

fn spins(_: &Machine, output: &str) -> Result<(), String> {
    let readings = readings(output, "spins")?;
    let alone = readings[0].get("longest")?;
    near("alone, an instruction a ns", alone, readings[0].get("instructions")?, 0.02)?;
    for reading in &readings {
        let (cpus, loops) = (reading.get("cpus")?, reading.get("loops")?);
        let what = format!("{loops} loops on {cpus} CPUs");
        within("loops that were not there at the start", reading.get("late")?, 0.0, 0.0)?;
        if cpus == loops {
            near(&what, reading.get("longest")?, alone, 0.02)?;
            near(&what, reading.get("all")?, alone, 0.02)?;
        } else {
            near(&what, reading.get("all")?, 2.0 * alone, 0.02)?;
        }
    }
    Ok(())
}

/// From the reading of a counter to where another CPU can see it, and back.
const FEW_INSTRUCTIONS: f64 = 20.0;

fn stamps(machine: &Machine, output: &str) -> Result<(), String> {
    for reading in readings(output, "stamps")? {
        let furthest = machine.turn() + reading.get("pauses")? * machine.pause() + FEW_INSTRUCTIONS;
        // Nearer than that by far would mean that the measurement does not see what it is there for.
        within("behind what another CPU has read", reading.get("lowest")?, -furthest, -0.5 * machine.turn())?;
        within("from one reading to the next", reading.get("step")?, 0.0, 1000.0)?;
    }
    for reading in readings(output, "moves")? {
        within("from one CPU to the next", reading.get("lowest")?, 0.0, 1e6)?;
    }
    Ok(())
}

fn timers(_: &Machine, output: &str) -> Result<(), String> {
    for reading in readings(output, "timers")? {
        let what = format!("late after {} ns beside {} busy", reading.get("sleep")?, reading.get("busy")?);
        within(&what, reading.get("min")?, 0.0, 15_000.0)?;
        within(&what, reading.get("median")?, 0.0, 15_000.0)?;
        // One may come together with the kernel's own housekeeping.
        within(&what, reading.get("max")?, 0.0, 60_000.0)?;
    }
    Ok(())
}

/// Of Debian's kernel.
const TICKS_PER_SECOND: f64 = 250.0;

fn ticks(_: &Machine, output: &str) -> Result<(), String> {
    for reading in readings(output, "ticks")? {
        let what = format!("ticks beside {} busy", reading.get("busy")?);
        near(&what, reading.get("ticks")?, TICKS_PER_SECOND * reading.get("ns")? / 1e9, 0.02)?;
    }
    Ok(())
}

fn pauses(machine: &Machine, output: &str) -> Result<(), String> {
    for reading in readings(output, "pauses")? {
        let what = format!("a PAUSE and two instructions beside {} busy", reading.get("busy")?);
        within(&what, reading.get("each")?, machine.pause() + 2.5, machine.pause() + 3.5)?;
    }
    Ok(())
}

/// The machine of the test's clocks with a model of memory.
fn described() -> Result<Described, String> {
    Described::find("server").map_err(|error| error.to_string())
}

/// A load from the first cache, with the instructions around it.
fn hit(output: &str) -> Result<f64, String> {
    readings(output, "chases")?[0].get("each")
}

fn chases(_: &Machine, output: &str) -> Result<(), String> {
    let machine = described()?;
    let latency = *machine.memory.ok_or("it has no caches")?.latency_ns;
    let hit = hit(output)?;
    within("a load from the first cache", hit, 1.0, 5.0)?;
    let expected = [0, 0, latency.core, latency.shared, latency.memory];
    for (reading, ns) in readings(output, "chases")?.iter().zip(expected) {
        near(&format!("a load of {} KiB", reading.get("kib")?), reading.get("each")?, hit + ns as f64, 0.05)?;
    }
    Ok(())
}

fn moves(machine: &Machine, output: &str) -> Result<(), String> {
    let transfer = *described()?.costs.handover_ns;
    let hit = hit(output)?;
    for reading in readings(output, "handovers")? {
        let to = reading.get("to")?;
        let is_near = to < f64::from(machine.cpus / machine.sockets);
        let ns = if is_near { transfer.cache } else { transfer.node };
        near(&format!("a line from CPU 0 to CPU {to}"), reading.get("each")?, hit + ns as f64, 0.2)?;
    }
    for reading in readings(output, "additions")? {
        let threads = reading.get("threads")?;
        let what = format!("an addition by one of {threads}");
        let each = reading.get("each")?;
        if threads < 2.0 {
            within(&what, each, 1.0, 5.0)?;
        } else if threads <= f64::from(machine.cpus / machine.sockets) {
            near(&what, each, transfer.cache as f64, 0.2)?;
        } else {
            // In turn: some transfers are near, some far.
            within(&what, each, 0.8 * transfer.cache as f64, 1.2 * transfer.node as f64)?;
        }
    }
    Ok(())
}

pub fn wakes(default: &str, short: &str) -> Result<(), String> {
    let (default, short) = (readings(default, "wakes")?, readings(short, "wakes")?);
    for name in ["min", "median", "p99"] {
        let [default, short] = [&default[0], &short[0]].map(|reading| reading.get(name));
        within(&format!("{name} of the latency"), default?, 0.0, short? + 2000.0)?;
    }
    Ok(())
}

pub fn equal(one: &str, other: &str) -> Result<(), String> {
    match one.lines().zip(other.lines()).find(|(one, other)| one != other) {
        Some((one, other)) => Err(format!("the first difference:\n{one}\n{other}")),
        None if one == other => Ok(()),
        None => Err(format!("one has more lines:\n{one}\n{other}")),
    }
}

pub fn different(one: &str, other: &str) -> Result<(), String> {
    readings(one, "repeat")?;
    if one == other { Err(format!("two seeds, one run:\n{one}")) } else { Ok(()) }
}

/// Readings of clocks that are wrong by a little more than is allowed: no machine is needed to refuse them.
pub fn wrong_readings() -> Result<(), String> {
    let default = &crate::machine::MACHINES[0];
    let alone = "spins cpus=1 loops=1 late=0 instructions=20000000 longest=20000000 all=20000000\n";
    let spin = |cpus: u32, loops: u32, late: u32, ns: u32| {
        format!(
            "{alone}spins cpus={cpus} loops={loops} late={late} instructions=20000000 longest={ns} all={ns}"
        )
    };
    let slow = "spins cpus=1 loops=1 late=0 instructions=20000000 longest=20500000 all=20500000";
    let timer = "timers busy=0 sleep=50000 min=-1 median=8000 p99=9000 max=9000";
    let wrong: &[(&str, &str)] = &[
        ("spins", slow),
        ("spins", &spin(4, 4, 0, 20_500_000)),
        ("spins", &spin(4, 4, 1, 20_000_000)),
        ("spins", &spin(4, 8, 0, 20_000_000)),
        ("spins", &spin(4, 8, 0, 40_900_000)),
        ("stamps", "stamps cpus=4 pauses=0 lowest=-1021 step=27\nmoves lowest=1"),
        ("stamps", "stamps cpus=4 pauses=1 lowest=-1161 step=27\nmoves lowest=1"),
        ("stamps", "stamps cpus=4 pauses=0 lowest=-499 step=27\nmoves lowest=1"),
        ("stamps", "stamps cpus=4 pauses=0 lowest=-1000 step=-1\nmoves lowest=1"),
        ("stamps", "stamps cpus=4 pauses=0 lowest=-1000 step=27\nmoves lowest=-1"),
        ("stamps", "stamps cpus=4 pauses=0 lowest=-1000 step=27"),
        ("timers", timer),
        ("timers", &timer.replace("min=-1", "min=1").replace("max=9000", "max=60001")),
        ("timers", &timer.replace("min=-1", "min=1").replace("median=8000", "median=15001")),
        ("ticks", "ticks busy=0 ns=1000000000 ticks=244"),
        ("ticks", "ticks busy=3 ns=250000000 ticks=64"),
        ("pauses", "pauses busy=0 each=142.4"),
        ("pauses", "pauses busy=0 each=143.6"),
        ("pauses", "an empty line"),
        ("chases", "chases kib=8 each=3\nchases kib=16 each=3.2"),
        ("chases", "chases kib=8 each=3\nchases kib=16 each=3\nchases kib=128 each=6.4"),
        ("chases", "chases kib=8 each=6"),
        ("handovers", "chases kib=8 each=3\nhandovers from=0 to=1 each=28"),
        ("handovers", "chases kib=8 each=3\nhandovers from=0 to=1 each=23\nadditions threads=4 each=10"),
        ("handovers", "chases kib=8 each=3\nhandovers from=0 to=1 each=23\nadditions threads=4 each=25"),
    ];
    for (measurement, output) in wrong {
        let check = CHECKS.iter().find(|check| check.reads == *measurement).ok_or("no such check")?;
        if (check.judge)(default, output).is_ok() {
            return Err(format!("{} accepts\n{output}", check.name));
        }
    }
    let wake = |ns: u32| format!("wakes times=300 min={ns} median={ns} p99={ns} max={ns}");
    let pairs = [
        wakes(&wake(10_001), &wake(8000)),
        equal("one\ntwo", "one\nthree"),
        equal("one", "one\ntwo"),
        different("repeat one", "repeat one"),
    ];
    if pairs.iter().any(Result::is_ok) { Err(format!("accepted: {pairs:?}")) } else { Ok(()) }
}
