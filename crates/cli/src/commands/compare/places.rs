//! Which options belong to which place of a comparison.
//!
//! Clap's groups and conflicts know whether an option is given, not whether `--on`, or what it is by default, has a
//! certain value.
use crate::args::Compare;
use flsched_spec::Target::{self, Host, Sim, Vm};
use flsched_spec::UsageError;

type IsGiven = fn(&Compare) -> bool;

/// What not all places have. An option that is not here is for all of them.
const OPTIONS: [(&str, IsGiven, &[Target]); 12] = [
    ("--machine", |args| args.machine.is_some(), &[Sim]),
    ("--jobs", |args| args.jobs.is_some(), &[Sim]),
    ("--cpus", |args| args.cpus.is_some(), &[Vm, Sim]),
    ("--arch", |args| args.vm.arch.is_some(), &[Vm]),
    ("--topology", |args| args.vm.topology.is_some(), &[Vm]),
    ("--memory", |args| args.vm.memory.is_some(), &[Vm]),
    ("--kernel", |args| args.vm.kernel.is_some(), &[Vm]),
    ("--cgroup", |args| args.cgroup.is_some(), &[Vm]),
    ("--include", |args| !args.vm.include.is_empty(), &[Vm]),
    ("--npb", |args| args.npb.is_some(), &[Host, Vm]),
    ("--clock", |args| args.clock.is_some(), &[Host, Vm]),
    ("a command", |args| !args.command.is_empty(), &[Host, Vm]),
];

/// Refuses options that the place does not have.
pub fn check(args: &Compare, on: Target) -> Result<(), UsageError> {
    match OPTIONS.iter().find(|(_, is_given, places)| is_given(args) && !places.contains(&on)) {
        None => Ok(()),
        Some((option, _, places)) => {
            let here = match on {
                Host => "this machine itself",
                Vm => "a virtual machine",
                Sim => "the simulator, which runs models of programs",
            };
            let there: Vec<String> = places.iter().map(|place| format!("--on {}", place.name())).collect();
            Err(UsageError(format!("{option} is not for {here}: use it with {}", there.join(" or "))))
        }
    }
}
