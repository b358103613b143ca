//! `flsched sim fuzz`: random scenarios.
use crate::args;
use crate::files::write;
use anyhow::Result;
use flsched_compare::exit::FAILURE;
use flsched_host::policy_file;
use flsched_sim::scenario::{self, Scenario, Seeds};
use flsched_spec::UsageError;
use flsched_spec::{Scheduler, Target};
use nix::unistd::{AccessFlags, access};
use std::io::{self, Write};

/// A scenario each.
const DEFAULT_SEEDS: Seeds = Seeds(0..1000);

/// Scenarios of a range of seeds.
pub fn fuzz(args: &args::Fuzz) -> Result<u8> {
    policy_file::add_all(&args.policies, policy_file::On::Simulator)?;
    for scheduler in &args.schedulers {
        Scheduler::read(scheduler, Target::Sim)?;
    }
    if !args.out.is_dir() {
        return Err(UsageError(format!("--out: {} is not a folder", args.out.display())).into());
    }
    // Before hours of fuzzing, not at the first failure.
    access(&args.out, AccessFlags::W_OK).map_err(|errno| {
        UsageError(format!("--out: cannot write to {}: {}", args.out.display(), errno.desc()))
    })?;
    if args.adversary {
        return super::adversary::search(args);
    }
    let Seeds(seeds) = args.seeds.clone().unwrap_or(DEFAULT_SEEDS);
    let mut out = io::stdout().lock();
    let mut report = |line: String| -> Result<()> {
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    };
    let mut lines = Vec::new();
    let before = |seed: u64, scenario: &Scenario| report(format!("seed {seed}: {}", scenario.summary()));
    let found = |finding: scenario::Finding| {
        let path = args.out.join(format!("fuzz-{}.toml", finding.seed));
        write(&path, finding.scenario.to_toml()?.as_bytes())?;
        lines.push(format!("seed {}: {}\n  {}", finding.seed, finding.violation, path.display()));
        Ok(())
    };
    let failed =
        scenario::fuzz(seeds.clone(), &args.schedulers, args.jobs.unwrap_or(1).into(), before, found)?;
    for line in lines {
        report(line)?;
    }
    let count = seeds.end - seeds.start;
    report(format!("{failed} of {count} seeds failed"))?;
    if failed > 0 {
        report("flsched sim replay FILE shows one again".to_owned())?;
    }
    Ok(if failed > 0 { FAILURE } else { 0 })
}
