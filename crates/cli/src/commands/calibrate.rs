//! `flsched calibrate`: what scheduling costs on this machine, as TOML.
use crate::args;
use anyhow::Result;
use flsched_machine::measure::{calibrate, fragment};
use std::io::{self, Write};

pub fn run(args: &args::Calibrate) -> Result<u8> {
    let found = calibrate(args.batches as usize)?;
    io::stdout().write_all(fragment::render(&found).as_bytes())?;
    Ok(0)
}
