//! The machines, and the output of one of them.
use flsched_vm::{Accel, Catalog, Clock, GuestCommand, Parallel, Topology, Vm, VmSpec, programs_in};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::thread::spawn;

const KERNEL: &str = "6.18";

pub struct Machine {
    pub name: &'static str,
    pub cpus: u32,
    /// Each with a last-level cache.
    pub sockets: u32,
    clock: &'static str,
    /// By the names of the guest's measurements.
    pub measurements: &'static [&'static str],
    /// Not booted every time.
    pub is_extra: bool,
}

const fn machine(
    name: &'static str,
    cpus: u32,
    clock: &'static str,
    measurements: &'static [&'static str],
) -> Machine {
    Machine { name, cpus, sockets: 1, clock, measurements, is_extra: cpus > 16 }
}

const SEEDED: &[&str] = &["repeat", "stamps", "pauses"];
const MODELLED: &[&str] = &["memory", "repeat"];

pub const MACHINES: &[Machine] = &[
    machine("default", 4, "parallel", &["spins", "stamps", "timers", "ticks", "pauses", "wakes"]),
    machine("short", 4, "parallel:turn=250,pause=300", &["stamps", "pauses", "wakes"]),
    machine("seed1", 4, "parallel:pause=40,jitter=1", SEEDED),
    machine("seed1-again", 4, "parallel:pause=40,jitter=1", SEEDED),
    machine("seed2", 4, "parallel:pause=40,jitter=2", SEEDED),
    Machine { is_extra: true, ..machine("memory", 4, "parallel:memory=server", MODELLED) },
    Machine { is_extra: true, ..machine("memory-again", 4, "parallel:memory=server", MODELLED) },
    Machine { is_extra: true, ..machine("memory-short", 4, "parallel:turn=25,memory=server", &["memory"]) },
    Machine { sockets: 2, is_extra: true, ..machine("memory-far", 4, "parallel:memory=server", &["memory"]) },
    Machine { is_extra: true, ..machine("memory-sixteen", 16, "parallel:memory=server", &["memory"]) },
    machine("sixteen", 16, "parallel", &["spins", "stamps"]),
    machine("sixty-four", 64, "parallel", &["spins", "stamps"]),
    WORK,
];

/// All CPUs share one clock there, so the checks of the parallel clock must fail.
pub const WORK: Machine =
    Machine { is_extra: true, ..machine("work", 4, "work", &["spins", "stamps", "pauses"]) };

/// The whole output of a machine, or why it did not finish.
pub type Output = Result<String, String>;

/// A line of a measurement: its numbers by their names.
#[derive(Debug)]
pub struct Reading(BTreeMap<String, f64>);

impl Reading {
    pub fn get(&self, name: &str) -> Result<f64, String> {
        self.0.get(name).copied().ok_or_else(|| format!("no `{name}` in {:?}", self.0))
    }
}

/// Those of one measurement; at least one.
pub fn readings(output: &str, measurement: &str) -> Result<Vec<Reading>, String> {
    let read = |line: &str| {
        let words = line.strip_prefix(measurement)?.strip_prefix(' ')?.split(' ');
        let numbers = words.filter_map(|word| word.split_once('='));
        Some(Reading(numbers.filter_map(|(name, text)| Some((name.into(), text.parse().ok()?))).collect()))
    };
    let all: Vec<Reading> = output.lines().filter_map(read).collect();
    if all.is_empty() {
        Err(format!("no {measurement} in what the machine printed:\n{output}"))
    } else {
        Ok(all)
    }
}

impl Machine {
    /// Instructions by which CPUs can be apart: a round, at its longest.
    pub fn turn(&self) -> f64 {
        let settings = self.settings();
        if settings.jitter.is_some() { 2000.0 } else { settings.turn.into() }
    }

    /// What PAUSE costs, in ns.
    pub fn pause(&self) -> f64 {
        self.settings().pause_ns.into()
    }

    /// Where there are none, as they would be by default.
    fn settings(&self) -> Parallel {
        match self.clock() {
            Clock::Parallel(settings) => settings,
            Clock::Work | Clock::Wall => Parallel::default(),
        }
    }

    fn clock(&self) -> Clock {
        self.clock.parse().expect("a clock")
    }

    pub fn boot(&self) -> Output {
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut argv: Vec<OsString> = vec![me.into(), "--guest".into()];
        argv.extend(self.measurements.iter().map(OsString::from));
        let catalog = Catalog::open(Box::new(|line| eprintln!("{line}"))).map_err(|e| e.to_string())?;
        let kernel = catalog.resolve(&KERNEL.parse().expect("a version")).map_err(|e| e.to_string())?;
        let mut programs = programs_in(&argv);
        if self.measurements.contains(&"repeat") {
            programs.push("/usr/bin/hackbench".into());
        }
        let spec = VmSpec {
            clock: self.clock(),
            accel: Accel::Tcg,
            memory_mib: 512 + 16 * self.cpus,
            programs,
            ..VmSpec::new(
                kernel,
                Topology { sockets: self.sockets, cores: self.cpus / self.sockets, ..Topology::flat(1) },
            )
        };
        let mut vm = Vm::start(&spec, &GuestCommand { argv, env: Vec::new() }).map_err(|e| e.to_string())?;
        // If the input ends, process 1 polls it a hundred times a second.
        let input = vm.take_stdin();
        let outputs = [vm.take_stdout(), vm.take_stderr()].map(|stream| {
            spawn(move || {
                let mut text = String::new();
                if let Some(mut stream) = stream {
                    // What cannot be read is missing, and then a reading is.
                    let _ = stream.read_to_string(&mut text);
                }
                text
            })
        });
        let exit = vm.wait().map_err(|e| e.to_string());
        drop(input);
        let [output, errors] = outputs.map(|thread| thread.join().unwrap_or_default());
        let exit = exit.map_err(|e| format!("{e}\nIt printed:\n{output}{errors}"))?;
        for line in output.lines() {
            eprintln!("{}: {line}", self.name);
        }
        if exit.exit_code() == 0 {
            Ok(output)
        } else {
            Err(format!("{exit:?}\nIt printed:\n{output}{errors}"))
        }
    }
}
