//! `loads.toml`: the loads, in the order in which they are run.
use serde::Deserialize;

const FILE: &str = include_str!("loads.toml");
/// Instances a CPU, unless a load has its own.
pub const PER_CPU: [u32; 3] = [1, 4, 32];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    load: Vec<Load>,
}

/// One load: a stressor of stress-ng, or a command.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// It is the stressor's, too, unless there is one of another name, or a command.
    pub name: String,
    pub stressor: Option<String>,
    /// Further options of stress-ng.
    #[serde(default)]
    pub options: String,
    /// Words before `stress-ng`, such as `nice -n 19`.
    #[serde(default)]
    pub under: String,
    /// Instead of stress-ng. `{n}`: instances; `{s}`: seconds; `load` as the program: one of the test's own.
    pub command: Option<String>,
    /// Where its rate comes from.
    #[serde(default)]
    pub rate: Rate,
    /// Seconds of guest time, unless the test's default will do.
    pub seconds: Option<u32>,
    /// Instances a CPU, unless the usual ones will do.
    pub per_cpu: Option<Vec<u32>>,
    /// It has real-time or deadline tasks. They come before all others, under any scheduler.
    #[serde(default)]
    pub realtime: bool,
}

/// Where a load's operations per second come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// stress-ng's bogo operations, or what a load of the test's own prints.
    #[default]
    Reported,
    /// It does a certain amount of work: one over its time.
    Elapsed,
    /// It has none: it does the same in the same time, however it is scheduled.
    None,
}

impl Load {
    pub fn all() -> Result<Vec<Self>, String> {
        let file: File = toml::from_str(FILE).map_err(|error| format!("loads.toml: {error}"))?;
        Ok(file.load)
    }

    /// Whether it is run with so many instances a CPU.
    pub fn is_run_with(&self, per_cpu: u32) -> bool {
        self.per_cpu.as_deref().unwrap_or(&PER_CPU).contains(&per_cpu)
    }

    /// Its command line, without the files that the test adds.
    pub fn command(&self, instances: u32, seconds: u32) -> String {
        match &self.command {
            Some(command) => {
                command.replace("{n}", &instances.to_string()).replace("{s}", &seconds.to_string())
            }
            None => {
                let stressor = self.stressor.as_ref().unwrap_or(&self.name);
                let parts = [
                    self.under.clone(),
                    format!("stress-ng --{stressor} {instances}"),
                    self.options.clone(),
                    format!("-t {seconds}"),
                ];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_sound() {
        let loads = Load::all().unwrap();
        let mut names: Vec<_> = loads.iter().map(|load| &load.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), loads.len(), "a name occurs twice");
        let stressors = loads.iter().filter(|load| load.command.is_none()).count();
        assert!(stressors >= 40, "{stressors}");
        for load in &loads {
            let is_stress_ng = load.command.is_none();
            let has_its_options =
                load.stressor.is_some() || !load.options.is_empty() || !load.under.is_empty();
            assert!(is_stress_ng || !has_its_options, "{}: options beside a command", load.name);
            assert!(load.is_run_with(1) || load.is_run_with(4) || load.is_run_with(32), "{}", load.name);
        }
    }

    #[test]
    fn a_command_has_its_numbers() {
        let load = |text: &str| toml::from_str::<Load>(text).unwrap();
        assert_eq!(load("name = 'pipe'").command(8, 1), "stress-ng --pipe 8 -t 1");
        let background =
            load("name = 'b'\nstressor = 'cpu'\nunder = 'nice -n 19'\noptions = '--cpu-method int64'");
        assert_eq!(background.command(8, 2), "nice -n 19 stress-ng --cpu 8 --cpu-method int64 -t 2");
        assert_eq!(load("name = 'c'\ncommand = 'load crowd {n} {s}'").command(8, 2), "load crowd 8 2");
    }
}
