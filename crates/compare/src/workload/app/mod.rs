//! Programs that people know, as `apps/NAME.toml` describes them: what they need is found on this machine, their input
//! is made once and kept in the cache, and each run is done by the helper, which checks the result.
mod complaint;
mod input;
mod needs;
mod reading;
mod run;

pub use input::InputError;
pub use needs::{Missing, missing};
pub(super) use run::run;

use super::{Making, Measured, Runnable, ended_at, figures};
use flsched_spec::UsageError;
use flsched_spec::app::AppFile;
use flsched_spec::workload::App;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Makes the input unless the cache has it, and stores its path in `app`.
pub(super) fn build(app: &mut App, making: &Making<'_>) -> Result<(), InputError> {
    app.input = input::folder(app, making)?;
    Ok(())
}

/// The parameters, as variables of the scripts.
fn variables(file: &AppFile, values: &[String]) -> Vec<(String, String)> {
    file.parameters.iter().map(|it| it.name.clone()).zip(values.iter().cloned()).collect()
}

impl Runnable for App {
    fn argv(&self, helper: &[OsString], scratch: &Path) -> Vec<OsString> {
        let mut argv = helper.to_vec();
        argv.extend(["app".into(), self.name.clone().into()]);
        argv.extend(self.values.iter().map(OsString::from));
        argv.extend([self.input.clone().into(), scratch.into()]);
        argv
    }

    fn programs(&self) -> Result<Vec<PathBuf>, UsageError> {
        let found = needs::find(self.file()?).map_err(|missing| UsageError(missing.to_string()))?;
        Ok(found.programs)
    }

    fn files(&self) -> Result<Vec<PathBuf>, UsageError> {
        let found = needs::find(self.file()?).map_err(|missing| UsageError(missing.to_string()))?;
        Ok(found.files.into_iter().chain([self.input.clone()]).collect())
    }

    fn memory_mib(&self) -> u32 {
        self.file().map_or(0, |file| file.memory_mib)
    }

    fn measured(&self, output: &str, _elapsed_s: f64) -> Result<Measured, String> {
        Ok(Measured { ended_at: ended_at(output), figures: figures(output), ..Measured::printed(output)? })
    }
}
