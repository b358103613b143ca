//! `flsched sim fuzz`: scenarios drawn by chance.
use super::sim::write;
use crate::args;
use crate::exit::{FAILURE, Usage};
use crate::policy_file;
use anyhow::Result;
use flsched_sim::scenario::{self, Scenario};
use flsched_spec::{Scheduler, Target};
use std::io::{self, Write};
use std::ops::Range;

/// Scenarios of a range of seeds.
pub fn fuzz(args: &args::Fuzz) -> Result<u8> {
    policy_file::add_all(&args.policies, true)?;
    for scheduler in &args.schedulers {
        Scheduler::read(scheduler, Target::Sim)?;
    }
    if !args.out.is_dir() {
        return Err(Usage(format!("--out {}: is not a folder", args.out.display())).into());
    }
    let mut out = io::stdout().lock();
    let mut say = |line: String| -> Result<()> {
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    };
    let mut lines = Vec::new();
    let before = |seed: u64, scenario: &Scenario| say(format!("seed {seed}: {}", scenario.summary()));
    let found = |finding: scenario::Finding| {
        let path = args.out.join(format!("fuzz-{}.toml", finding.seed));
        write(&path, finding.scenario.to_toml()?.as_bytes())?;
        lines.push(format!("seed {}: {}\n  {}", finding.seed, finding.violation, path.display()));
        Ok(())
    };
    let failed = scenario::fuzz(args.seeds.0.clone(), &args.schedulers, args.jobs.into(), before, found)?;
    for line in lines {
        say(line)?;
    }
    let count = args.seeds.0.end - args.seeds.0.start;
    say(format!("{failed} of {count} seeds failed"))?;
    if failed > 0 {
        say("flsched sim replay FILE shows one again".to_owned())?;
    }
    Ok(if failed > 0 { FAILURE } else { 0 })
}

/// `A..B`: from A to B - 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Range<u64>);

impl std::str::FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, ""));
        let from: u64 = from.parse().map_err(|_| format!("{text} is not A..B, two whole numbers"))?;
        let to = match to {
            "" if !text.contains("..") => from.checked_add(1),
            _ => to.parse().ok(),
        };
        match to {
            Some(to) if to > from => Ok(Self(from..to)),
            Some(_) => Err(format!("{text} is empty: it ends before it begins")),
            None => Err(format!("{text} is not A..B, two whole numbers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_one_or_a_range() {
        assert_eq!("0..10".parse(), Ok(Seeds(0..10)));
        assert_eq!("7".parse(), Ok(Seeds(7..8)));
        for bad in ["", "x", "5..5", "6..5", "1..", "..4", "1..2..3", "-1..3", "18446744073709551615"] {
            assert!(bad.parse::<Seeds>().is_err(), "{bad}");
        }
    }
}
