//! The machine that the command line describes, virtual or simulated.
use crate::args::{Accel, Cgroup};
use crate::progress::Progress;
use anyhow::Result;
use flsched_machine::{Machine, Setting};
use flsched_sim::Error;
use flsched_sim::scenario::Scenario;
use flsched_spec::UsageError;
use flsched_spec::workload::{Format, Model, ScriptFile};
use flsched_vm::{Arch, BtfHealth, Catalog, Clock, Foreign, Kernel, KernelRequest, Memory, Topology};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `--cpus` or `--topology`.
pub fn topology(cpus: Option<u32>, topology: Option<&str>, clock: Clock) -> Result<Topology, UsageError> {
    match topology {
        Some(text) => {
            let check = |topology: Topology| clock.check_topology(&topology).map(|()| topology);
            text.parse().and_then(check).map_err(|e| UsageError(format!("--topology {text}: {e}")))
        }
        None => {
            let cpus = cpus.unwrap_or(clock.default_cpus());
            let wrong = |e| UsageError(format!("--cpus {cpus}: {e}"));
            Topology::flat(cpus).check().map_err(wrong)?;
            let topology = clock.topology(cpus).map_err(wrong)?;
            clock.check_topology(&topology).map_err(wrong)?;
            Ok(topology)
        }
    }
}

/// `--memory`, or what fits the CPUs.
pub fn memory(text: Option<&str>, cpus: u32) -> Result<Memory, UsageError> {
    let Some(text) = text else { return Ok(Memory::for_cpus(cpus)) };
    text.parse().map_err(|e| UsageError(format!("--memory {text}: {e}")))
}

/// Finds the kernel, downloading it if need be, and warns of one on which no scheduler loads; and what a machine of another
/// processor needs beside it.
pub fn kernel(
    request: &str,
    arch: Arch,
    progress: &Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<(Kernel, Option<Foreign>)> {
    let request: KernelRequest =
        request.parse().map_err(|e| UsageError(format!("--kernel {request}: {e}")))?;
    let catalog = catalog(progress, cancel)?.of(arch);
    let foreign = catalog.foreign()?;
    let kernel = catalog.resolve(&request).map_err(flsched_vm::VmError::from)?;
    if let BtfHealth::Unknown(why) = &kernel.btf {
        progress.report(&format!("whether schedulers load on {} is not known: {why}", kernel.release));
    }
    Ok((kernel, foreign))
}

/// The kernels that this machine has or can download.
pub fn catalog(progress: &Progress, cancel: &Arc<AtomicBool>) -> Result<Catalog> {
    let reporter = progress.clone();
    let catalog =
        Catalog::open(Box::new(move |line| reporter.report(line))).map_err(flsched_vm::VmError::from)?;
    Ok(catalog.with_cancel(cancel.clone()))
}

/// The machine to simulate if none is named.
const DEFAULT_SIMULATED: &str = "knc-31s1p";

/// Which machine to simulate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulated {
    machine: Source,
    cpus: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Named(String),
    Recording(String),
}

impl Simulated {
    /// With other values in its file.
    pub fn with(&self, settings: &[Setting]) -> Result<Machine, flsched_machine::Error> {
        let machine = match &self.machine {
            Source::Named(name) => Machine::find_with(name, settings)?,
            Source::Recording(path) => Machine::of_recording(path, settings)?,
        };
        match self.cpus {
            Some(count) => machine.with_cpus(count),
            None => Ok(machine),
        }
    }
}

/// `--machine` and `--cpus`. If one is left out, a scenario names it. If a recorded load is the only workload, the machine is
/// that of the recording.
pub fn simulated(name: Option<&str>, cpus: Option<usize>, workloads: &[&Model]) -> Result<Simulated, Error> {
    let scenarios = scenarios(workloads)?;
    let machine = match (name, workloads) {
        (Some(name), _) => Source::Named(name.into()),
        (None, [Model::Script(ScriptFile { format: Format::Trace, path })])
            if Machine::is_of_recording(path) =>
        {
            Source::Recording(path.clone())
        }
        (None, _) => {
            let own = common(&scenarios, "--machine", |scenario| scenario.machine.clone())?;
            Source::Named(own.unwrap_or_else(|| DEFAULT_SIMULATED.into()))
        }
    };
    let cpus = match cpus {
        Some(cpus) => Some(cpus),
        None => common(&scenarios, "--cpus", |scenario| scenario.cpus)?,
    };
    Ok(Simulated { machine, cpus })
}

