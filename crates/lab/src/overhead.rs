//! What scheduling itself costs: reports of `flsched-lab locks` and `flsched-lab costs` in a virtual machine.
use crate::store::kept;
use flsched_probes::{CostsReport, LocksReport, Machine};
use flsched_spec::PolicySpec;
use serde::Deserialize;

/// One command, one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// Its report's name under `results/`.
    pub file: String,
    /// Which of the two.
    pub command: Command,
    /// `--kernel` of the machine.
    pub kernel: String,
    /// `--cpus`.
    pub cpus: u32,
    /// `--clock`.
    pub clock: String,
    /// `--policy`.
    pub policy: PolicySpec,
    /// The load while it is measured, as a shell would read it.
    pub load: String,
}

/// `flsched-lab locks` or `flsched-lab costs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Which locks scheduling takes.
    Locks,
    /// How long its functions take.
    Costs,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Costs => "costs",
        }
    }
}

impl Overhead {
    /// The words after `flsched`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = ["vm", "--kernel", &self.kernel, "--cpus"].map(Into::into).into();
        words.push(self.cpus.to_string());
        words.extend(["--clock", &self.clock].map(Into::into));
        let load = shell_words::split(&self.load).unwrap_or_default();
        // The machine contains the program that its command names first; others have to be
        // included.
        let program = load.first().and_then(|name| which::which(name).ok());
        words.extend(program.into_iter().flat_map(|it| ["--include".into(), it.display().to_string()]));
        words.extend(["--", "flsched-lab", self.command.name(), "--json", "--policy"].map(Into::into));
        words.push(self.policy.to_string());
        words.push("--".into());
        words.extend(load);
        words
    }

    /// A finished report. The error continues a sentence that begins with the name of the file.
    pub fn check(&self, bytes: &[u8]) -> Result<(), String> {
        match self.command {
            Command::Locks => parse_locks(bytes).map(drop),
            Command::Costs => parse_costs(bytes).map(drop),
        }
    }

    /// Whether this report is what would be measured now.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let measured: Option<Measured> = serde_json::from_slice(bytes).ok();
        let is_same =
            |it: Measured| self.is_on(&it.machine) && it.command == self.load && it.policy == self.policy;
        self.check(bytes).is_ok() && measured.is_some_and(is_same)
    }

    fn is_on(&self, machine: &Machine) -> bool {
        machine.kernel.starts_with(&self.kernel)
            && u32::try_from(machine.cpus) == Ok(self.cpus)
            && machine.clock.as_deref() == Some(&self.clock)
    }
}

/// What the reports of both commands begin with.
#[derive(Deserialize)]
struct Measured {
    #[serde(flatten)]
    machine: Machine,
    command: String,
    policy: PolicySpec,
}

/// A report of `flsched-lab locks`.
pub fn parse_locks(bytes: &[u8]) -> Result<LocksReport, String> {
    kept(bytes)
}

/// A report of `flsched-lab costs`.
pub fn parse_costs(bytes: &[u8]) -> Result<CostsReport, String> {
    kept(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with hardly anything in it.
    pub(crate) const COSTS: &str = r#"{
        "kernel": "6.18.15+deb13-cloud-amd64", "cpus": 4, "clock": "work",
        "command": "sleep 1", "policy": "flsched", "version": "0.1.0",
        "probe": { "inside_ns": 150.0, "whole_ns": 500.0 }, "run_s": [1.0, 2.0], "probed_run_s": [1.5, 2.5],
        "functions": [{
            "role": "enqueue_task",
            "fair": { "state": "measured", "symbol": "enqueue_task_fair", "calls": 1200, "mean_ns": 90.4, "median_ns": 88.0 },
            "scx": { "state": "absent" }
        }],
        "callbacks": [{ "name": "tick", "calls": 7, "mean_ns": 12.0 }]
    }"#;

    fn costs(kernel: &str, cpus: u32) -> Overhead {
        Overhead {
            file: "costs.json".into(),
            command: Command::Costs,
            kernel: kernel.into(),
            cpus,
            clock: "work".into(),
            policy: "flsched".parse().unwrap(),
            load: "sleep 1".into(),
        }
    }

    #[test]
    fn a_report_is_of_its_command_line() {
        let report = COSTS.as_bytes();
        assert!(costs("6.18", 4).is_of(report));
        assert!(!costs("7.3", 4).is_of(report));
        assert!(!costs("6.18", 16).is_of(report));
        assert!(!Overhead { load: "sleep 2".into(), ..costs("6.18", 4) }.is_of(report));
        assert!(!Overhead { policy: "flsched_paper".parse().unwrap(), ..costs("6.18", 4) }.is_of(report));
        assert!(!Overhead { command: Command::Locks, ..costs("6.18", 4) }.is_of(report));
        assert!(costs("6.18", 4).check(b"{}").unwrap_err().starts_with("is not a report of kind `costs`"));
    }

    #[test]
    fn the_load_comes_last_and_is_included() {
        let words = costs("6.18", 4).arguments().join(" ");
        assert!(words.starts_with("vm --kernel 6.18 --cpus 4 --clock work --include /"), "{words}");
        assert!(words.ends_with("-- flsched-lab costs --json --policy flsched -- sleep 1"), "{words}");
    }
}
