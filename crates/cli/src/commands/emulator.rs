//! `flsched emulator`: the QEMU of the parallel clock.
use crate::args::{Emulator, EmulatorAction};
use crate::progress::Progress;
use crate::signals;
use anyhow::Result;
use flsched_vm::emulator::{self, Built};
use flsched_vm::{Arch, VmError};
use std::io::{self, Write};

pub fn run(args: &Emulator) -> Result<u8> {
    match args.action {
        EmulatorAction::Build { arch } => build(arch),
        EmulatorAction::Status { arch } => {
            writeln!(io::stdout(), "{}", emulator::find_for(arch).map_err(VmError::from)?.qemu.display())?;
            Ok(0)
        }
    }
}

fn build(arch: Arch) -> Result<u8> {
    let cancel = signals::stop_flag()?;
    let progress = Progress::start();
    let reporter = progress.clone();
    let built = emulator::build(arch, &move |line| reporter.report(line), &cancel);
    progress.end();
    match built.map_err(VmError::from)? {
        Built::Before(emulator) => writeln!(io::stdout(), "{} is there already", emulator.qemu.display())?,
        Built::Now(emulator, time) => {
            writeln!(io::stdout(), "built {} in {:.0} s", emulator.qemu.display(), time.as_secs_f64())?;
        }
    }
    Ok(0)
}