/// Those among the workloads, with their files.
fn scenarios(workloads: &[&Model]) -> Result<Vec<(String, Scenario)>, Error> {
    let paths = workloads.iter().filter_map(|workload| match workload {
        Model::Scenario(path) => Some(path),
        _ => None,
    });
    paths.map(|path| Ok((path.clone(), Scenario::read(path)?))).collect()
}

/// What all of them name; `None`: there are none.
fn common<T: PartialEq + Display>(
    scenarios: &[(String, Scenario)],
    option: &str,
    of: impl Fn(&Scenario) -> T,
) -> Result<Option<T>, Error> {
    let Some(((path, first), others)) = scenarios.split_first() else { return Ok(None) };
    let first = of(first);
    match others.iter().map(|(path, other)| (path, of(other))).find(|(_, other)| *other != first) {
        None => Ok(Some(first)),
        Some((other_path, other)) => Err(Error::Usage(format!(
            "{path} is for {option} {first} and {other_path} for {option} {other}; all workloads of a comparison have \
             the same: set {option}, or compare the scenarios one by one"
        ))),
    }
}

/// Converts Clap's value into the library's.
pub fn cgroup(cgroup: Cgroup) -> flsched_vm::Cgroup {
    match cgroup {
        Cgroup::Login => flsched_vm::Cgroup::Login,
        Cgroup::Root => flsched_vm::Cgroup::Root,
    }
}

/// Converts Clap's value into the library's.
pub fn accel(accel: Accel) -> flsched_vm::Accel {
    match accel {
        Accel::Auto => flsched_vm::Accel::Auto,
        Accel::Kvm => flsched_vm::Accel::Kvm,
        Accel::Tcg => flsched_vm::Accel::Tcg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_name_their_machine() {
        let folder = tempfile::tempdir().unwrap();
        let scenario = |name: &str, machine: &str, cpus: u32| {
            let path = folder.path().join(name).display().to_string();
            let text = format!(
                "seed = 1\nmachine = \"{machine}\"\ncpus = {cpus}\nscheduler = \"fifo\"\nlimit_ms = 1000\n\
                 task = [{{ steps = [{{ run_us = 5 }}] }}]\n"
            );
            std::fs::write(&path, text).unwrap();
            Model::Scenario(path)
        };
        let (one, two) = (scenario("one", "ryzen-3400g", 4), scenario("two", "knc-31s1p", 4));
        let hogs = Model::read("hogs").unwrap();
        let machine = |name, cpus, workloads: &[&Model]| {
            let chosen = simulated(name, cpus, workloads).map_err(|error| error.to_string())?;
            Ok::<_, String>(chosen.with(&[]).unwrap().name)
        };
        assert_eq!(machine(None, None, &[&hogs]).unwrap(), "knc-31s1p");
        assert_eq!(machine(None, None, &[&hogs, &one]).unwrap(), "ryzen-3400g/4");
        assert_eq!(machine(Some("i7-2670qm"), None, &[&one, &two]).unwrap(), "i7-2670qm/4");
        assert_eq!(machine(Some("i7-2670qm"), Some(2), &[&one]).unwrap(), "i7-2670qm/2");
        let error = machine(None, None, &[&one, &two]).unwrap_err();
        assert!(error.contains("--machine ryzen-3400g") && error.contains("--machine knc-31s1p"), "{error}");
        let three = scenario("three", "ryzen-3400g", 2);
        let error = machine(None, None, &[&one, &three]).unwrap_err();
        assert!(error.contains("for --cpus 4") && error.contains("for --cpus 2"), "{error}");
    }

    #[test]
    fn refuses_machines_without_cpus() {
        let wall = Clock::Wall;
        assert_eq!(topology(Some(4), None, wall).unwrap().cpus(), 4);
        assert_eq!(topology(None, Some("2s2c2t"), wall).unwrap().cpus(), 8);
        assert_eq!(topology(None, None, wall).unwrap().cpus(), 2);
        assert!(topology(Some(0), None, wall).is_err());
        assert!(topology(None, Some("2x2"), wall).is_err());
        let memory: Clock = "parallel:memory=server".parse().unwrap();
        assert_eq!(topology(Some(16), None, memory).unwrap().to_string(), "2s8c1t");
        for (cpus, shape) in [(Some(0), None), (Some(12), None), (Some(128), None), (None, Some("65"))] {
            let error = topology(cpus, shape, memory).unwrap_err().0;
            assert!(error.starts_with("--cpus ") || error.starts_with("--topology "), "{error}");
        }
    }
}
