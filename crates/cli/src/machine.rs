//! The machine that the command line describes, virtual or simulated.
use crate::args::{Accel, Cgroup};
use crate::exit::Usage;
use crate::progress::Progress;
use anyhow::Result;
use flsched_machine::{Machine, Setting};
use flsched_spec::workload::{Format, Model, ScriptFile};
use flsched_vm::{BtfHealth, Catalog, Kernel, KernelRequest, Memory, Topology};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// `--cpus` or `--topology`.
pub fn topology(cpus: Option<u32>, topology: Option<&str>, default_cpus: u32) -> Result<Topology, Usage> {
    match topology {
        Some(text) => text.parse().map_err(|e| Usage(format!("--topology {text}: {e}"))),
        None => {
            let topology = Topology::flat(cpus.unwrap_or(default_cpus));
            topology.check().map_err(|e| Usage(format!("--cpus {}: {e}", topology.cpus())))?;
            Ok(topology)
        }
    }
}

/// `--memory`, or what fits the CPUs.
pub fn memory(text: Option<&str>, cpus: u32) -> Result<Memory, Usage> {
    let Some(text) = text else { return Ok(Memory::for_cpus(cpus)) };
    text.parse().map_err(|e| Usage(format!("--memory {text}: {e}")))
}

/// Finds the kernel, downloading it if need be, and warns of one on which no scheduler loads.
pub fn kernel(request: &str, progress: &Progress, cancel: &Arc<AtomicBool>) -> Result<Kernel> {
    let request: KernelRequest = request.parse().map_err(|e| Usage(format!("--kernel {request}: {e}")))?;
    let reporter = progress.clone();
    let catalog =
        Catalog::open(Box::new(move |line| reporter.report(line))).map_err(flsched_vm::VmError::from)?;
    let kernel = catalog.with_cancel(cancel.clone()).resolve(&request).map_err(flsched_vm::VmError::from)?;
    if let BtfHealth::Unknown(why) = &kernel.btf {
        progress.report(&format!("whether schedulers load on {} is not known: {why}", kernel.release));
    }
    Ok(kernel)
}

/// The machine to simulate if none is named.
const DEFAULT_SIMULATED: &str = "knc-31s1p";

/// A simulated machine, as it is or with another number of CPUs and with other values in its file. If none is named, a
/// recorded load gets the machine on which it was recorded.
pub fn simulated(
    name: Option<&str>,
    workload: Option<&Model>,
    cpus: Option<usize>,
    settings: &[Setting],
) -> Result<Machine, flsched_machine::Error> {
    let machine = match (name, recording_of(workload)) {
        (None, Some(path)) => Machine::of_recording(path, settings)?,
        (name, _) => Machine::find_with(name.unwrap_or(DEFAULT_SIMULATED), settings)?,
    };
    match cpus {
        Some(count) => machine.with_cpus(count),
        None => Ok(machine),
    }
}

/// What [`simulated`] takes if no machine is named.
pub fn default_simulated(workload: Option<&Model>) -> &str {
    recording_of(workload).unwrap_or(DEFAULT_SIMULATED)
}

/// The file of a recorded load.
fn recording_of(workload: Option<&Model>) -> Option<&str> {
    match workload {
        Some(Model::Script(ScriptFile { format: Format::Trace, path })) => {
            Some(&path[..]).filter(|path| Machine::is_of_recording(path))
        }
        _ => None,
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
    fn refuses_machines_without_cpus() {
        assert_eq!(topology(Some(4), None, 2).unwrap().cpus(), 4);
        assert_eq!(topology(None, Some("2s2c2t"), 2).unwrap().cpus(), 8);
        assert!(topology(Some(0), None, 2).is_err());
        assert!(topology(None, Some("2x2"), 2).is_err());
    }
}
