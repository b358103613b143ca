//! Where a workload runs under a scheduler.
use serde::{Deserialize, Serialize};

/// Where runs are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// On this machine, under its own kernel.
    Host,
    /// In a virtual machine on this machine.
    Vm,
    /// In the simulator, without a kernel.
    Sim,
}

impl Target {
    /// In the order in which help lists them.
    pub const ALL: [Self; 3] = [Self::Host, Self::Vm, Self::Sim];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Vm => "vm",
            Self::Sim => "sim",
        }
    }

    /// A line for help texts.
    pub fn doc(self) -> &'static str {
        match self {
            Self::Host => "This machine and its kernel",
            Self::Vm => "A virtual machine with a stock kernel",
            Self::Sim => "The simulator, on a model of a machine",
        }
    }
}
