//! How results depend on one number: reports of `flsched sim sweep`.
use crate::command;
use crate::papers::text::one_line;
use crate::patched;
use crate::sets::{plain, text};
use crate::store::kept;
use flsched_sim::sweep::Report;
use serde::Deserialize;
use toml::Table;

/// One `flsched sim sweep`, one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Its report's name under `results/`.
    pub file: String,
    /// `--machine`.
    pub machine: String,
    /// `--policy`, each: copies of a policy, changed by a patch.
    #[serde(default)]
    pub patched: Vec<String>,
    /// `--schedulers`.
    pub schedulers: Vec<String>,
    /// `--set`, each.
    pub set: Vec<String>,
    /// `--workload`.
    pub workload: String,
    /// `--runs`.
    pub runs: u64,
    /// `--seed`.
    pub seed: u64,
}

/// One `[[sweep]]`.
pub(crate) fn read(table: Table) -> Result<Sweep, String> {
    let file = text(&table, "file").map_err(|error| format!("a sweep: {error}"))?;
    let within = |error: String| format!("sweep `{file}`: {error}");
    plain(&file).map_err(within)?;
    if !file.ends_with(".json") {
        return Err(within("`file` must end with .json".into()));
    }
    table.try_into().map_err(|error: toml::de::Error| within(one_line(&error)))
}

impl Sweep {
    /// The words after `flsched`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = ["sim", "sweep", "--machine", &self.machine].map(Into::into).into();
        for name in &self.patched {
            words.extend(["--policy".into(), patched::file(name).display().to_string()]);
        }
        words.extend(["--schedulers".into(), self.schedulers.join(",")]);
        for setting in &self.set {
            words.extend(["--set".into(), setting.clone()]);
        }
        let numbers = [("--runs", self.runs), ("--seed", self.seed)];
        words.extend(numbers.iter().flat_map(|(option, number)| [(*option).into(), number.to_string()]));
        words.extend(["--workload".into(), self.workload.clone()]);
        words
    }

    /// Whether this report was measured by the same command line.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        parse(bytes).is_ok_and(|it| it.command_line == command::line_of(&self.arguments()))
    }
}

/// A report from its bytes. The error continues a sentence that begins with the name of the file.
pub fn parse(bytes: &[u8]) -> Result<Report, String> {
    kept(bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// CFS is slower from the second value on.
    pub(crate) fn report() -> Report {
        let curve = |scheduler: &str, times_s: [[f64; 2]; 3]| flsched_sim::sweep::Curve {
            scheduler: scheduler.into(),
            times_s: times_s.map(|times| times.to_vec()).to_vec(),
            context_switches: vec![vec![1, 2]; 3],
            migrations: vec![vec![3, 4]; 3],
        };
        Report {
            flsched_version: "0.1.0".into(),
            command_line:
                "flsched sim sweep --machine knc-31s1p --schedulers cfs,fifo --set 'tick_hz=100..300:3' \
                           --runs 2 --seed 1 --workload hogs:8:1"
                    .into(),
            machine: "knc-31s1p".into(),
            workload: "hogs:8:1".into(),
            setting: "tick_hz".into(),
            is_list: false,
            values: ["100", "200", "300"].map(Into::into).into(),
            seed: 1,
            runs: 2,
            curves: vec![
                curve("cfs", [[1.0, 1.2], [1.5, 1.5], [2.0, 2.0]]),
                curve("fifo", [[1.1, 1.3], [1.2, 1.2], [1.2, 1.2]]),
            ],
        }
    }

    #[test]
    fn a_report_is_of_its_command_line() {
        let of = |file: &str| -> Result<Sweep, String> {
            let text = format!(
                "file = \"{file}\"\nmachine = \"knc-31s1p\"\nschedulers = [\"cfs\", \"fifo\"]\n\
                 set = [\"tick_hz=100..300:3\"]\nworkload = \"hogs:8:1\"\nruns = 2\nseed = 1"
            );
            read(text.parse().unwrap())
        };
        let bytes = flsched_base::reports::bytes(&report()).unwrap();
        let sweep = of("a.json").unwrap();
        assert!(sweep.is_of(&bytes), "{:?}", sweep.arguments());
        assert!(!Sweep { runs: 3, ..sweep }.is_of(&bytes));
        assert!(of("a.csv").unwrap_err().contains("must end with .json"));
        assert!(parse(b"{}").unwrap_err().starts_with("is not a report of kind `sweep`"));
    }
}
