//! `flsched calibrate`: a machine file of this machine.
use crate::args;
use crate::files::{check, write};
use anyhow::Result;
use flsched_host::Frequencies;
use flsched_machine::measure::{Cpufreq, calibrate, describe};
use std::io::{self, Write};

/// Its name, unless it goes to a file.
const NAME: &str = "this-machine";

pub fn run(args: &args::Calibrate) -> Result<u8> {
    args.out.as_deref().map_or(Ok(()), check)?;
    let found = calibrate(args.batches as usize)?;
    let frequencies = Frequencies::of_this_machine();
    let cpufreq = Cpufreq { cpus: &frequencies.cpus, domains: &frequencies.domains };
    let stem = args.out.as_ref().and_then(|path| path.file_stem());
    let name = stem.map_or(NAME.into(), |stem| stem.to_string_lossy());
    let text = describe(&name, &found, cpufreq).to_toml();
    match &args.out {
        Some(path) => write(path, text.as_bytes())?,
        None => io::stdout().write_all(text.as_bytes())?,
    }
    Ok(0)
}
