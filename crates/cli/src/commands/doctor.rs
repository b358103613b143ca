//! `flsched doctor`: can this machine run it? Each finding with its remedy.
mod topology;

use crate::args;
use anyhow::Result;
use console::style;
use flsched_host::doctor::{Finding, Verdict, can_run, examine, ok, warning};
use flsched_vm::EmulatorError;
use std::io::{self, Write};

pub fn run(args: &args::Doctor) -> Result<u8> {
    if let Some(tarball) = &args.topology {
        return topology::run(tarball.as_deref(), args.json);
    }
    let mut findings = examine();
    findings.push(virtual_machines());
    findings.push(parallel_clock());
    let can_run = can_run(&findings);
    if args.json {
        let report = serde_json::json!({ "version": 1, "can_run": can_run, "findings": findings });
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        let mut out = io::stdout().lock();
        for finding in &findings {
            print(finding, &mut out)?;
        }
        let verdict = match can_run {
            true => "This machine can run FLSCHED.",
            false => "This machine cannot run FLSCHED as it is; the remedies are above.",
        };
        writeln!(out, "\n{verdict}")?;
    }
    Ok(u8::from(!can_run))
}

fn print(finding: &Finding, out: &mut impl Write) -> io::Result<()> {
    let mark = match finding.verdict {
        Verdict::Ok => style("ok  ").green(),
        Verdict::Warning => style("warn").yellow(),
        Verdict::Failure => style("FAIL").red().bold(),
    };
    writeln!(out, "{mark}  {:<12} {}", finding.check, finding.found)?;
    if let Some(remedy) = &finding.remedy {
        writeln!(out, "      {:<12} → {remedy}", "")?;
    }
    Ok(())
}

fn virtual_machines() -> Finding {
    const CHECK: &str = "vm";
    match flsched_vm::find_qemu(flsched_vm::Arch::HOST) {
        Ok(qemu) => ok(CHECK, format!("{} for flsched vm and flsched compare --on vm", qemu.display())),
        Err(error) => warning(
            CHECK,
            error.to_string(),
            "only flsched vm and flsched compare --on vm need it, on the clocks wall and work",
        ),
    }
}

fn parallel_clock() -> Finding {
    const CHECK: &str = "emulator";
    match flsched_vm::emulator::find() {
        Ok(emulator) => ok(CHECK, format!("{} for the parallel clock", emulator.qemu.display())),
        Err(EmulatorError::NotBuilt { .. }) => warning(
            CHECK,
            "the QEMU of the parallel clock is not built",
            "build it: flsched emulator build (about 4 minutes); the other clocks do not need it",
        ),
        Err(error) => warning(CHECK, error.to_string(), "the other clocks do not need it"),
    }
}
