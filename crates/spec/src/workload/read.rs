//! Reads programs and models. An error for a name that only the other table has says so.
use super::entry::find;
use super::parameters::{Parameters, Sizes};
use super::{Model, Program, model, program};
use crate::UsageError;

impl Program {
    /// Reads a program; sizes that are left out fit a machine with this number of CPUs.
    pub fn sized(text: &str, cpus: u32) -> Result<Self, UsageError> {
        let (entry, rest) = find(program::ENTRIES, text).map_err(|unknown| {
            if unknown.is_in(model::ENTRIES) {
                return UsageError(format!("`{text}` is a model: only the simulator has it (--on sim)"));
            }
            let forms: Vec<&str> = program::ENTRIES.iter().map(|entry| entry.form).collect();
            let message = unknown.message;
            UsageError(format!("{message}: {}, or any command after `--`", forms.join(", ")))
        })?;
        let mut words = Parameters::new(entry.form, rest, Sizes::Program { cpus: cpus.into() });
        let program = (entry.read)(&mut words)?;
        words.end()?;
        Ok(program)
    }
}

impl Model {
    /// Reads a model. A file that it names is only opened when it is loaded.
    pub fn read(text: &str) -> Result<Self, UsageError> {
        let (entry, rest) = find(model::ENTRIES, text).map_err(|unknown| {
            if unknown.is_in(program::ENTRIES) {
                return UsageError(format!("`{text}` is a program: the simulator has no model of it"));
            }
            UsageError(unknown.message)
        })?;
        let mut words = Parameters::new(entry.form, rest, Sizes::Model);
        let model = (entry.read)(&mut words)?;
        words.end()?;
        Ok(model)
    }
}

impl TryFrom<String> for Model {
    type Error = UsageError;

    fn try_from(text: String) -> Result<Self, UsageError> {
        Self::read(&text)
    }
}
